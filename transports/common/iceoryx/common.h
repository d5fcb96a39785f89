/*
 * common.h: shared by the transports `iceoryx` and `iceoryx-c`: variant, setting, and requirements on RouDi.
 */
#ifndef TRIPMETER_ICEORYX_COMMON_H
#define TRIPMETER_ICEORYX_COMMON_H

#include "roudi.h"

#define QUEUE_CAPACITY_MAX 256u /* iceoryx's own limit */

static const tm_variant iceoryx_variants[] = {
    TM_VARIANT("shm",
               "publish/subscribe over shared memory, one topic per direction; a full queue drops its oldest message",
               TM_PATH_SHARED_MEMORY, TM_PING | TM_PUBLISH | TM_CALL | TM_THROUGHPUT,
               TM_POLL | TM_BLOCK | TM_CALLBACK, TM_ZERO_COPY | TM_LOSSY | TM_OWN_THREADS | TM_FAN_OUT | TM_PUBLISHERS),
};

static const tm_setting iceoryx_settings[] = {
    TM_SETTING("queue_capacity", "16", "messages, 1 to 256",
               "length of a subscriber's queue; when it is full, the oldest message is dropped", TM_NAMES_NOTHING),
};

/* Length of a subscriber's queue: at least one answer of each follower at the leader, one message of each publisher at
 * the follower. */
static inline uint64_t iceoryx_queue_length(uint64_t capacity, const tm_node_options *options)
{
    const uint64_t peers = options->role == TM_LEADER ? options->follower_count : options->publisher_count;
    return peers > capacity ? peers : capacity;
}

/*
 * True if a message may arrive before the previous one was taken. A notification in flight then makes the wait set of
 * iceoryx 2.0 sleep although a message is queued, so this side checks its queue before it waits.
 */
static inline bool iceoryx_looks_first(const tm_node_options *options)
{
    const bool is_answered = options->pattern == TM_PING || options->pattern == TM_CALL;
    return !is_answered || (options->role == TM_LEADER ? options->follower_count > 1 : options->publisher_count > 1);
}

/* Derives `need` from the options; an error if the transports do not support them. */
static inline int32_t iceoryx_read(const tm_node_options *options, roudi_need *need, tm_error *error)
{
    uint32_t queue_capacity = 16;
    if (!tm_is(options->variant, "shm")) {
        return tm_fail(error, TM_INVALID, "variant '%.*s' is not known; the only one is 'shm'",
                       (int)options->variant.length, options->variant.data);
    }
    const int32_t status = tm_read_number(options, "queue_capacity", 1, QUEUE_CAPACITY_MAX, &queue_capacity, error);
    need->options = options;
    need->payload_bytes = options->max_payload_bytes;
    need->queue_capacity = queue_capacity;
    return status;
}

static inline int32_t iceoryx_probe(const tm_node_options *options, tm_limits *limits, tm_error *error)
{
    roudi_need need;
    const int32_t status = iceoryx_read(options, &need, error);
    return status == TM_OK ? roudi_probe(&need, limits, error) : status;
}

static inline int32_t iceoryx_daemon_command(const tm_node_options *options, tm_daemon_command *command,
                                             tm_error *error)
{
    roudi_need need;
    const int32_t status = iceoryx_read(options, &need, error);
    return status == TM_OK ? roudi_daemon_command(&need, command, error) : status;
}

/* Reads the options and checks that RouDi serves them; call before the runtime is initialised. */
static inline int32_t iceoryx_check(const tm_node_options *options, roudi_need *need, tm_error *error)
{
    const int32_t status = iceoryx_read(options, need, error);
    return status == TM_OK ? roudi_check_need(need, error) : status;
}

/* Name and version of the iceoryx library that contains `symbol`. */
static inline void iceoryx_version(const void *symbol, char *buffer, size_t capacity)
{
    tm_library_version(symbol, "iceoryx", "of unknown version", buffer, capacity);
}

#endif /* TRIPMETER_ICEORYX_COMMON_H */
