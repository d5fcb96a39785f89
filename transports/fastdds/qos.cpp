#include "qos.h"

#include "../common/fastdds/environment.h"
#include "tripmeter_plugin.hpp"
#include "log.h"
#include "security.h"

#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/rtps/transport/TCPv4TransportDescriptor.h>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastdds/rtps/transport/UDPv6TransportDescriptor.h>
#include <fastdds/rtps/transport/shared_mem/SharedMemTransportDescriptor.h>
#include <fastrtps/attributes/ParticipantAttributes.h>
#include <fastrtps/attributes/PublisherAttributes.h>
#include <fastrtps/attributes/SubscriberAttributes.h>
#include <fastrtps/utils/IPLocator.h>
#include <fastrtps/xmlparser/XMLProfileManager.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <tinyxml2.h>
#include <unistd.h>

using tripmeter::Failure;

using namespace eprosima::fastdds::dds;
using namespace eprosima::fastdds::rtps;
using eprosima::fastrtps::Duration_t;
using eprosima::fastrtps::rtps::IPLocator;
using eprosima::fastrtps::xmlparser::XMLP_ret;
using eprosima::fastrtps::xmlparser::XMLProfileManager;

namespace {

// Room for the headers of a message of the shared-memory transport.
constexpr uint32_t kMessageOverhead = 4096;
constexpr uint32_t kDefaultMessageBytes = 65'500;

std::string profile_name(bool is_leader, const char* kind)
{
    return std::string(is_leader ? "pub_" : "sub_") + kind + "_profile";
}

template <typename Attributes>
bool has_profile(XMLP_ret (*fill)(const std::string&, Attributes&, bool), const std::string& name)
{
    Attributes attributes;
    return fill(name, attributes, false) == XMLP_ret::XML_OK;
}

ReliabilityQosPolicy reliability(const Settings& settings)
{
    ReliabilityQosPolicy policy;
    policy.kind = settings.is_reliable ? RELIABLE_RELIABILITY_QOS : BEST_EFFORT_RELIABILITY_QOS;
    return policy;
}

template <typename Qos>
void set_history(Qos& qos, const Settings& settings)
{
    const auto depth = static_cast<int32_t>(settings.depth);
    qos.history().kind = KEEP_LAST_HISTORY_QOS;
    qos.history().depth = depth;
    qos.resource_limits().allocated_samples = depth;
    qos.resource_limits().extra_samples = settings.has_loans ? kExtraSamples : 1;
    qos.endpoint().history_memory_policy = eprosima::fastrtps::rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
}

// Under data sharing, a reader acknowledges a sample when it takes it, and reads it in place. A KEEP_LAST writer
// overwrites samples that a slow reader has not taken, or is reading. A KEEP_ALL writer waits until all readers have
// taken the oldest. While a reader reads message n, the last message that can be loaned is n + depth + 1. The memory of
// n is reused after all others, for message n + depth + kExtraSamples.
void keep_all(DataWriterQos& qos, const Settings& settings)
{
    static_assert(kExtraSamples > 1);
    const auto depth = static_cast<int32_t>(settings.depth);
    qos.history().kind = KEEP_ALL_HISTORY_QOS;
    qos.resource_limits().max_samples = depth;
    qos.resource_limits().max_instances = 1;
    qos.resource_limits().max_samples_per_instance = depth;
    // Duration of one attempt, in seconds and nanoseconds; publishing retries until its own time-out.
    qos.reliability().max_blocking_time = Duration_t(0, 1'000'000);
}

// Locator of an address; port 0 stands for the port that RTPS defines.
eprosima::fastrtps::rtps::Locator_t udp_locator(const std::string& address)
{
    eprosima::fastrtps::rtps::Locator_t made;
    if (address.find(':') == std::string::npos) {
        made.kind = LOCATOR_KIND_UDPv4;
        IPLocator::setIPv4(made, address);
    } else {
        made.kind = LOCATOR_KIND_UDPv6;
        IPLocator::setIPv6(made, address);
    }
    return made;
}

} // namespace

void load_profile(const Settings& settings, bool is_leader)
{
    // Fast DDS stores profiles per process without a lock; two ends in one process call this at the same time.
    static std::mutex loading;
    const std::lock_guard<std::mutex> lock(loading);
    ignore_defaults();
    watch_log();
    if (settings.profile.empty()) {
        return;
    }
    const std::string which = "profile '" + settings.profile + "'";
    if (access(settings.profile.c_str(), R_OK) != 0) {
        throw Failure(TM_INVALID, which + " cannot be read: " + std::strerror(errno));
    }
    tinyxml2::XMLDocument document;
    if (document.LoadFile(settings.profile.c_str()) != tinyxml2::XML_SUCCESS) {
        throw Failure(TM_INVALID, which + " is not XML: line " + std::to_string(document.ErrorLineNum()) + ": "
                                      + document.ErrorName());
    }
    const auto loaded = DomainParticipantFactory::get_instance()->load_XML_profiles_file(settings.profile);
    if (loaded != ReturnCode_t::RETCODE_OK) {
        throw Failure(TM_INVALID, which + " was refused by Fast DDS" + logged_errors()
                                      + "; it knows no elements of other versions, such as <domainId> under <builtin>, "
                                        "and may name an element around the one it means");
    }
    const auto participant = profile_name(is_leader, "participant");
    const auto publisher = profile_name(is_leader, "publisher");
    const auto subscriber = profile_name(is_leader, "subscriber");
    if (!has_profile(&XMLProfileManager::fillParticipantAttributes, participant)
        && !has_profile(&XMLProfileManager::fillPublisherAttributes, publisher)
        && !has_profile(&XMLProfileManager::fillSubscriberAttributes, subscriber)) {
        throw Failure(TM_INVALID, which + " has none of " + participant + ", " + publisher + " and " + subscriber);
    }
}

End::End(const tm_node_options& options, const Settings& all)
    : settings(all)
    , is_leader(options.role == TM_LEADER)
    , is_secured(all.is_secured && options.unauthorized_peer != TM_UNAUTHORIZED_PLAIN)
    , has_fellows(options.follower_count > 1)
    , follower_count(options.follower_count)
    , follower_index(options.follower_index)
    , has_publishers(options.publisher_count > 1)
    , is_publisher(has_publishers && is_leader)
    , max_payload_bytes(options.max_payload_bytes)
    , address(tripmeter::address(options))
    , is_between_hosts(tm_is_between_hosts(&options))
    , shared_folder("/dev/shm/" + text(options.run_id) + "-fastdds")
{
}

std::string End::profile(const char* kind) const
{
    return profile_name(is_leader, kind);
}

DomainParticipantQos End::participant(const Meeting& meeting, uint16_t tcp_port) const
{
    DomainParticipantQos qos;
    qos.name(is_leader ? "tripmeter-leader" : "tripmeter-follower");
    if (!settings.profile.empty()) {
        // A profile that is not in the file leaves the QoS unchanged.
        DomainParticipantFactory::get_instance()->get_participant_qos_from_profile(profile("participant"), qos);
    }
    if (qos.transport().user_transports.empty()) {
        set_transport(qos, meeting.leader(), tcp_port);
    }
    auto& discovery = qos.wire_protocol().builtin.discovery_config;
    if (settings.way == Way::intra) {
        using eprosima::fastrtps::rtps::ParticipantFilteringFlags;
        discovery.ignoreParticipantFlags = static_cast<ParticipantFilteringFlags>(
            ParticipantFilteringFlags::FILTER_DIFFERENT_PROCESS | ParticipantFilteringFlags::FILTER_DIFFERENT_HOST);
    }
    if (is_secured) {
        use_credentials(qos, meeting.credentials(), is_leader ? "leader" : "follower");
    }
    return qos;
}

void End::set_transport(DomainParticipantQos& qos, const std::string& leader, uint16_t tcp_port) const
{
    auto& transport = qos.transport();
    transport.use_builtin_transports = false;
    if (settings.way == Way::shm) {
        const auto shm = std::make_shared<SharedMemTransportDescriptor>();
        shm->segment_size(settings.segment_bytes);
        const auto message = static_cast<uint32_t>(max_payload_bytes) + kMessageOverhead;
        shm->max_message_size(std::max(kDefaultMessageBytes, message));
        transport.user_transports.push_back(shm);
        return;
    }
    std::shared_ptr<SocketTransportDescriptor> sockets;
    if (settings.way == Way::tcp) {
        const auto tcp = std::make_shared<TCPv4TransportDescriptor>();
        tcp->enable_tcp_nodelay = true;
        tcp->calculate_crc = false;
        tcp->check_crc = false;
        if (is_leader) {
            tcp->add_listener_port(tcp_port);
        }
        set_tcp_peer(qos, leader, tcp_port);
        sockets = tcp;
    } else if (address.find(':') == std::string::npos) {
        sockets = std::make_shared<UDPv4TransportDescriptor>();
    } else {
        sockets = std::make_shared<UDPv6TransportDescriptor>();
    }
    if (settings.way == Way::udp && is_between_hosts) {
        set_udp_peer(qos, leader);
    }
    // Number of participants per host that are tried where there is no multicast.
    sockets->maxInitialPeersRange = std::max(sockets->maxInitialPeersRange, follower_count + 2);
    sockets->interfaceWhiteList.emplace_back(address);
    sockets->sendBufferSize = settings.socket_buffer_bytes;
    sockets->receiveBufferSize = settings.socket_buffer_bytes;
    transport.user_transports.push_back(sockets);
}

// TCP has no multicast: the follower gets the leader's port. Both announce themselves often until they have
// found each other, as an announcement that comes before its connection is lost.
void End::set_tcp_peer(DomainParticipantQos& qos, const std::string& leader, uint16_t tcp_port) const
{
    auto& builtin = qos.wire_protocol().builtin;
    builtin.discovery_config.initial_announcements.count = 20;
    builtin.discovery_config.initial_announcements.period = Duration_t(0, 100'000'000);
    if (!is_leader) {
        eprosima::fastrtps::rtps::Locator_t peer;
        peer.kind = LOCATOR_KIND_TCPv4;
        IPLocator::setIPv4(peer, leader);
        IPLocator::setPhysicalPort(peer, tcp_port);
        builtin.initialPeersList.push_back(peer);
    }
}

// Between hosts there is no multicast: followers announce themselves to the leader, which answers.
void End::set_udp_peer(DomainParticipantQos& qos, const std::string& leader) const
{
    auto& builtin = qos.wire_protocol().builtin;
    // Without a unicast locator of its own, a participant would also listen for multicast.
    builtin.metatrafficUnicastLocatorList.push_back(udp_locator(address));
    if (!is_leader) {
        builtin.initialPeersList.push_back(udp_locator(leader));
    }
}

DataSharingQosPolicy End::data_sharing() const
{
    DataSharingQosPolicy policy;
    if (settings.way == Way::data_sharing) {
        policy.on(shared_folder);
    } else {
        policy.off();
    }
    return policy;
}

DataWriterQos End::writer(const Publisher& publisher) const
{
    DataWriterQos qos;
    qos.reliability(reliability(settings));
    const auto heartbeat_s = static_cast<int32_t>(settings.heartbeat_ms / 1000);
    qos.reliable_writer_qos().times.heartbeatPeriod = Duration_t(heartbeat_s, settings.heartbeat_ms % 1000 * 1'000'000);
    qos.durability().kind = VOLATILE_DURABILITY_QOS;
    set_history(qos, settings);
    if (settings.waits_for_readers()) {
        keep_all(qos, settings);
    }
    if (!settings.profile.empty()) {
        publisher.get_datawriter_qos_from_profile(profile("publisher"), qos);
    }
    if (qos.data_sharing().kind() == AUTO) {
        qos.data_sharing(data_sharing());
    }
    if (settings.way == Way::tcp) {
        // With piggybacked heartbeats, both ends of a connection may deadlock from some 100 kB per message on: each
        // writes, and neither reads.
        qos.reliable_writer_qos().disable_heartbeat_piggyback = true;
    }
    return qos;
}

DataReaderQos End::reader(const Subscriber& subscriber) const
{
    DataReaderQos qos;
    qos.reliability(reliability(settings));
    qos.durability().kind = VOLATILE_DURABILITY_QOS;
    set_history(qos, settings);
    if (settings.waits_for_readers() && is_leader) {
        // Room for all unacknowledged samples of all followers' writers, so that none is dropped.
        qos.history().depth *= static_cast<int32_t>(follower_count);
    }
    if (!settings.profile.empty()) {
        subscriber.get_datareader_qos_from_profile(profile("subscriber"), qos);
    }
    if (qos.data_sharing().kind() == AUTO) {
        qos.data_sharing(data_sharing());
    }
    return qos;
}
