// What the processes of one run agree on: domain, address and port, credentials. It stands in a folder of the run's
// scratch folder, and is sent from there to other hosts.

#ifndef TRIPMETER_FASTDDS_MEETING_H
#define TRIPMETER_FASTDDS_MEETING_H

#include "../common/fastdds/agreement.h"
#include "settings.h"

#include <chrono>
#include <string>

class Meeting
{
  public:
    // Whoever comes first decides on the domain, and makes the credentials, if any are needed; an unauthorized peer never does.
    // Throws Failure.
    Meeting(const tm_node_options& options, const Settings& settings);

    uint32_t domain() const
    {
        return domain_;
    }

    // Where the leader is found.
    const std::string& leader() const
    {
        return leader_;
    }

    // Folder of the credentials of the true pair, or, of an unauthorized peer with foreign ones, of a folder of its own.
    const std::string& credentials() const
    {
        return credentials_;
    }

    // The domain is now taken visibly, because our sockets are open: the claim on it can go.
    void settled()
    {
        claim_ = Descriptor();
    }

    // Tells the port that the leader listens at.
    void tell_port(uint16_t port) const;

    // The port that the leader listens at; waits for it. Throws Failure after the time.
    uint16_t hear_port(std::chrono::milliseconds time) const;

  private:
    void agree(const tm_node_options& options, const Settings& settings);

    std::string folder_;
    std::string credentials_;
    std::string leader_;
    uint32_t domain_{};
    Descriptor claim_;
};

// A TCP port of that address that is free now. Throws Failure.
uint16_t free_tcp_port(const std::string& address);

// Whether a socket of this process listens at a TCP port.
bool listens_at(uint16_t port);

#endif // TRIPMETER_FASTDDS_MEETING_H
