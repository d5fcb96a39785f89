#include "settings.h"

#include "../common/fastdds/agreement.h"
#include "tripmeter_plugin.hpp"
#include "../common/fastdds/shared_memory.h"

#include <algorithm>
#include <fstream>

using tripmeter::choice;
using tripmeter::Failure;
using tripmeter::number;
using tripmeter::refuse;
using tripmeter::setting;

namespace {

constexpr uint32_t kPatterns = TM_PING | TM_PUBLISH | TM_CALL | TM_THROUGHPUT;
constexpr uint32_t kWaits = TM_POLL | TM_BLOCK | TM_CALLBACK;
constexpr uint32_t kFlags = TM_LOSSY | TM_OWN_THREADS | TM_FAN_OUT;
// Several publishers need copies: the type sets the length of a loan, and writers of one topic share the type.
constexpr uint32_t kCopyingFlags = kFlags | TM_PUBLISHERS;

constexpr uint64_t kLargestPayload = UINT64_C(64) << 20;
constexpr uint32_t kMostDepth = 1000;
constexpr uint32_t kLeastBuffer = 1u << 16;
constexpr uint32_t kMostBuffer = 1u << 30;
// Most peers that a greeting can tell apart.
constexpr uint32_t kMostGreeting = 64;
// RTPS and DDS-Security headers around a payload.
constexpr uint64_t kMessageOverhead = 4096;

// Number of acknowledgements that fit into a quarter of a socket's buffer; discovery uses the same buffer. The kernel
// charges some 800 bytes for a short datagram, and grants twice the requested size, up to net.core.rmem_max.
uint64_t room_for_acknowledgements(const tm_node_options& options)
{
    constexpr uint64_t kOfOne = 4 * 800;
    uint64_t most = 212'992;
    std::ifstream("/proc/sys/net/core/rmem_max") >> most;
    return 2 * std::min<uint64_t>(most, number(options, "socket_buffer", kLeastBuffer, kMostBuffer)) / kOfOne;
}

// Under data sharing, a reader acknowledges each sample once, by a datagram. If all acknowledgements are lost, the
// writer waits forever, so no more may be in flight than the buffer holds.
uint32_t depth_of_data_sharing(const tm_node_options& options, bool is_stream)
{
    constexpr uint32_t kOfStreams = 16;
    // Acknowledgements arrive after the answer; some spare samples save the writer from waiting for them.
    constexpr uint32_t kOfTurns = 4;
    const uint64_t readers = uint64_t{std::max(options.follower_count, 1u)} * std::max(options.link_count, 1u);
    const uint64_t most = room_for_acknowledgements(options) / readers;
    const bool is_auto = setting(options, "depth") == "auto";
    const uint32_t depth = is_auto ? (is_stream ? kOfStreams : kOfTurns) : number(options, "depth", 1, kMostDepth);
    if (most == 0 || (!is_auto && depth > most)) {
        throw Failure(TM_LIMIT, std::to_string(readers) + " readers may send " + std::to_string(readers * depth)
                                    + " acknowledgements at once, and a socket has room for "
                                    + std::to_string(room_for_acknowledgements(options))
                                    + "; take fewer followers or streams, a smaller depth or best_effort, or raise "
                                      "net.core.rmem_max");
    }
    return static_cast<uint32_t>(std::min<uint64_t>(depth, most));
}

// With depth 1, a message that arrives before the previous one was taken replaces it, even from a reliable writer; only
// a reliable writer under data sharing waits.
uint32_t depth_of(const tm_node_options& options, Way way)
{
    constexpr uint32_t kOfStreams = 16;
    const bool is_stream = options.pattern == TM_PUBLISH || options.pattern == TM_THROUGHPUT;
    if (way == Way::data_sharing && choice(options, "reliability", "best_effort", "reliable")) {
        return depth_of_data_sharing(options, is_stream);
    }
    const uint32_t depth = setting(options, "depth") == "auto" ? (is_stream ? kOfStreams : 1)
                                                                : number(options, "depth", 1, kMostDepth);
    // The leader's reader holds an answer of each follower, the follower's a message of each publisher.
    return std::max({depth, options.follower_count, options.publisher_count});
}

Way way_of(const tm_str& variant)
{
    const tm_variant* const found = tm_find_variant(fastdds_variants, TM_COUNT(fastdds_variants), variant);
    if (found == nullptr) {
        throw Failure(TM_INVALID, "variant '" + text(variant) + "' is not known");
    }
    return static_cast<Way>(found - fastdds_variants);
}

} // namespace

const tm_variant fastdds_variants[] = {
    TM_VARIANT("udp", "UDP; shared memory and data sharing are off", TM_PATH_UDP, kPatterns, kWaits,
               kCopyingFlags | TM_SECURE | TM_REMOTE),
    TM_VARIANT("tcp", "TCP, the leader listens; shared memory and data sharing are off", TM_PATH_TCP, kPatterns, kWaits,
               kCopyingFlags | TM_SECURE | TM_REMOTE),
    TM_VARIANT("shm", "the shared-memory transport, which copies in and out; data sharing is off", TM_PATH_SHARED_MEMORY,
               kPatterns, kWaits, kCopyingFlags | TM_SECURE),
    TM_VARIANT("data-sharing", "data-sharing delivery of loaned samples, without a copy", TM_PATH_SHARED_MEMORY, kPatterns,
               kWaits, kFlags | TM_ZERO_COPY),
    // The publisher's thread delivers: a callback would run inside the publication that it answers.
    TM_VARIANT("intra", "intra-process delivery between two participants; the publisher's thread delivers", TM_PATH_MEMORY,
               kPatterns, TM_POLL | TM_BLOCK, TM_LOSSY | TM_SAME_PROCESS),
};

const tm_setting fastdds_settings[] = {
    TM_SETTING("reliability", "reliable", "best_effort | reliable", "reliability of both ends", TM_NAMES_NOTHING),
    TM_SETTING("security", "off", "on | off", "DDS-Security: everything authenticated and encrypted (udp, tcp, shm)",
               TM_NAMES_NOTHING),
    TM_SETTING("loans", "auto", "auto | on | off",
               "write into and read from the library's own samples; auto: on for data-sharing only", TM_NAMES_NOTHING),
    TM_SETTING("profile", "", "file",
               "XML profiles as LatencyTest takes them: {pub,sub}_{participant,publisher,subscriber}_profile",
               TM_NAMES_FILE),
    TM_SETTING("domain", "auto", "auto | 0 to 232", "DDS domain; auto: one that is free", TM_NAMES_HOST),
    TM_SETTING("depth", "auto", "auto | 1 to 1000 samples",
               "history of writer and reader: KEEP_LAST, or KEEP_ALL of a reliable data-sharing writer; auto: 1, data-sharing 4, "
               "and 16 where messages do not wait for an answer", TM_NAMES_NOTHING),
    TM_SETTING("heartbeat_ms", "100", "1 to 10000", "heartbeat period of a reliable writer", TM_NAMES_NOTHING),
    TM_SETTING("socket_buffer", "4194304", "bytes, 65536 to 1073741824",
               "send and receive buffers of udp and tcp; the kernel caps them at net.core.{r,w}mem_max",
               TM_NAMES_NOTHING),
    TM_SETTING("segment_size", "16777216", "bytes, 1048576 to 1073741824",
               "shared segment of shm; the largest message is half of it", TM_NAMES_NOTHING),
};

Settings::Settings(const tm_node_options& options)
    : way(way_of(options.variant))
    , is_reliable(choice(options, "reliability", "best_effort", "reliable"))
    , is_secured(choice(options, "security", "off", "on"))
    , profile(setting(options, "profile"))
    , depth(depth_of(options, way))
    , heartbeat_ms(number(options, "heartbeat_ms", 1, 10'000))
    , socket_buffer_bytes(number(options, "socket_buffer", kLeastBuffer, kMostBuffer))
    , segment_bytes(number(options, "segment_size", 1u << 20, 1u << 30))
{
    const auto loans = setting(options, "loans");
    if (loans != "auto" && loans != "on" && loans != "off") {
        refuse("loans", loans, "auto, on or off");
    }
    has_loans = loans == "on" || (loans == "auto" && way == Way::data_sharing);
    const auto domain_text = setting(options, "domain");
    if (domain_text != "auto") {
        domain = number("domain", domain_text, 0, kLargestDomain);
    }
    if (options.publisher_count > kMostGreeting) {
        throw Failure(TM_LIMIT, std::to_string(options.publisher_count) + " publishers are more than "
                                    + std::to_string(kMostGreeting));
    }
    if (options.publisher_count > 1 && has_loans) {
        throw Failure(TM_INVALID, "several publishers share one type, which fixes the length of a loan; use loans=off");
    }
    if (is_secured && (way == Way::intra || way == Way::data_sharing)) {
        throw Failure(TM_INVALID, "Fast DDS cannot secure variant " + text(options.variant)
                                      + "; use security=on with udp, tcp or shm");
    }
    const std::string address = tripmeter::address(options);
    if (way == Way::tcp && address.find(':') != std::string::npos) {
        throw Failure(TM_LIMIT, "Fast DDS 2 cannot listen for TCP at one IPv6 address (" + address
                                    + "); name IPv4 addresses by --interface and --to-interface");
    }
    if (!has_loans && way == Way::data_sharing) {
        throw Failure(TM_INVALID, "without loans, data sharing copies; use loans=on or auto with variant data-sharing");
    }
}

uint64_t Settings::max_payload_bytes() const
{
    switch (way) {
    case Way::shm:
        return segment_bytes / 2 - kMessageOverhead;
    case Way::data_sharing: {
        // Two writers, whose pages stay in memory once they are locked; half of the room is left for others.
        const uint64_t samples = 2 * (depth + kExtraSamples + 1);
        return std::min(kLargestPayload, free_shared_memory() / 2 / samples);
    }
    default:
        return kLargestPayload;
    }
}
