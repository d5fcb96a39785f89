// Errors as the host wants them: a status, and one line.
#ifndef TRIPMETER_ECAL_STATUS_H
#define TRIPMETER_ECAL_STATUS_H

#include "../../crates/abi/include/tripmeter_transport.h"

#include <cstdarg>
#include <cstdio>
#include <exception>

// Writes the line and returns `status`.
__attribute__((format(printf, 3, 4))) inline int32_t fail(tm_error* error, int32_t status, const char* format, ...) noexcept
{
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

// Runs `body`; an exception becomes TM_FAILED.
template <typename Body>
int32_t guarded(const char* what, tm_error* error, Body&& body) noexcept
{
    try {
        return body();
    } catch (const std::exception& exception) {
        return fail(error, TM_FAILED, "%s: %s", what, exception.what());
    } catch (...) {
        return fail(error, TM_FAILED, "%s: unknown exception", what);
    }
}

#endif // TRIPMETER_ECAL_STATUS_H
