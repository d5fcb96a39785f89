#include "rcl.h"

#include "../common/fastdds/environment.h"
#include "tripmeter_plugin.hpp"

#include <rcutils/logging.h>

#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <mutex>

using tripmeter::Failure;

// Replaces librcl's own function, which runs at loading and ends the process if RMW_IMPLEMENTATION names another
// middleware than the linked one. Here linking this plugin has settled the middleware.
extern "C" __attribute__((visibility("default"))) rcl_ret_t rcl_rmw_implementation_identifier_check(void)
{
    return RCL_RET_OK;
}

namespace {

// Discards the logs of rcl and the layers below: the errors that they return contain the same text.
void say_nothing(const rcutils_log_location_t*, int, const char*, rcutils_time_point_value_t, const char*, va_list*) {}

} // namespace

std::string rcl_error()
{
    if (!rcl_error_is_set()) {
        return {};
    }
    std::string error = rcl_get_error_string().str;
    rcl_reset_error();
    std::replace(error.begin(), error.end(), '\n', ' ');
    return ": " + error;
}

void check(rcl_ret_t code, const std::string& what)
{
    if (code != RCL_RET_OK) {
        throw Failure(TM_FAILED, what + " (code " + std::to_string(code) + ")" + rcl_error());
    }
}

void ignore(rcl_ret_t code) noexcept
{
    if (code != RCL_RET_OK) {
        rcl_reset_error();
    }
}

Waiter::Waiter(rcl_context_t& context, size_t subscriptions, size_t clients, size_t services)
    : set_(rcl_get_zero_initialized_wait_set())
{
    check(rcl_wait_set_init(&set_, subscriptions, 0, 0, clients, services, 0, &context, rcl_get_default_allocator()),
          "no wait set can be made");
}

Waiter::~Waiter()
{
    ignore(rcl_wait_set_fini(&set_));
}

bool Waiter::wait(const rcl_subscription_t& subscription, uint64_t timeout_ns)
{
    check(rcl_wait_set_clear(&set_), "the wait set cannot be cleared");
    check(rcl_wait_set_add_subscription(&set_, &subscription, nullptr), "the subscription cannot be waited for");
    return wait(timeout_ns);
}

bool Waiter::wait(const rcl_client_t& client, uint64_t timeout_ns)
{
    check(rcl_wait_set_clear(&set_), "the wait set cannot be cleared");
    check(rcl_wait_set_add_client(&set_, &client, nullptr), "the client cannot be waited for");
    return wait(timeout_ns);
}

bool Waiter::wait(const rcl_service_t& service, uint64_t timeout_ns)
{
    check(rcl_wait_set_clear(&set_), "the wait set cannot be cleared");
    check(rcl_wait_set_add_service(&set_, &service, nullptr), "the service cannot be waited for");
    return wait(timeout_ns);
}

bool Waiter::wait(uint64_t timeout_ns)
{
    const rcl_ret_t code = rcl_wait(&set_, static_cast<int64_t>(std::min(timeout_ns, kLongestWaitNs)));
    if (code == RCL_RET_TIMEOUT) {
        return false;
    }
    check(code, "waiting failed");
    return true;
}

void prepare_environment(const std::string& profile, const std::string& log_folder)
{
    static std::mutex preparing;
    const std::lock_guard<std::mutex> lock(preparing);
    ignore_defaults();
    for (const char* const name :
         {"ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS", "ROS_SECURITY_ENABLE", "ROS_SECURITY_STRATEGY",
          "ROS_SECURITY_KEYSTORE", "ROS_SECURITY_ENCLAVE_OVERRIDE", "ROS_DOMAIN_ID", "ROS_DISABLE_LOANED_MESSAGES",
          "RMW_FASTRTPS_USE_QOS_FROM_XML", "RMW_FASTRTPS_PUBLICATION_MODE"}) {
        unsetenv(name);
    }
    // The profile binds the sockets to one address. rmw's own range LOCALHOST leaves them open to
    // all addresses.
    setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "SYSTEM_DEFAULT", 1);
    setenv("ROS_LOG_DIR", log_folder.c_str(), 1);
    for (const char* const name : {"FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"}) {
        setenv(name, profile.c_str(), 1);
    }
    if (rcutils_logging_initialize() == RCUTILS_RET_OK) {
        rcutils_logging_set_output_handler(say_nothing);
    }
}
