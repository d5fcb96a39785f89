// A link: what topics and services have in common. A pair of topics or a service for each link.

#ifndef TRIPMETER_ROS2_LINK_H
#define TRIPMETER_ROS2_LINK_H

#include "node.h"

#include <rosidl_runtime_c/primitives_sequence.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

// Messages that links exchange while they connect carry this bit in a field that is 0 in all others.
constexpr uint32_t kGreeting = 1u << 31;
// Greeting: its sender has heard the receiver, and all others that it waits for.
constexpr uint32_t kHeard = 1u << 30;
// Greeting: index of the follower that sends it, or of one of several publishers; 0 for the leader else.
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

    // Leaves with the node, not before.
    void close()
    {
        node.closed.emplace_back(this);
    }

    // Waits for the peers: until both directions have carried a greeting. Throws Failure (TM_FAILED) after the time.
    void connect(size_t peer_count, std::chrono::nanoseconds time);

    // The functions of the boundary with these names.
    virtual int32_t loan(size_t length, const tm_message* in_reply_to, tm_loan& loan) = 0;
    virtual int32_t publish(uint64_t timeout_ns) = 0;
    int32_t take(uint64_t timeout_ns, tm_message& message);

  protected:
    // The next message, if there is one; greetings are dealt with.
    virtual int32_t receive(tm_message& message) = 0;
    // Sleeps until there may be a message, or for the time.
    virtual void sleep(uint64_t timeout_ns) = 0;
    // Of several publishers the first greets for all, so that all are connected when it is: they connect one after the other.
    bool greets() const
    {
        return !is_publisher || index == 0;
    }
    // Whether so many peers are known.
    virtual bool is_matched(size_t peer_count) = 0;
    // Sends a greeting with these bits, if it is for this side to begin. One that is not sent is repeated.
    virtual void greet(uint32_t bits) = 0;

    // The bits of a greeting that is sent now, of this link or of another publisher's.
    uint32_t greeting(const tm_link& link) const;
    // Takes note of a greeting.
    void hear(uint32_t bits);
    // Gives a message out of its sequence, or, if it is a greeting, takes note of that and returns false.
    bool give(uint32_t bits, const rosidl_runtime_c__uint8__Sequence& data, tm_message& message);
    // Makes room in `data` for the largest message, for all the time. Throws Failure.
    void reserve(rosidl_runtime_c__uint8__Sequence& data) const;
    // Lends `data`. Throws Failure.
    void lend(rosidl_runtime_c__uint8__Sequence& data, size_t length, tm_loan& loan) const;

    // Sends by `send`, again and again if there is no room: rmw gives a full writer no code of its own. Throws Failure with
    // `what` if it is anything else.
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
    const bool is_publisher; // one of several of one topic

  private:
    // Sends a greeting of this side.
    void greet_all();

    // Greetings, a bit for each peer: it was heard; it has said that it heard us.
    uint64_t heard_{};
    uint64_t acknowledged_{};
    uint64_t peers_{1};
};

// Open their ends; throw Failure.
std::unique_ptr<tm_link> open_topics(tm_node& node, const tm_link_options& options);
std::unique_ptr<tm_link> open_client(tm_node& node, const tm_link_options& options);
std::unique_ptr<tm_link> open_server(tm_node& node, const tm_link_options& options);

#endif // TRIPMETER_ROS2_LINK_H
