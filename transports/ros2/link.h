// A link: base class of topics and services. Each link has a pair of topics or a service.

#ifndef TRIPMETER_ROS2_LINK_H
#define TRIPMETER_ROS2_LINK_H

#include "node.h"

#include <rosidl_runtime_c/primitives_sequence.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

// Marks a greeting, which links exchange while they connect, in a field that is 0 in all other messages.
constexpr uint32_t kGreeting = 1u << 31;
// Greeting: the sender has heard all peers that it waits for, the receiver included.
constexpr uint32_t kHeard = 1u << 30;
// Greeting: index of the sending follower, or of the sending publisher if there are several; otherwise 0.
constexpr uint32_t kSender = (1u << 6) - 1;

struct tm_link {
    tm_link(tm_node& node, const tm_link_options& options)
        : node(node)
        , index(options.index)
        , is_publisher(node.has_publishers && node.is_leader)
    {
    }
    virtual ~tm_link() = default;
    tm_link(const tm_link&) = delete;
    tm_link& operator=(const tm_link&) = delete;

    // Defers closing until the node leaves.
    void close()
    {
        node.closed.emplace_back(this);
    }

    // Waits until greetings have been exchanged with all peers. Throws Failure (TM_FAILED) after `time`.
    void connect(size_t peer_count, std::chrono::nanoseconds time);

    // Implement the plugin functions of the same names.
    virtual int32_t loan(size_t length, const tm_message* in_reply_to, tm_loan& loan) = 0;
    virtual int32_t publish(uint64_t timeout_ns) = 0;
    int32_t take(uint64_t timeout_ns, tm_message& message);

  protected:
    // Takes the next message, if there is one; handles greetings.
    virtual int32_t receive(tm_message& message) = 0;
    // Sleeps until there may be a message, or until the time-out.
    virtual void sleep(uint64_t timeout_ns) = 0;
    // True if this link greets. The first of several publishers greets for all, as they connect one after the other.
    bool greets() const
    {
        return !is_publisher || index == 0;
    }
    // True if `peer_count` peers are discovered.
    virtual bool is_matched(size_t peer_count) = 0;
    // Sends a greeting with these bits, if this side may send first. The caller repeats it if it is not sent.
    virtual void greet(uint32_t bits) = 0;

    // Bits for a greeting of `link`, which is this link or another publisher's.
    uint32_t greeting(const tm_link& link) const;
    // Stores the bits of a received greeting.
    void hear(uint32_t bits);
    // Fills `message` from a received sequence; if it is a greeting, stores that and returns false.
    bool give(uint32_t bits, const rosidl_runtime_c__uint8__Sequence& data, tm_message& message);
    // Allocates `data` once for the largest message. Throws Failure.
    void reserve(rosidl_runtime_c__uint8__Sequence& data) const;
    // Loans the memory of `data` to the host. Throws Failure.
    void lend(rosidl_runtime_c__uint8__Sequence& data, size_t length, tm_loan& loan) const;

    // Calls `send`, and retries while it fails for lack of room: rmw has no code of its own for a full writer. Throws
    // Failure with `what` for any other error.
    template <typename Send>
    static int32_t send_within(uint64_t timeout_ns, const char* what, Send&& send)
    {
        rcl_ret_t code = send();
        if (code == RCL_RET_OK) {
            return TM_OK;
        }
        const auto begin = std::chrono::steady_clock::now();
        const auto time = std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs));
        while (code == RCL_RET_ERROR || code == RCL_RET_TIMEOUT) {
            ignore(code);
            if (std::chrono::steady_clock::now() - begin >= time) {
                return TM_AGAIN;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            code = send();
        }
        check(code, what);
        return TM_OK;
    }

    tm_node& node;
    const uint32_t index;
    const bool is_publisher; // one of several on one topic

  private:
    // Sends a greeting of this side.
    void greet_all();

    // A bit for each peer whose greeting was heard, and for each that has confirmed ours.
    uint64_t heard_{};
    uint64_t acknowledged_{};
    uint64_t peers_{1};
};

// Create a link with its topics, client or server; throw Failure.
std::unique_ptr<tm_link> open_topics(tm_node& node, const tm_link_options& options);
std::unique_ptr<tm_link> open_client(tm_node& node, const tm_link_options& options);
std::unique_ptr<tm_link> open_server(tm_node& node, const tm_link_options& options);

#endif // TRIPMETER_ROS2_LINK_H
