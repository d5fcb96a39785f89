// Failure: what a call ends with, as an exception within the plugin.

#ifndef TRIPMETER_FASTDDS_FAILURE_H
#define TRIPMETER_FASTDDS_FAILURE_H

#include "../../crates/abi/include/tripmeter_transport.h"

#include <cstdio>
#include <stdexcept>
#include <string>

// A status of the boundary with its one line for people.
class Failure : public std::runtime_error
{
  public:
    Failure(int32_t status, const std::string& text)
        : std::runtime_error(text)
        , status(status)
    {
    }

    const int32_t status;
};

// Runs `body`; an exception becomes a status with its text.
template <typename Body>
int32_t guarded(tm_error* error, Body&& body) noexcept
{
    const auto fail = [error](int32_t status, const char* text) {
        std::snprintf(error->text, sizeof error->text, "%s", text);
        return status;
    };
    try {
        return body();
    } catch (const Failure& failure) {
        return fail(failure.status, failure.what());
    } catch (const std::exception& exception) {
        return fail(TM_FAILED, exception.what());
    } catch (...) {
        return fail(TM_FAILED, "unknown exception");
    }
}

#endif // TRIPMETER_FASTDDS_FAILURE_H
