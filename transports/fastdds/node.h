// A node: one participant, its publisher and subscriber, and the links that use them.

#ifndef TRIPMETER_FASTDDS_NODE_H
#define TRIPMETER_FASTDDS_NODE_H

#include "meeting.h"
#include "qos.h"
#include "settings.h"
#include "../common/fastdds/shared_memory.h"

#include <fastdds/dds/domain/DomainParticipant.hpp>

#include <memory>
#include <string>
#include <vector>

// A participant with its publisher and subscriber; removes them with all that they contain.
class Participant
{
  public:
    // Throws Failure.
    Participant(uint32_t domain, const eprosima::fastdds::dds::DomainParticipantQos& qos);
    ~Participant();
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

    eprosima::fastdds::dds::DomainParticipant* participant{};
    eprosima::fastdds::dds::Publisher* publisher{};
    eprosima::fastdds::dds::Subscriber* subscriber{};
};

struct tm_node {
    // Joins the domain; throws Failure.
    explicit tm_node(const tm_node_options& options);
    // Leaves the domain, before destruction. False if Fast DDS hangs: then the node must not be destroyed.
    bool leave() noexcept;
    ~tm_node();
    tm_node(const tm_node&) = delete;
    tm_node& operator=(const tm_node&) = delete;

    // Leaves and joins again with all links: the remedy for a TCP client whose discovery has failed.
    void rejoin();

    // True if this end can repair its discovery by joining again.
    bool is_tcp_client() const
    {
        return end.settings.way == Way::tcp && !end.is_leader;
    }

    // Called when the peer is connected: removes keys that nobody needs any more, and notes names for the host.
    void connected();

    const End end;
    const std::string run_id;
    const uint32_t wait;
    const bool is_unauthorized;
    std::unique_ptr<Participant> joined;
    std::vector<tm_link*> links;
    std::vector<std::unique_ptr<tm_link>> retired; // links that leave with the node

  private:
    void join();
    void join_with_room(const std::string& lock);
    void join_as_tcp_leader();

    const std::string leaving_; // file that the leaving process locks
    Meeting meeting_;
    SharedMemoryNotes notes_;
};

#endif // TRIPMETER_FASTDDS_NODE_H
