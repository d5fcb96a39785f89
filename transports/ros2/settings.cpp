#include "settings.h"

#include "../common/fastdds/agreement.h"
#include "tripmeter_plugin.hpp"

#include <algorithm>

using tripmeter::choice;
using tripmeter::Failure;
using tripmeter::number;
using tripmeter::setting;

namespace {

constexpr uint32_t kTopicPatterns = TM_PING | TM_PUBLISH | TM_THROUGHPUT;
constexpr uint32_t kServicePatterns = TM_PING | TM_CALL;
constexpr uint32_t kWaits = TM_POLL | TM_BLOCK;
constexpr uint32_t kTopicFlags = TM_LOSSY | TM_OWN_THREADS | TM_FAN_OUT | TM_PUBLISHERS;
constexpr uint32_t kServiceFlags = TM_LOSSY | TM_OWN_THREADS;

constexpr uint64_t kLargestPayload = UINT64_C(64) << 20;
// Most peers that a greeting can tell apart.
constexpr uint32_t kMostGreeting = 64;

} // namespace

const tm_variant ros2_variants[] = {
    TM_VARIANT("shm", "topics of std_msgs/UInt8MultiArray, serialised; Fast DDS's shared memory, as on any one host",
               TM_PATH_SHARED_MEMORY, kTopicPatterns, kWaits, kTopicFlags),
    TM_VARIANT("udp", "topics of std_msgs/UInt8MultiArray, serialised; Fast DDS's UDP", TM_PATH_UDP,
               kTopicPatterns, kWaits, kTopicFlags | TM_REMOTE),
    TM_VARIANT("service", "a service with bytes in request and response, serialised; Fast DDS's shared memory",
               TM_PATH_SHARED_MEMORY, kServicePatterns, kWaits, kServiceFlags),
    TM_VARIANT("service-udp", "a service with bytes in request and response, serialised; Fast DDS's UDP", TM_PATH_UDP,
               kServicePatterns, kWaits, kServiceFlags | TM_REMOTE),
};

const tm_setting ros2_settings[] = {
    TM_SETTING("reliability", "reliable", "best_effort | reliable",
               "reliability of both ends; services are reliable", TM_NAMES_NOTHING),
    TM_SETTING("domain", "auto", "auto | 0 to 232", "ROS domain; auto: one that is free", TM_NAMES_HOST),
    TM_SETTING("depth", "10", "messages, 1 to 1000", "history (KEEP_LAST) of both ends", TM_NAMES_NOTHING),
    TM_SETTING("socket_buffer", "4194304", "bytes, 65536 to 1073741824",
               "send and receive buffers of UDP; the kernel caps them at net.core.{r,w}mem_max", TM_NAMES_NOTHING),
    TM_SETTING("segment_size", "524288", "bytes, 131072 to 1073741824",
               "shared segment of a process (shm, service); the default is Fast DDS's own", TM_NAMES_NOTHING),
    TM_SETTING("fragment_size", "65500", "bytes, 1024 to 67108864",
               "shared memory: a longer message goes in parts of this size; the default is Fast DDS's own",
               TM_NAMES_NOTHING),
};

Settings::Settings(const tm_node_options& options)
    : is_reliable(choice(options, "reliability", "best_effort", "reliable"))
    // The leader's subscription holds an answer of each follower, the follower's a message of each publisher.
    , depth(std::max({number(options, "depth", 1, 1000), options.follower_count, options.publisher_count}))
    , socket_buffer_bytes(number(options, "socket_buffer", 1u << 16, 1u << 30))
    , segment_bytes(number(options, "segment_size", 1u << 17, 1u << 30))
    , fragment_bytes(number(options, "fragment_size", 1u << 10, 1u << 26))
{
    const tm_variant* const found = tm_find_variant(ros2_variants, TM_COUNT(ros2_variants), options.variant);
    if (found == nullptr) {
        throw Failure(TM_INVALID, "variant '" + text(options.variant) + "' is not known");
    }
    if (options.publisher_count > kMostGreeting) {
        throw Failure(TM_LIMIT, std::to_string(options.publisher_count) + " publishers are more than "
                                    + std::to_string(kMostGreeting));
    }
    is_shared = found->path == TM_PATH_SHARED_MEMORY;
    is_service = (found->patterns & TM_CALL) != 0;
    const auto domain_text = setting(options, "domain");
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
    // A message without room in the segment is dropped, and best effort does not retransmit it.
    return is_shared && !is_reliable ? segment_bytes / 2 : kLargestPayload;
}
