// A node: a ROS 2 node with its own context, in the domain of the run.

#ifndef TRIPMETER_ROS2_NODE_H
#define TRIPMETER_ROS2_NODE_H

#include "rcl.h"
#include "settings.h"

#include "../common/fastdds/agreement.h"
#include "../common/fastdds/shared_memory.h"

#include <memory>
#include <string>
#include <vector>

// A context and a node in it.
class Context
{
  public:
    // Joins; throws Failure.
    Context(uint32_t domain, const std::string& name);
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    rcl_context_t context;
    rcl_node_t node;
};

struct tm_link;

struct tm_node {
    // Joins; throws Failure.
    explicit tm_node(const tm_node_options& options);
    // Leaves the domain, before destruction. False if Fast DDS hangs: then the node must not be destroyed.
    bool leave() noexcept;
    tm_node(const tm_node&) = delete;
    tm_node& operator=(const tm_node&) = delete;

    // Name of a link's topic or service; `what` is its last part.
    std::string name(uint32_t link, const char* what) const;
    // QoS of both directions.
    rmw_qos_profile_t qos() const;
    // Called when the peer is connected: notes names for the host.
    void connected()
    {
        notes_.note();
    }

    const Settings settings;
    const bool is_leader;
    const uint32_t wait;
    const uint32_t follower_index;
    const bool has_publishers; // several, on one topic
    std::vector<tm_link*> links; // filled only if there are several publishers
    const uint64_t max_payload_bytes;
    std::unique_ptr<Context> joined;
    std::vector<std::unique_ptr<tm_link>> closed; // links that leave with the node

  private:
    ClaimedDomain agree(const tm_node_options& options);
    std::string profile(const tm_node_options& options) const;

    const std::string folder_;
    const std::string namespace_;
    std::string leader_; // its address; set before domain_
    ClaimedDomain domain_;
    SharedMemoryNotes notes_;
    // File that a follower keeps, with a lock, until it has left; without the lock, it shows that the follower was
    // killed.
    std::string presence(uint32_t follower) const;
    bool have_followers_left() const;
    Descriptor presence_;
    const uint32_t follower_count_;
};

#endif // TRIPMETER_ROS2_NODE_H
