// A service: the leader is its client, the follower its server.

#include "link.h"

#include "tripmeter_plugin.hpp"

#include <tripmeter_ros2/srv/echo.h>
#include <tripmeter_ros2/srv/detail/echo__rosidl_typesupport_fastrtps_c.h>

using tripmeter::Failure;

namespace {

// Fast DDS's own type support: rmw uses it directly, without searching for a library by name.
const rosidl_service_type_support_t* type_support()
{
    return ROSIDL_TYPESUPPORT_INTERFACE__SERVICE_SYMBOL_NAME(rosidl_typesupport_fastrtps_c, tripmeter_ros2, srv, Echo)();
}

// One request or response, reused for all messages.
template <typename Content, bool (*Init)(Content*), void (*Fini)(Content*)>
class Half
{
  public:
    Half()
    {
        if (!Init(&content)) {
            throw Failure(TM_FAILED, "no memory for a message");
        }
    }
    ~Half()
    {
        Fini(&content);
    }
    Half(const Half&) = delete;
    Half& operator=(const Half&) = delete;

    Content content{};
};

using Request = Half<tripmeter_ros2__srv__Echo_Request, tripmeter_ros2__srv__Echo_Request__init,
                     tripmeter_ros2__srv__Echo_Request__fini>;
using Response = Half<tripmeter_ros2__srv__Echo_Response, tripmeter_ros2__srv__Echo_Response__init,
                      tripmeter_ros2__srv__Echo_Response__fini>;

rmw_qos_profile_t service_qos(const tm_node& node)
{
    rmw_qos_profile_t qos = rmw_qos_profile_services_default;
    qos.depth = node.settings.depth;
    return qos;
}

class Client : public tm_link
{
  public:
    Client(tm_node& node, const tm_link_options& options)
        : tm_link(node, options)
        , waiter_(node.joined->context, 0, 1, 0)
        , client_(rcl_get_zero_initialized_client())
    {
        reserve(request_.content.data);
        const auto name = node.name(index, "echo");
        auto client_options = rcl_client_get_default_options();
        client_options.qos = service_qos(node);
        check(rcl_client_init(&client_, &node.joined->node, type_support(), name.c_str(), &client_options),
              "no client of '" + name + "'");
    }

    ~Client() override
    {
        ignore(rcl_client_fini(&client_, &node.joined->node));
    }

    int32_t loan(size_t length, const tm_message*, tm_loan& loan) override
    {
        lend(request_.content.data, length, loan);
        return TM_OK;
    }

    int32_t publish(uint64_t timeout_ns) override
    {
        int64_t number = 0;
        return send_within(timeout_ns, "sending a request failed",
                           [&] { return rcl_send_request(&client_, &request_.content, &number); });
    }

  private:
    int32_t receive(tm_message& message) override
    {
        while (true) {
            rmw_request_id_t request{};
            const rcl_ret_t code = rcl_take_response(&client_, &request, &response_.content);
            if (code == RCL_RET_CLIENT_TAKE_FAILED) {
                return TM_AGAIN;
            }
            check(code, "taking a response failed");
            if (give(response_.content.greeting, response_.content.data, message)) {
                return TM_OK;
            }
        }
    }

    void sleep(uint64_t timeout_ns) override
    {
        waiter_.wait(client_, timeout_ns);
    }

    bool is_matched(size_t) override
    {
        bool is_available = false;
        check(rcl_service_server_is_available(&node.joined->node, &client_, &is_available),
              "the server cannot be looked for");
        return is_available;
    }

    void greet(uint32_t bits) override
    {
        int64_t number = 0;
        greeting_.content.greeting = bits;
        ignore(rcl_send_request(&client_, &greeting_.content, &number));
    }

    Request request_;
    Request greeting_;
    Response response_;
    Waiter waiter_;
    rcl_client_t client_;
};

class Server : public tm_link
{
  public:
    Server(tm_node& node, const tm_link_options& options)
        : tm_link(node, options)
        , waiter_(node.joined->context, 0, 0, 1)
        , service_(rcl_get_zero_initialized_service())
    {
        reserve(response_.content.data);
        const auto name = node.name(index, "echo");
        auto service_options = rcl_service_get_default_options();
        service_options.qos = service_qos(node);
        check(rcl_service_init(&service_, &node.joined->node, type_support(), name.c_str(), &service_options),
              "no service '" + name + "'");
    }

    ~Server() override
    {
        ignore(rcl_service_fini(&service_, &node.joined->node));
    }

    int32_t loan(size_t length, const tm_message* in_reply_to, tm_loan& loan) override
    {
        // Without `in_reply_to`, as under ping, answers the latest request.
        answered_ = in_reply_to != nullptr ? *static_cast<const rmw_request_id_t*>(in_reply_to->token) : taken_;
        lend(response_.content.data, length, loan);
        return TM_OK;
    }

    int32_t publish(uint64_t timeout_ns) override
    {
        return send_within(timeout_ns, "sending a response failed",
                           [this] { return rcl_send_response(&service_, &answered_, &response_.content); });
    }

  private:
    int32_t receive(tm_message& message) override
    {
        while (true) {
            const rcl_ret_t code = rcl_take_request(&service_, &taken_, &request_.content);
            if (code == RCL_RET_SERVICE_TAKE_FAILED) {
                return TM_AGAIN;
            }
            check(code, "taking a request failed");
            if (give(request_.content.greeting, request_.content.data, message)) {
                message.token = &taken_;
                return TM_OK;
            }
            greeting_.content.greeting = greeting(*this);
            ignore(rcl_send_response(&service_, &taken_, &greeting_.content));
        }
    }

    void sleep(uint64_t timeout_ns) override
    {
        waiter_.wait(service_, timeout_ns);
    }

    bool is_matched(size_t) override
    {
        return true;
    }

    // Empty: a server never sends first.
    void greet(uint32_t) override {}

    Request request_;
    Response response_;
    Response greeting_;
    rmw_request_id_t taken_{};
    rmw_request_id_t answered_{};
    Waiter waiter_;
    rcl_service_t service_;
};

} // namespace

std::unique_ptr<tm_link> open_client(tm_node& node, const tm_link_options& options)
{
    return std::make_unique<Client>(node, options);
}

std::unique_ptr<tm_link> open_server(tm_node& node, const tm_link_options& options)
{
    return std::make_unique<Server>(node, options);
}
