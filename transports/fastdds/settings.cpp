#include "settings.h"

#include "agreement.h"
#include "failure.h"
#include "shared_memory.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace {

constexpr uint32_t kPatterns = TM_PINGPONG | TM_CHANNEL | TM_RPC | TM_THROUGHPUT;
constexpr uint32_t kWaits = TM_POLL | TM_BLOCK | TM_CALLBACK;
constexpr uint32_t kRemoteFlags = TM_LOSSY | TM_OWN_THREADS | TM_FAN_OUT;
// A loan is as long as its type says, which writers of one topic have in common.
constexpr uint32_t kCopyingFlags = kRemoteFlags | TM_PUBLISHERS;

constexpr uint64_t kLargestPayload = UINT64_C(64) << 20;
// Peers that tell each other apart when they greet.
constexpr uint32_t kMostGreeting = 64;
// What surrounds a payload in a message: RTPS and DDS-Security headers.
constexpr uint64_t kMessageOverhead = 4096;

std::string value_of(const tm_node_options& options, const char* name)
{
    for (size_t i = 0; i < options.setting_count; ++i) {
        if (text(options.settings[i].key) == name) {
            return text(options.settings[i].value);
        }
    }
    throw Failure(TM_INVALID, std::string("setting ") + name + " is missing");
}

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& wanted)
{
    throw Failure(TM_INVALID, std::string("setting ") + name + "=" + value + " is not understood; it is " + wanted);
}

bool choice(const tm_node_options& options, const char* name, const char* no, const char* yes)
{
    const auto value = value_of(options, name);
    if (value != no && value != yes) {
        refuse(name, value, std::string(no) + " or " + yes);
    }
    return value == yes;
}

uint32_t number(const char* name, const std::string& value, uint32_t least, uint32_t most)
{
    uint32_t found = 0;
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, found);
    if (error != std::errc() || stop != end || found < least || found > most) {
        refuse(name, value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return found;
}

uint32_t number(const tm_node_options& options, const char* name, uint32_t least, uint32_t most)
{
    return number(name, value_of(options, name), least, most);
}

// With one sample, a message that comes before the one before it was taken replaces it, also of a reliable writer.
uint32_t depth_of(const tm_node_options& options)
{
    constexpr uint32_t kOfStreams = 16;
    const bool is_stream = options.pattern == TM_CHANNEL || options.pattern == TM_THROUGHPUT;
    const uint32_t depth = value_of(options, "depth") == "auto" ? (is_stream ? kOfStreams : 1)
                                                                : number(options, "depth", 1, 1000);
    // The leader's reader holds an answer of each follower, the follower's a message of each publisher.
    return std::max({depth, options.follower_count, options.publisher_count});
}

Way way_of(const std::string& variant)
{
    constexpr const char* kNames[] = {"intra", "shm", "data-sharing", "udp", "tcp"};
    const auto found = std::find(std::begin(kNames), std::end(kNames), variant);
    if (found == std::end(kNames)) {
        throw Failure(TM_INVALID, "variant '" + variant + "' is not known");
    }
    return static_cast<Way>(found - std::begin(kNames));
}

} // namespace

const tm_variant fastdds_variants[] = {
    {TM_STR("udp"), TM_STR("UDPv4 over the loopback; shared memory and data sharing are off"), TM_PATH_UDP, kPatterns,
     kWaits, kCopyingFlags | TM_SECURE, {}},
    {TM_STR("tcp"), TM_STR("TCPv4 over the loopback, the leader listens; shared memory and data sharing are off"),
     TM_PATH_TCP, kPatterns, kWaits, kCopyingFlags | TM_SECURE, {}},
    {TM_STR("shm"), TM_STR("the shared-memory transport, which copies in and out; data sharing is off"),
     TM_PATH_SHARED_MEMORY, kPatterns, kWaits, kCopyingFlags | TM_SECURE, {}},
    {TM_STR("data-sharing"), TM_STR("data-sharing delivery of loaned samples, without a copy"), TM_PATH_SHARED_MEMORY,
     kPatterns, kWaits, kRemoteFlags | TM_ZERO_COPY, {}},
    // The publisher's thread delivers: a callback would run inside the publication that it answers.
    {TM_STR("intra"), TM_STR("intra-process delivery between two participants; the publisher's thread delivers"),
     TM_PATH_MEMORY, kPatterns, TM_POLL | TM_BLOCK, TM_LOSSY | TM_SAME_PROCESS, {}},
};
const size_t fastdds_variant_count = std::size(fastdds_variants);

const tm_setting fastdds_settings[] = {
    {TM_STR("reliability"), TM_STR("reliable"), TM_STR("best_effort | reliable"), TM_STR("reliability of both ends"),
     {}},
    {TM_STR("security"), TM_STR("off"), TM_STR("on | off"),
     TM_STR("DDS-Security: everything authenticated and encrypted (udp, tcp, shm)"), {}},
    {TM_STR("loans"), TM_STR("auto"), TM_STR("auto | on | off"),
     TM_STR("write into and read from the library's own samples; auto: on for data-sharing only"), {}},
    {TM_STR("profile"), TM_STR(""), TM_STR("file"),
     TM_STR("XML profiles as LatencyTest takes them: {pub,sub}_{participant,publisher,subscriber}_profile"), {}},
    {TM_STR("domain"), TM_STR("auto"), TM_STR("auto | 0 to 232"), TM_STR("DDS domain; auto: one that is free"), {}},
    {TM_STR("depth"), TM_STR("auto"), TM_STR("auto | 1 to 1000 samples"),
     TM_STR("history (KEEP_LAST) of writer and reader; auto: 1, and 16 where messages do not wait for an answer"), {}},
    {TM_STR("heartbeat_ms"), TM_STR("100"), TM_STR("1 to 10000"), TM_STR("heartbeat period of a reliable writer"), {}},
    {TM_STR("socket_buffer"), TM_STR("4194304"), TM_STR("bytes, 65536 to 1073741824"),
     TM_STR("send and receive buffers of udp and tcp; the kernel caps them at net.core.{r,w}mem_max"), {}},
    {TM_STR("segment_size"), TM_STR("16777216"), TM_STR("bytes, 1048576 to 1073741824"),
     TM_STR("shared segment of shm; the largest message is half of it"), {}},
};
const size_t fastdds_setting_count = std::size(fastdds_settings);

Settings::Settings(const tm_node_options& options)
    : way(way_of(text(options.variant)))
    , is_reliable(choice(options, "reliability", "best_effort", "reliable"))
    , is_secured(choice(options, "security", "off", "on"))
    , profile(value_of(options, "profile"))
    , depth(depth_of(options))
    , heartbeat_ms(number(options, "heartbeat_ms", 1, 10'000))
    , socket_buffer_bytes(number(options, "socket_buffer", 1u << 16, 1u << 30))
    , segment_bytes(number(options, "segment_size", 1u << 20, 1u << 30))
{
    const auto loans = value_of(options, "loans");
    if (loans != "auto" && loans != "on" && loans != "off") {
        refuse("loans", loans, "auto, on or off");
    }
    has_loans = loans == "on" || (loans == "auto" && way == Way::data_sharing);
    const auto domain_text = value_of(options, "domain");
    if (domain_text != "auto") {
        domain = number("domain", domain_text, 0, kLargestDomain);
    }
    if (options.publisher_count > kMostGreeting) {
        throw Failure(TM_LIMIT, std::to_string(options.publisher_count) + " publishers are more than "
                                    + std::to_string(kMostGreeting));
    }
    if (options.publisher_count > 1 && has_loans) {
        throw Failure(TM_INVALID, "several publishers have one type, which says how long a loan is; use loans=off or auto");
    }
    if (is_secured && (way == Way::intra || way == Way::data_sharing)) {
        throw Failure(TM_INVALID, "Fast DDS cannot secure variant " + text(options.variant)
                                      + "; use security=on with udp, tcp or shm");
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
        // Two writers, whose pages stay in memory once they are locked; half of the room is left to others.
        const uint64_t samples = 2 * (depth + kExtraSamples + 1);
        return std::min(kLargestPayload, free_shared_memory() / 2 / samples);
    }
    default:
        return kLargestPayload;
    }
}
