// Makes the QoS of participants, writers and readers from settings and profile.

#ifndef TRIPMETER_FASTDDS_QOS_H
#define TRIPMETER_FASTDDS_QOS_H

#include "meeting.h"
#include "settings.h"

#include <fastdds/dds/domain/qos/DomainParticipantQos.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/publisher/qos/DataWriterQos.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/subscriber/qos/DataReaderQos.hpp>

#include <string>

// Properties of one end of a run that determine its QoS.
struct End {
    End(const tm_node_options& options, const Settings& settings);

    // QoS of the participant; the leader listens at `tcp_port`. Throws Failure.
    eprosima::fastdds::dds::DomainParticipantQos participant(const Meeting& meeting, uint16_t tcp_port) const;
    eprosima::fastdds::dds::DataWriterQos writer(const eprosima::fastdds::dds::Publisher& publisher) const;
    eprosima::fastdds::dds::DataReaderQos reader(const eprosima::fastdds::dds::Subscriber& subscriber) const;

    const Settings settings;
    const bool is_leader;
    const bool is_secured; // may be false for an unauthorized peer
    const bool has_fellows; // true for one of several followers, and for their leader
    const uint32_t follower_count;
    const uint32_t follower_index;
    const bool has_publishers; // several, on one topic
    const bool is_publisher;   // true for a leader with several publishers
    const uint64_t max_payload_bytes;
    const std::string address;       // address of all its sockets
    const bool is_between_hosts;
    const std::string shared_folder; // of data sharing

  private:
    std::string profile(const char* kind) const;
    void set_transport(eprosima::fastdds::dds::DomainParticipantQos& qos, const std::string& leader, uint16_t tcp_port) const;
    void set_tcp_peer(eprosima::fastdds::dds::DomainParticipantQos& qos, const std::string& leader, uint16_t tcp_port) const;
    void set_udp_peer(eprosima::fastdds::dds::DomainParticipantQos& qos, const std::string& leader) const;
    eprosima::fastdds::dds::DataSharingQosPolicy data_sharing() const;
};

// Loads the profile, if one is set, and checks that it names an entity of this role. Throws Failure (TM_INVALID).
void load_profile(const Settings& settings, bool is_leader);

#endif // TRIPMETER_FASTDDS_QOS_H
