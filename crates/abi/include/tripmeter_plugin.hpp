// tripmeter_plugin.hpp: helpers for transports in C++17, beside tripmeter_plugin.h: failures as exceptions that do not
// leave the library, settings, and the description.
#ifndef TRIPMETER_PLUGIN_HPP
#define TRIPMETER_PLUGIN_HPP

#include "tripmeter_plugin.h"

#include <exception>
#include <stdexcept>
#include <string>

namespace tripmeter {

// Exception with a TM_* status and one line of error text.
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

// Runs `body` and returns its status. Exceptions become errors: a Failure keeps its status and text, any other becomes
// TM_FAILED, with `what` before its text.
template <typename Body>
int32_t guarded(tm_error* error, const char* what, Body&& body) noexcept
{
    const char* const colon = *what != '\0' ? ": " : "";
    try {
        return body();
    } catch (const Failure& failure) {
        return tm_fail(error, failure.status, "%s", failure.what());
    } catch (const std::exception& exception) {
        return tm_fail(error, TM_FAILED, "%s%s%s", what, colon, exception.what());
    } catch (...) {
        return tm_fail(error, TM_FAILED, "%s%sunknown exception", what, colon);
    }
}

template <typename Body>
int32_t guarded(tm_error* error, Body&& body) noexcept
{
    return guarded(error, "", body);
}

inline std::string text(const tm_str& string)
{
    return {string.data, string.length};
}

// Numeric address for listening sockets: local_address, or the loopback. Throws Failure if it is too long.
inline std::string address(const tm_node_options& options)
{
    char found[64];
    if (!tm_address(&options, found, sizeof found)) {
        throw Failure(TM_INVALID, "the address of the interface is too long");
    }
    return found;
}

// Folder TM_AGREED: files of the leader for all processes of a run, also on other hosts.
inline std::string agreed_folder(const tm_node_options& options)
{
    return text(options.scratch_dir) + "/" TM_AGREED;
}

// The value of a setting. Throws Failure if it is missing; normally the host fills in the default.
inline std::string setting(const tm_node_options& options, const char* name)
{
    const tm_str* const found = tm_setting_of(&options, name);
    if (found == nullptr) {
        throw Failure(TM_INVALID, std::string("setting ") + name + " is missing");
    }
    return text(*found);
}

[[noreturn]] inline void refuse(const char* name, const std::string& value, const std::string& wanted)
{
    throw Failure(TM_INVALID, std::string("setting ") + name + "=" + value + " is not understood; it is " + wanted);
}

// True if a setting is `yes`. Throws Failure (TM_INVALID) if it is neither `yes` nor `no`.
inline bool choice(const tm_node_options& options, const char* name, const char* no, const char* yes)
{
    const auto value = setting(options, name);
    if (value != no && value != yes) {
        refuse(name, value, std::string(no) + " or " + yes);
    }
    return value == yes;
}

// Parses the value of a setting. Throws Failure (TM_INVALID) if it is not a number from `least` to `most`.
inline uint32_t number(const char* name, const std::string& value, uint32_t least, uint32_t most)
{
    uint64_t found = 0;
    if (!tm_parse_number({value.data(), value.size()}, least, most, &found)) {
        refuse(name, value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return static_cast<uint32_t>(found);
}

inline uint32_t number(const tm_node_options& options, const char* name, uint32_t least, uint32_t most)
{
    return number(name, setting(options, name), least, most);
}

// Description of a transport; `system_version`, the lists and the literals must live as long as the library.
template <size_t Variants, size_t Settings>
tm_description describe(tm_str system, tm_str summary, tm_str version, tm_str system_version,
                        const tm_variant (&variants)[Variants], const tm_setting (&settings)[Settings], tm_str daemon = {})
{
    return {sizeof(tm_description), 0,        system,   summary,  version, system_version,
            variants,               Variants, settings, Settings, daemon};
}

} // namespace tripmeter

#endif // TRIPMETER_PLUGIN_HPP
