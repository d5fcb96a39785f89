#include "node.h"

#include "tripmeter_plugin.hpp"
#include "../common/fastdds/closing.h"
#include "../common/fastdds/ports.h"
#include "link.h"
#include "log.h"
#include "security.h"

#include <fastdds/dds/domain/DomainParticipantFactory.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/stat.h>
#include <thread>

using tripmeter::Failure;

using namespace eprosima::fastdds::dds;

namespace {

constexpr const char* kSegmentPrefix = "fastrtps_";
constexpr std::chrono::seconds kLeaderTime{10};
// Another process may take a free port before Fast DDS binds to it.
constexpr int kPortAttempts = 5;

Settings checked(const tm_node_options& options)
{
    Settings settings(options);
    load_profile(settings, options.role == TM_LEADER);
    return settings;
}

} // namespace

Participant::Participant(uint32_t domain, const DomainParticipantQos& qos)
{
    participant = DomainParticipantFactory::get_instance()->create_participant(domain, qos);
    if (participant == nullptr) {
        throw Failure(TM_FAILED, "cannot create a participant in domain " + std::to_string(domain) + logged_errors());
    }
    publisher = participant->create_publisher(PUBLISHER_QOS_DEFAULT);
    subscriber = participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT);
    if (publisher == nullptr || subscriber == nullptr) {
        throw Failure(TM_FAILED, "creating the publisher or the subscriber in domain " + std::to_string(domain)
                                     + " failed" + logged_errors());
    }
}

Participant::~Participant()
{
    if (participant != nullptr) {
        participant->delete_contained_entities();
        DomainParticipantFactory::get_instance()->delete_participant(participant);
    }
}

tm_node::tm_node(const tm_node_options& options)
    : end(options, checked(options))
    , run_id(text(options.run_id))
    , wait(options.wait)
    , is_unauthorized(options.unauthorized_peer != 0)
    , leaving_(text(options.scratch_dir) + "/fastdds-leaving")
    , meeting_(options, end.settings)
    , notes_(text(options.scratch_dir), kSegmentPrefix,
             end.settings.domain ? std::nullopt : std::optional<uint32_t>(meeting_.domain()))
{
    if (end.settings.way == Way::data_sharing && mkdir(end.shared_folder.c_str(), 0700) != 0 && errno != EEXIST) {
        throw Failure(TM_FAILED, "folder '" + end.shared_folder + "' cannot be created: " + std::strerror(errno));
    }
    join_with_room(text(options.scratch_dir) + "/fastdds-room");
    meeting_.settled();
    if (end.is_secured && end.is_leader) {
        // The participant has read the key, and no other host needs it.
        forget_key(meeting_.credentials(), "leader");
    }
}

// Fast DDS 2.9 may corrupt its heap when a participant, or a writer or reader of it, is deleted while it still handles
// the departure of others. So nodes leave one after the other, and each gives the others time to notice.
bool tm_node::leave() noexcept
{
    constexpr auto kNoticed = std::chrono::milliseconds(20);
    const Descriptor alone = lock_in_turn(leaving_);
    notes_.note_again();
    const bool has_left = closes_in_time(end.is_leader ? "leader" : "follower", [this] {
        retired.clear();
        joined.reset();
    });
    notes_.note_again();
    std::this_thread::sleep_for(kNoticed);
    return has_left;
}

tm_node::~tm_node()
{
    // Followers have one key, which another one may still have to read; the host removes the folder.
    if (end.is_secured && !end.is_leader && !end.has_fellows) {
        forget_key(meeting_.credentials(), "follower");
    }
}

// Processes join one after the other, so that each sees the room that the previous ones have left.
void tm_node::join_with_room(const std::string& lock)
{
    if (end.settings.way != Way::shm) {
        notes_.note_during([this] { join(); });
        return;
    }
    const Descriptor alone = lock_file(lock);
    check_names(meeting_.domain());
    check_room(end.settings.segment_bytes);
    notes_.note_during([this] { join(); });
    notes_.take_pages();
}

void tm_node::join()
{
    if (end.settings.way == Way::tcp && end.is_leader && !is_unauthorized) {
        join_as_tcp_leader();
        return;
    }
    const uint16_t port = is_tcp_client() ? meeting_.hear_port(kLeaderTime) : 0;
    joined = std::make_unique<Participant>(meeting_.domain(), end.participant(meeting_, port));
    // Not checked with a profile, which may use any kind of socket, and not within one process, which needs fewer.
    const bool has_own_sockets = end.settings.way == Way::udp || end.settings.way == Way::data_sharing;
    if (has_own_sockets && end.settings.profile.empty()) {
        check_ports(meeting_.domain(), end.address, end.is_between_hosts);
    }
}

void tm_node::join_as_tcp_leader()
{
    for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
        const uint16_t port = free_tcp_port(end.address);
        joined = std::make_unique<Participant>(meeting_.domain(), end.participant(meeting_, port));
        if (!end.settings.profile.empty() || listens_at(port)) {
            meeting_.tell_port(port);
            return;
        }
        joined.reset();
    }
    throw Failure(TM_FAILED, "no TCP port to listen at was found in " + std::to_string(kPortAttempts) + " attempts"
                                 + logged_errors());
}

void tm_node::rejoin()
{
    for (tm_link* const link : links) {
        link->close();
    }
    joined.reset();
    notes_.note_during([this] { join(); });
    for (tm_link* const link : links) {
        link->open();
    }
}

void tm_node::connected()
{
    notes_.note();
    if (end.settings.way == Way::shm) {
        notes_.take_pages();
    }
    // Followers have one key, which another one may still have to read; the host removes the folder.
    if (end.is_secured && !end.has_fellows) {
        forget_key(meeting_.credentials(), "follower");
    }
}
