// Error texts of rcl, waiting, and the environment that rcl reads.

#ifndef TRIPMETER_ROS2_RCL_H
#define TRIPMETER_ROS2_RCL_H

#include <rcl/error_handling.h>
#include <rcl/graph.h>
#include <rcl/rcl.h>

#include <cstdint>
#include <string>

// Longest wait; longer time-outs are cut to an hour.
constexpr uint64_t kLongestWaitNs = UINT64_C(3'600'000'000'000);

// Takes rcl's latest error in this thread, as one line prefixed with ": "; empty if there is none.
std::string rcl_error();

// Throws Failure (TM_FAILED) with `what` and rcl's error, unless the call succeeded.
void check(rcl_ret_t code, const std::string& what);

// Discards the error of a call whose failure does not matter.
void ignore(rcl_ret_t code) noexcept;

// Waits for one subscription, client or service.
class Waiter
{
  public:
    // Prepares to wait for one kind: exactly one of the numbers is 1, the others are 0. Throws Failure.
    Waiter(rcl_context_t& context, size_t subscriptions, size_t clients, size_t services);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    // False after the time-out. Throws Failure.
    bool wait(const rcl_subscription_t& subscription, uint64_t timeout_ns);
    bool wait(const rcl_client_t& client, uint64_t timeout_ns);
    bool wait(const rcl_service_t& service, uint64_t timeout_ns);

  private:
    bool wait(uint64_t timeout_ns);

    rcl_wait_set_t set_;
};

// Makes rcl and Fast DDS follow only the settings of this run, not the environment: profiles from `profile`, log files,
// if any, in `log_folder`, and no output to our streams.
void prepare_environment(const std::string& profile, const std::string& log_folder);

#endif // TRIPMETER_ROS2_RCL_H
