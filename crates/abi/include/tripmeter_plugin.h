/*
 * tripmeter_plugin.h: helpers for transports in C and C++: error text, settings, addresses, library versions, time, and
 * the tables of the contract. Header-only, C11 and C++17; tripmeter_plugin.hpp adds helpers for C++.
 *
 * Include it before any other header. It is optional: tripmeter_transport.h alone is the contract.
 */
#ifndef TRIPMETER_PLUGIN_H
#define TRIPMETER_PLUGIN_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* for dladdr */
#endif

#include "tripmeter_transport.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Longer time-outs are cut to an hour, so that they fit the time types of every library. */
#define TM_LONGEST_WAIT_NS UINT64_C(3600000000000)

#define TM_COUNT(array) (sizeof(array) / sizeof *(array))

/* Write it before the definition of tripmeter_transport if symbols are hidden by default. */
#define TM_EXPORT __attribute__((visibility("default")))

/* Designated initialisers in C. C++17 has none: there, the fields are in the order of the contract. */
#ifdef __cplusplus
#define TM_FIELD(field)
#else
#define TM_FIELD(field) .field =
#endif

/* A tm_variant; name and summary are string literals. */
#define TM_VARIANT(text, about, claim, carried, waited, flag_bits)                                                     \
    {                                                                                                                  \
        TM_FIELD(name) TM_STR(text), TM_FIELD(summary) TM_STR(about), TM_FIELD(path)(claim),                           \
            TM_FIELD(patterns)(carried), TM_FIELD(waits)(waited), TM_FIELD(flags)(flag_bits), TM_FIELD(reserved) {0}   \
    }

/* A tm_setting of string literals; only the last argument is a number, one of TM_NAMES_*. */
#define TM_SETTING(text, preset, allowed, about, named)                                                                \
    {                                                                                                                  \
        TM_FIELD(name) TM_STR(text), TM_FIELD(default_value) TM_STR(preset), TM_FIELD(values) TM_STR(allowed),         \
            TM_FIELD(summary) TM_STR(about), TM_FIELD(names)(named), TM_FIELD(reserved) {0}                            \
    }

/* A tm_transport whose functions have the names of its entries (probe, node_open, ...). `address` is the entry
 * link_address, tm_no_address if peers need none; `command` is the entry daemon_command, NULL without a daemon. */
#define TM_TRANSPORT(described, address, command)                                                                      \
    {                                                                                                                  \
        TM_FIELD(abi_version) TM_ABI_VERSION, TM_FIELD(struct_size) sizeof(tm_transport),                              \
            TM_FIELD(description)(described), TM_FIELD(probe) probe, TM_FIELD(daemon_command)(command),                \
            TM_FIELD(node_open) node_open, TM_FIELD(node_close) node_close, TM_FIELD(link_open) link_open,             \
            TM_FIELD(link_address)(address), TM_FIELD(link_connect) link_connect, TM_FIELD(link_close) link_close,     \
            TM_FIELD(loan) loan, TM_FIELD(publish) publish, TM_FIELD(discard) discard, TM_FIELD(take) take,            \
            TM_FIELD(release) release                                                                                  \
    }

/* Writes the error text, cut to fit, and returns `status`. */
__attribute__((format(printf, 3, 4))) static inline int32_t tm_fail(tm_error *error, int32_t status, const char *format,
                                                                    ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(error->text, sizeof error->text, format, values);
    va_end(values);
    return status;
}

/* Writes `WHAT failed: ` and the text of errno. Returns TM_CLOSED if the peer has gone, else TM_FAILED. */
static inline int32_t tm_fail_errno(tm_error *error, const char *what)
{
    const bool is_closed = errno == EPIPE || errno == ECONNRESET;
    return tm_fail(error, is_closed ? TM_CLOSED : TM_FAILED, "%s failed: %s", what, strerror(errno));
}

static inline bool tm_is(tm_str text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.data, word, text.length) == 0;
}

/* Copies a text and appends a NUL; false, with nothing copied, if both do not fit in `capacity` bytes. */
static inline bool tm_copy(tm_str text, char *buffer, size_t capacity)
{
    if (text.length >= capacity) {
        return false;
    }
    memcpy(buffer, text.data, text.length);
    buffer[text.length] = '\0';
    return true;
}

/* True if peers are on other hosts. */
static inline bool tm_is_between_hosts(const tm_node_options *options)
{
    const size_t end = offsetof(tm_node_options, local_address) + sizeof(tm_str);
    return options->struct_size >= end && options->local_address.length > 0;
}

/* Numeric address for listening sockets: local_address, or the loopback if it is empty. False if the buffer is too
 * small. Versions of Tripmeter older than local_address never set it. */
static inline bool tm_address(const tm_node_options *options, char *buffer, size_t capacity)
{
    if (tm_is_between_hosts(options)) {
        return tm_copy(options->local_address, buffer, capacity);
    }
    const tm_str loopback = TM_STR("127.0.0.1");
    return tm_copy(loopback, buffer, capacity);
}

/* The variant with this name; NULL if there is none. */
static inline const tm_variant *tm_find_variant(const tm_variant *variants, size_t count, tm_str name)
{
    for (size_t i = 0; i < count; ++i) {
        if (variants[i].name.length == name.length && memcmp(variants[i].name.data, name.data, name.length) == 0) {
            return &variants[i];
        }
    }
    return NULL;
}

/* The value of a setting; NULL if it is not given. */
static inline const tm_str *tm_setting_of(const tm_node_options *options, const char *name)
{
    for (size_t i = 0; i < options->setting_count; ++i) {
        if (tm_is(options->settings[i].key, name)) {
            return &options->settings[i].value;
        }
    }
    return NULL;
}

/* Reads a decimal number; false if the text is not a number from `least` to `most`. */
static inline bool tm_parse_number(tm_str text, uint64_t least, uint64_t most, uint64_t *number)
{
    uint64_t found = 0;
    if (text.length == 0 || text.length > 19) {
        return false;
    }
    for (size_t i = 0; i < text.length; ++i) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        found = found * 10 + (uint64_t)(text.data[i] - '0');
    }
    if (found < least || found > most) {
        return false;
    }
    *number = found;
    return true;
}

/* Reads a numeric setting into `value`, which stays unchanged if the setting is not given. TM_INVALID if it is not a
 * number from `least` to `most`. */
static inline int32_t tm_read_number(const tm_node_options *options, const char *name, uint32_t least, uint32_t most,
                                     uint32_t *value, tm_error *error)
{
    const tm_str *const text = tm_setting_of(options, name);
    uint64_t number = *value;
    if (text != NULL && !tm_parse_number(*text, least, most, &number)) {
        return tm_fail(error, TM_INVALID, "setting %s is not a number from %" PRIu32 " to %" PRIu32, name, least, most);
    }
    *value = (uint32_t)number;
    return TM_OK;
}

/* Reads a setting with two allowed texts: true for `yes`; `value` stays unchanged if the setting is not given. */
static inline int32_t tm_read_choice(const tm_node_options *options, const char *name, const char *yes, const char *no,
                                     bool *value, tm_error *error)
{
    const tm_str *const text = tm_setting_of(options, name);
    if (text == NULL) {
        return TM_OK;
    }
    *value = tm_is(*text, yes);
    return *value || tm_is(*text, no) ? TM_OK
                                      : tm_fail(error, TM_INVALID, "setting %s is neither %s nor %s", name, yes, no);
}

/* Entry link_address for a system whose peers find each other without the host. */
static inline int32_t tm_no_address(tm_link *link, uint8_t *buffer, size_t capacity, size_t *length, tm_error *error)
{
    (void)link, (void)buffer, (void)capacity, (void)error;
    *length = 0;
    return TM_OK;
}

/* Writes the results of the entry link_address; TM_LIMIT if `capacity` is too small. */
static inline int32_t tm_give_address(const void *address, size_t bytes, uint8_t *buffer, size_t capacity, size_t *length,
                                      tm_error *error)
{
    *length = bytes;
    if (bytes > capacity) {
        return tm_fail(error, TM_LIMIT, "address of %zu bytes, %zu at most", bytes, capacity);
    }
    memcpy(buffer, address, bytes);
    return TM_OK;
}

/* Address of a peer, as text. */
static inline tm_str tm_peer_text(const tm_bytes *peer)
{
    const tm_str text = {(const char *)peer->data, peer->length};
    return text;
}

/* Writes `name` and the version of the shared library that contains `symbol`, from its file name (`….so.2.0.3`).
 * `otherwise` replaces the version if the file name has none. */
static inline void tm_library_version(const void *symbol, const char *name, const char *otherwise, char *buffer,
                                      size_t capacity)
{
    Dl_info info;
    char path[PATH_MAX];
    const char *suffix = NULL;
    if (dladdr(symbol, &info) != 0 && info.dli_fname != NULL && realpath(info.dli_fname, path) != NULL) {
        suffix = strstr(path, ".so.");
    }
    snprintf(buffer, capacity, "%s %s", name, suffix != NULL ? suffix + strlen(".so.") : otherwise);
}

/* Monotonic time, for deadlines only: the host stamps the messages. */
static inline uint64_t tm_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time-out, cut to an hour. */
static inline uint64_t tm_wait_ns(uint64_t timeout_ns)
{
    return timeout_ns < TM_LONGEST_WAIT_NS ? timeout_ns : TM_LONGEST_WAIT_NS;
}

static inline void tm_sleep_1_ms(void)
{
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
}

#endif /* TRIPMETER_PLUGIN_H */
