#include "settings.h"

#include "../fastdds/agreement.h"
#include "../fastdds/failure.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace {

constexpr uint32_t kTopicPatterns = TM_PINGPONG | TM_CHANNEL | TM_THROUGHPUT;
constexpr uint32_t kServicePatterns = TM_PINGPONG | TM_RPC;
constexpr uint32_t kWaits = TM_POLL | TM_BLOCK;
constexpr uint32_t kTopicFlags = TM_LOSSY | TM_OWN_THREADS | TM_FAN_OUT | TM_PUBLISHERS;
constexpr uint32_t kServiceFlags = TM_LOSSY | TM_OWN_THREADS;

constexpr uint64_t kLargestPayload = UINT64_C(64) << 20;
// Peers that tell each other apart when they greet.
constexpr uint32_t kMostGreeting = 64;

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

} // namespace

const tm_variant ros2_variants[] = {
    {TM_STR("shm"), TM_STR("topics of std_msgs/UInt8MultiArray, serialised; Fast DDS's shared memory, as on any one host"),
     TM_PATH_SHARED_MEMORY, kTopicPatterns, kWaits, kTopicFlags, {}},
    {TM_STR("udp"), TM_STR("topics of std_msgs/UInt8MultiArray, serialised; Fast DDS's UDPv4 over the loopback"),
     TM_PATH_UDP, kTopicPatterns, kWaits, kTopicFlags, {}},
    {TM_STR("service"), TM_STR("a service with bytes in request and response, serialised; Fast DDS's shared memory"),
     TM_PATH_SHARED_MEMORY, kServicePatterns, kWaits, kServiceFlags, {}},
    {TM_STR("service-udp"), TM_STR("a service with bytes in request and response, serialised; Fast DDS's UDPv4"),
     TM_PATH_UDP, kServicePatterns, kWaits, kServiceFlags, {}},
};
const size_t ros2_variant_count = std::size(ros2_variants);

const tm_setting ros2_settings[] = {
    {TM_STR("reliability"), TM_STR("reliable"), TM_STR("best_effort | reliable"),
     TM_STR("reliability of both ends; services are reliable"), {}},
    {TM_STR("domain"), TM_STR("auto"), TM_STR("auto | 0 to 232"), TM_STR("ROS domain; auto: one that is free"), {}},
    {TM_STR("depth"), TM_STR("10"), TM_STR("messages, 1 to 1000"), TM_STR("history (KEEP_LAST) of both ends"), {}},
    {TM_STR("socket_buffer"), TM_STR("4194304"), TM_STR("bytes, 65536 to 1073741824"),
     TM_STR("send and receive buffers of UDP; the kernel caps them at net.core.{r,w}mem_max"), {}},
    {TM_STR("segment_size"), TM_STR("524288"), TM_STR("bytes, 131072 to 1073741824"),
     TM_STR("shared segment of a process (shm, service); the default is Fast DDS's own"), {}},
    {TM_STR("fragment_size"), TM_STR("65500"), TM_STR("bytes, 1024 to 67108864"),
     TM_STR("shared memory: a longer message goes in parts of this size; the default is Fast DDS's own"), {}},
};
const size_t ros2_setting_count = std::size(ros2_settings);

Settings::Settings(const tm_node_options& options)
    : is_reliable(choice(options, "reliability", "best_effort", "reliable"))
    // The leader's subscription holds an answer of each follower, the follower's a message of each publisher.
    , depth(std::max({number(options, "depth", 1, 1000), options.follower_count, options.publisher_count}))
    , socket_buffer_bytes(number(options, "socket_buffer", 1u << 16, 1u << 30))
    , segment_bytes(number(options, "segment_size", 1u << 17, 1u << 30))
    , fragment_bytes(number(options, "fragment_size", 1u << 10, 1u << 26))
{
    const auto variant = text(options.variant);
    const auto* const found = std::find_if(std::begin(ros2_variants), std::end(ros2_variants),
                                           [&](const tm_variant& known) { return text(known.name) == variant; });
    if (found == std::end(ros2_variants)) {
        throw Failure(TM_INVALID, "variant '" + variant + "' is not known");
    }
    if (options.publisher_count > kMostGreeting) {
        throw Failure(TM_LIMIT, std::to_string(options.publisher_count) + " publishers are more than "
                                    + std::to_string(kMostGreeting));
    }
    is_shared = found->path == TM_PATH_SHARED_MEMORY;
    is_service = (found->patterns & TM_RPC) != 0;
    const auto domain_text = value_of(options, "domain");
    if (domain_text != "auto") {
        domain = number("domain", domain_text, 0, kLargestDomain);
    }
    if (fragment_bytes > segment_bytes) {
        throw Failure(TM_INVALID, "setting fragment_size=" + std::to_string(fragment_bytes) + " exceeds segment_size="
                                      + std::to_string(segment_bytes) + "; raise segment_size");
    }
    if (is_service && !is_reliable) {
        throw Failure(TM_INVALID, "services are reliable; use reliability=best_effort with topics (shm, udp)");
    }
}

uint64_t Settings::max_payload_bytes() const
{
    // What finds no room in the segment is dropped, and best effort does not send it again.
    return is_shared && !is_reliable ? segment_bytes / 2 : kLargestPayload;
}
