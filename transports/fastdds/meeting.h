// Agreement of the processes of a run: domain, address and port, credentials. Its files lie in a folder of the run's
// scratch folder, from where they are copied to other hosts.

#ifndef TRIPMETER_FASTDDS_MEETING_H
#define TRIPMETER_FASTDDS_MEETING_H

#include "../common/fastdds/agreement.h"
#include "settings.h"

#include <chrono>
#include <string>

class Meeting
{
  public:
    // The first process chooses the domain, and makes the credentials if any are needed; an unauthorized peer never
    // does. Throws Failure.
    Meeting(const tm_node_options& options, const Settings& settings);

    uint32_t domain() const
    {
        return domain_;
    }

    // Address of the leader.
    const std::string& leader() const
    {
        return leader_;
    }

    // Folder of the credentials: the true pair's, or an own one for an unauthorized peer with foreign credentials.
    const std::string& credentials() const
    {
        return credentials_;
    }

    // Releases the claim on the domain: our open sockets now show that it is in use.
    void settled()
    {
        claim_ = Descriptor();
    }

    // Writes the port at which the leader listens.
    void tell_port(uint16_t port) const;

    // Waits for the port at which the leader listens. Throws Failure after `time`.
    uint16_t hear_port(std::chrono::milliseconds time) const;

  private:
    void agree(const tm_node_options& options, const Settings& settings);

    std::string folder_;
    std::string credentials_;
    std::string leader_;
    uint32_t domain_{};
    Descriptor claim_;
};

// A free TCP port of the address. Throws Failure.
uint16_t free_tcp_port(const std::string& address);

// True if a socket of this process listens at the TCP port.
bool listens_at(uint16_t port);

#endif // TRIPMETER_FASTDDS_MEETING_H
