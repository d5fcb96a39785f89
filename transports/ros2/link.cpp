#include "link.h"

#include "tripmeter_plugin.hpp"

#include <rosidl_runtime_c/primitives_sequence_functions.h>

#include <cstring>

using tripmeter::Failure;

namespace {

constexpr std::chrono::nanoseconds kLongestWait{kLongestWaitNs};
constexpr std::chrono::milliseconds kPause{1};
constexpr std::chrono::milliseconds kGreetingPeriod{10};

} // namespace

void tm_link::connect(size_t peer_count, std::chrono::nanoseconds time)
{
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    peers_ = UINT64_MAX >> (64 - std::clamp<size_t>(peer_count, 1, 64));
    const auto deadline = begin + std::min(time, kLongestWait);
    auto greeted = begin - kGreetingPeriod;
    tm_message message{};
    while (peer_count > 0 && greets()) {
        const auto now = Clock::now();
        const bool is_known = is_matched(peer_count);
        if (is_known && heard_ == peers_ && acknowledged_ == peers_) {
            break;
        }
        if (now >= deadline) {
            const char* const what = is_known ? "the peer is found, but its greeting does not come through"
                                              : "no peer is found";
            const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
            throw Failure(TM_FAILED, "link " + std::to_string(index) + ": " + what + " after " + std::to_string(ms)
                                         + " ms" + rcl_error());
        }
        if (is_known && now - greeted >= kGreetingPeriod) {
            greet_all();
            greeted = now;
        }
        // Only greetings can arrive here: the host sends its first message later.
        receive(message);
        std::this_thread::sleep_for(kPause);
    }
    if (peer_count > 0 && greets()) {
        // Confirms to the peer that it was heard.
        greet_all();
    }
    node.connected();
}

uint32_t tm_link::greeting(const tm_link& link) const
{
    return kGreeting | (heard_ == peers_ ? kHeard : 0) | (is_publisher ? link.index : node.follower_index);
}

void tm_link::greet_all()
{
    if (!is_publisher) {
        greet(greeting(*this));
        return;
    }
    for (tm_link* const link : node.links) {
        link->greet(greeting(*link));
    }
}

void tm_link::hear(uint32_t bits)
{
    const uint64_t sender = uint64_t{1} << (bits & kSender);
    acknowledged_ |= (bits & kHeard) != 0 ? sender : 0;
    heard_ |= sender;
}

bool tm_link::give(uint32_t bits, const rosidl_runtime_c__uint8__Sequence& data, tm_message& message)
{
    if ((bits & kGreeting) != 0) {
        hear(bits);
        return false;
    }
    message.data = data.data;
    message.length = data.size;
    message.token = nullptr;
    return true;
}

void tm_link::reserve(rosidl_runtime_c__uint8__Sequence& data) const
{
    rosidl_runtime_c__uint8__Sequence__fini(&data);
    if (!rosidl_runtime_c__uint8__Sequence__init(&data, node.max_payload_bytes)) {
        throw Failure(TM_FAILED, "no memory for a message of " + std::to_string(node.max_payload_bytes) + " bytes");
    }
    // Allocates all pages before the first message.
    std::memset(data.data, 1, data.size);
    data.size = 0;
}

void tm_link::lend(rosidl_runtime_c__uint8__Sequence& data, size_t length, tm_loan& loan) const
{
    if (length > node.max_payload_bytes) {
        throw Failure(TM_LIMIT, "payload of " + std::to_string(length) + " bytes exceeds the "
                                    + std::to_string(node.max_payload_bytes) + " that the link is open for");
    }
    data.size = length;
    loan.data = data.data;
    loan.length = length;
    loan.token = nullptr;
}

int32_t tm_link::take(uint64_t timeout_ns, tm_message& message)
{
    if (node.wait == TM_BLOCK) {
        sleep(timeout_ns);
    }
    return receive(message);
}
