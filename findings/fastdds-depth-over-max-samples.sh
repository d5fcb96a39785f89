#!/usr/bin/env bash
# Fast DDS 2.9.1 (Debian 12): a keyless KEEP_LAST writer keeps as many samples as its depth says, not as max_samples says.
#
# Guess: of 10,000 samples a writer with KEEP_LAST, depth 10,000 and the default limits keeps 5,000, as max_samples is 5,000; or it
# is refused, as depth must not be over max_samples_per_instance (400).
# Seen: it is created, nothing is printed, and a late reader gets all 10,000. With KEEP_ALL the same limit counts: the late reader
# gets the last 5,000.
# Users meet this where max_samples is to bound the memory of a writer: with KEEP_LAST, depth alone does.
# Source: the page of the standard QoS policies (eProsima/Fast-DDS-docs, HistoryQosPolicy, consistency rule): depth "must be lower
# or equal than" max_samples_per_instance. Versions since eProsima/Fast-DDS#4375 log a warning, where warnings are logged;
# eProsima/Fast-DDS#6228 tells that readers too kept as many as depth says.
#
# Needs Debian 12, g++ and unshare (util-linux). Installs into a temporary folder only.
set -euo pipefail

version='2.9.1+ds-1+deb12u2'
packages=(libfastrtps-dev="$version" libfastrtps2.9="$version" libfastcdr-dev=1.0.26-1 libfastcdr1=1.0.26-1
    libfoonathan-memory-dev=0.7.2-3 libfoonathan-memory0.7.2=0.7.2-3 libtinyxml2-9=9.0.0+dfsg-3.1)
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
cd "$place"
apt-get download "${packages[@]}" >apt.log 2>&1 || { cat apt.log >&2; exit 69; }
for package in *.deb; do dpkg -x "$package" root; done

cat >history.cpp <<'END'
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <functional>
#include <memory>
#include <mutex>
#include <unistd.h>

namespace fast = eprosima::fastdds::dds;
namespace rtps = eprosima::fastrtps::rtps;

// A number, without a key, behind the head of little-endian CDR.
struct Number : fast::TopicDataType {
    Number()
    {
        setName("Number");
        m_typeSize = 8;
        m_isGetKeyDefined = false;
    }
    bool serialize(void* data, rtps::SerializedPayload_t* payload) override
    {
        const unsigned char head[4] = {0, 1, 0, 0};
        std::memcpy(payload->data, head, 4);
        std::memcpy(payload->data + 4, data, 4);
        payload->length = 8;
        payload->encapsulation = CDR_LE;
        return true;
    }
    bool deserialize(rtps::SerializedPayload_t* payload, void* data) override
    {
        std::memcpy(data, payload->data + 4, 4);
        return true;
    }
    std::function<uint32_t()> getSerializedSizeProvider(void*) override
    {
        return [] { return 8U; };
    }
    void* createData() override { return new uint32_t; }
    void deleteData(void* data) override { delete static_cast<uint32_t*>(data); }
    bool getKey(void*, rtps::InstanceHandle_t*, bool) override { return false; }
};

struct Listener : fast::DataReaderListener {
    std::mutex mutex;
    std::condition_variable changed;
    uint32_t count = 0, first = 0, last = 0;
    void on_data_available(fast::DataReader* reader) override
    {
        uint32_t number = 0;
        fast::SampleInfo info;
        while (reader->take_next_sample(&number, &info) == eprosima::fastrtps::types::ReturnCode_t::RETCODE_OK) {
            const std::lock_guard<std::mutex> lock(mutex);
            first = count == 0 ? number : first;
            count++;
            last = number;
            changed.notify_all();
        }
    }
};

int main(int, char** arguments)
{
    const int depth = std::atoi(arguments[1]); // 0: KEEP_ALL
    auto* const factory = fast::DomainParticipantFactory::get_instance();
    fast::DomainParticipantQos qos;
    qos.transport().use_builtin_transports = false;
    qos.transport().user_transports.push_back(std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>());
    fast::TypeSupport type(new Number);

    auto* const writing = factory->create_participant(0, qos);
    type.register_type(writing);
    auto* const publisher = writing->create_publisher(fast::PUBLISHER_QOS_DEFAULT);
    fast::DataWriterQos writer_qos = publisher->get_default_datawriter_qos();
    writer_qos.durability().kind = fast::TRANSIENT_LOCAL_DURABILITY_QOS;
    writer_qos.history().kind = depth == 0 ? fast::KEEP_ALL_HISTORY_QOS : fast::KEEP_LAST_HISTORY_QOS;
    if (depth != 0) {
        writer_qos.history().depth = depth;
    }
    const auto limits = writer_qos.resource_limits();
    std::printf("max_samples %d, max_samples_per_instance %d, ", limits.max_samples, limits.max_samples_per_instance);
    auto* const writer = publisher->create_datawriter(writing->create_topic("t", "Number", fast::TOPIC_QOS_DEFAULT), writer_qos);
    if (writer == nullptr) {
        std::printf("refused\n");
        return 0;
    }
    uint32_t written = 0;
    while (written < 10000) {
        uint32_t number = written + 1;
        if (!writer->write(&number)) {
            break;
        }
        written = number;
    }

    // The late reader has no limits.
    auto* const reading = factory->create_participant(0, qos);
    type.register_type(reading);
    auto* const subscriber = reading->create_subscriber(fast::SUBSCRIBER_QOS_DEFAULT);
    fast::DataReaderQos reader_qos = subscriber->get_default_datareader_qos();
    reader_qos.durability().kind = fast::TRANSIENT_LOCAL_DURABILITY_QOS;
    reader_qos.reliability().kind = fast::RELIABLE_RELIABILITY_QOS;
    reader_qos.history().kind = fast::KEEP_ALL_HISTORY_QOS;
    reader_qos.resource_limits().max_samples = 0;
    reader_qos.resource_limits().max_instances = 0;
    reader_qos.resource_limits().max_samples_per_instance = 0;
    Listener listener;
    auto* const topic = reading->create_topic("t", "Number", fast::TOPIC_QOS_DEFAULT);
    if (subscriber->create_datareader(topic, reader_qos, &listener) == nullptr) {
        return 1;
    }
    // Samples arrive in order: with the last one, all that are kept are there.
    std::unique_lock<std::mutex> lock(listener.mutex);
    listener.changed.wait_for(lock, std::chrono::seconds(60), [&] { return listener.last == written; });
    std::printf("written %u, late reader got %u: %u to %u\n", written, listener.count, listener.first, listener.last);
    std::fflush(stdout);
    _exit(0);
}
END
lib=$(dirname "$(find "$place/root" -name 'libfastrtps.so.2.9*' | head -n 1)")
g++ -std=c++17 -I root/usr/include history.cpp -o history -L "$lib" -lfastrtps -lfastcdr -Wl,-rpath-link,"$lib"

# In a network of its own, without other participants.
run() { LD_LIBRARY_PATH=$lib timeout 120 unshare --user --map-root-user --net sh -c "ip link set lo up && exec ./history $1" 2>&1; }
seen="KEEP_LAST, depth 10000: $(run 10000)
KEEP_LAST, depth 400: $(run 400)
KEEP_ALL: $(run 0)"
printf 'Fast DDS %s\n%s\n' "$version" "$seen"
limits='max_samples 5000, max_samples_per_instance 400'
if [[ $seen != "KEEP_LAST, depth 10000: $limits, written 10000, late reader got 10000: 1 to 10000
KEEP_LAST, depth 400: $limits, written 10000, late reader got 400: 9601 to 10000
KEEP_ALL: $limits, written 10000, late reader got 5000: 5001 to 10000" ]]; then
    echo 'CHANGED' >&2
    exit 1
fi
