// What rcl says about its errors, and the environment that it reads.

#ifndef TRIPMETER_ROS2_RCL_H
#define TRIPMETER_ROS2_RCL_H

#include <rcl/error_handling.h>
#include <rcl/graph.h>
#include <rcl/rcl.h>

#include <cstdint>
#include <string>

// Longer waits are waits of an hour.
constexpr uint64_t kLongestWaitNs = UINT64_C(3'600'000'000'000);

// Takes the latest error of rcl in this thread: ": " and its text in one line, or nothing.
std::string rcl_error();

// Throws Failure (TM_FAILED) with `what` and rcl's error, unless the call was good.
void check(rcl_ret_t code, const std::string& what);

// Forgets the error of a call whose failure changes nothing.
void ignore(rcl_ret_t code) noexcept;

// Waits for one subscription, client or service.
class Waiter
{
  public:
    // Makes room for one of these kinds: 1 and two times 0. Throws Failure.
    Waiter(rcl_context_t& context, size_t subscriptions, size_t clients, size_t services);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    // False after the time. Throws Failure.
    bool wait(const rcl_subscription_t& subscription, uint64_t timeout_ns);
    bool wait(const rcl_client_t& client, uint64_t timeout_ns);
    bool wait(const rcl_service_t& service, uint64_t timeout_ns);

  private:
    bool wait(uint64_t timeout_ns);

    rcl_wait_set_t set_;
};

// Has rcl and Fast DDS do what the settings of this run say and nothing else, whatever the environment says: profiles
// from `profile`, log files, if any, to `log_folder`, and nothing to our output streams.
void prepare_environment(const std::string& profile, const std::string& log_folder);

#endif // TRIPMETER_ROS2_RCL_H
