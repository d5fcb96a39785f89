// Topics: one from leader to follower ("up") and one back ("down"), of std_msgs/UInt8MultiArray.

#include "link.h"

#include "tripmeter_plugin.hpp"

#include <std_msgs/msg/u_int8_multi_array.h>

using tripmeter::Failure;

namespace {

const rosidl_message_type_support_t* type_support()
{
    return ROSIDL_GET_MSG_TYPE_SUPPORT(std_msgs, msg, UInt8MultiArray);
}

// Message of a topic; the field `layout.data_offset` marks greetings.
class Message
{
  public:
    Message()
    {
        if (!std_msgs__msg__UInt8MultiArray__init(&message)) {
            throw Failure(TM_FAILED, "no memory for a message");
        }
    }
    ~Message()
    {
        std_msgs__msg__UInt8MultiArray__fini(&message);
    }
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;

    std_msgs__msg__UInt8MultiArray message{};
};

class Topics : public tm_link
{
  public:
    Topics(tm_node& node, const tm_link_options& options)
        : tm_link(node, options)
        , waiter_(node.joined->context, 1, 0, 0)
        , publisher_(rcl_get_zero_initialized_publisher())
        , subscription_(rcl_get_zero_initialized_subscription())
    {
        reserve(out_.message.data);
        const uint32_t topic = node.has_publishers ? 0 : index;
        const auto out = node.name(topic, node.is_leader ? "up" : "down");
        const auto in = node.name(topic, node.is_leader ? "down" : "up");
        auto publisher_options = rcl_publisher_get_default_options();
        publisher_options.qos = node.qos();
        auto subscription_options = rcl_subscription_get_default_options();
        subscription_options.qos = node.qos();
        if (greets()) {
            check(rcl_subscription_init(&subscription_, &node.joined->node, type_support(), in.c_str(),
                                        &subscription_options),
                  "no subscription to '" + in + "'");
        }
        const rcl_ret_t code =
            rcl_publisher_init(&publisher_, &node.joined->node, type_support(), out.c_str(), &publisher_options);
        if (code != RCL_RET_OK) {
            const Failure failure(TM_FAILED, "no publisher of '" + out + "'" + rcl_error());
            close();
            throw failure;
        }
        if (is_publisher) {
            node.links.push_back(this);
        }
    }

    ~Topics() override
    {
        node.links.erase(std::remove(node.links.begin(), node.links.end(), this), node.links.end());
        close();
    }

    int32_t loan(size_t length, const tm_message*, tm_loan& loan) override
    {
        lend(out_.message.data, length, loan);
        return TM_OK;
    }

    int32_t publish(uint64_t timeout_ns) override
    {
        return send_within(timeout_ns, "publishing failed",
                           [this] { return rcl_publish(&publisher_, &out_.message, nullptr); });
    }

  private:
    int32_t receive(tm_message& message) override
    {
        while (true) {
            const rcl_ret_t code = rcl_take(&subscription_, &in_.message, nullptr, nullptr);
            if (code == RCL_RET_SUBSCRIPTION_TAKE_FAILED) {
                return TM_AGAIN;
            }
            check(code, "taking a message failed");
            if (give(in_.message.layout.data_offset, in_.message.data, message)) {
                return TM_OK;
            }
        }
    }

    void sleep(uint64_t timeout_ns) override
    {
        waiter_.wait(subscription_, timeout_ns);
    }

    bool is_matched(size_t peer_count) override
    {
        size_t publishers = 0;
        check(rcl_subscription_get_publisher_count(&subscription_, &publishers), "publishers cannot be counted");
        // Of several publishers only one has a subscription, but each needs subscribers.
        const auto is_heard = [&](tm_link* link) { return static_cast<Topics*>(link)->subscriptions() >= peer_count; };
        const bool are_heard = is_publisher ? std::all_of(node.links.begin(), node.links.end(), is_heard)
                                            : subscriptions() >= (node.has_publishers ? 1 : peer_count);
        return are_heard && publishers >= peer_count;
    }

    size_t subscriptions() const
    {
        size_t count = 0;
        check(rcl_publisher_get_subscription_count(&publisher_, &count), "subscriptions cannot be counted");
        return count;
    }

    void greet(uint32_t bits) override
    {
        greeting_.message.layout.data_offset = bits;
        ignore(rcl_publish(&publisher_, &greeting_.message, nullptr));
    }

    void close() noexcept
    {
        ignore(rcl_publisher_fini(&publisher_, &node.joined->node));
        if (greets()) {
            ignore(rcl_subscription_fini(&subscription_, &node.joined->node));
        }
    }

    Message out_;
    Message in_;
    Message greeting_;
    Waiter waiter_;
    rcl_publisher_t publisher_;
    rcl_subscription_t subscription_;
};

} // namespace

std::unique_ptr<tm_link> open_topics(tm_node& node, const tm_link_options& options)
{
    return std::make_unique<Topics>(node, options);
}
