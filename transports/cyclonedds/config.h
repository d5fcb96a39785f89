/*
 * config.h: variants, settings and limits of transport `cyclonedds`.
 */
#ifndef TRIPMETER_CYCLONEDDS_CONFIG_H
#define TRIPMETER_CYCLONEDDS_CONFIG_H

#include "../iceoryx/roudi.h"

/* Bytes of a chunk beside the payload: our length, Cyclone DDS's header, alignment. */
#define CHUNK_EXTRA_BYTES 256u

/* UDP: a datagram takes up to twice its bytes of a receive buffer; half of it is kept for what else is under way. */
#define BUFFER_PER_PAYLOAD 4u
#define LEAST_BUFFER_BYTES (UINT64_C(1) << 20)

#define MOST_DEPTH 256u /* iceoryx's own limit */
#define LEAST_PACKET_BYTES 1456u
#define MOST_PACKET_BYTES 65000u
#define PRESET_PACKET_BYTES 14720u /* the library's own defaults */
#define PRESET_FRAGMENT_BYTES 1344u
#define PRESET_WATERMARK_BYTES (UINT64_C(500) << 10)
#define CALLBACK_WATERMARK_BYTES (UINT64_C(256) << 20) /* acknowledgements are asked for every 10 ms */

#define MOST_FOLLOWERS 64u

#define RMEM_MAX "/proc/sys/net/core/rmem_max"

static const tm_variant variants[] = {
    {TM_STR("udp"), TM_STR("topics over UDP, 127.0.0.1"), TM_PATH_UDP,
     TM_PINGPONG | TM_CHANNEL | TM_RPC | TM_THROUGHPUT,
     TM_POLL | TM_BLOCK | TM_CALLBACK, TM_LOSSY | TM_REMOTE | TM_SECURE | TM_OWN_THREADS
         | TM_FAN_OUT | TM_PUBLISHERS,
     {0}},
    {TM_STR("tcp"), TM_STR("topics over TCP, 127.0.0.1"), TM_PATH_TCP,
     TM_PINGPONG | TM_CHANNEL | TM_RPC | TM_THROUGHPUT,
     TM_POLL | TM_BLOCK | TM_CALLBACK, TM_LOSSY | TM_REMOTE | TM_SECURE | TM_OWN_THREADS
         | TM_FAN_OUT | TM_PUBLISHERS,
     {0}},
    {TM_STR("iceoryx"), TM_STR("topics over iceoryx shared memory; discovery over UDP"), TM_PATH_SHARED_MEMORY,
     TM_PINGPONG | TM_CHANNEL | TM_RPC | TM_THROUGHPUT, TM_POLL | TM_BLOCK | TM_CALLBACK,
     TM_ZERO_COPY | TM_LOSSY | TM_OWN_THREADS | TM_FAN_OUT | TM_PUBLISHERS, {0}},
};

static const tm_setting settings[] = {
    {TM_STR("reliability"), TM_STR("reliable"), TM_STR("reliable | best_effort"),
     TM_STR("QoS of writer and reader; over iceoryx both may lose the oldest message of a full queue"), {0}},
    {TM_STR("depth"), TM_STR("16"), TM_STR("messages, 1 to 256"),
     TM_STR("most that a reader holds: reliable writers then wait, others and iceoryx drop the oldest"), {0}},
    {TM_STR("packet"), TM_STR("default"), TM_STR("default | bytes, 1456 to 65000"),
     TM_STR("MaxMessageSize, with fragments that fill it; default: 14720, fragments of 1344"), {0}},
    {TM_STR("nodelay"), TM_STR("on"), TM_STR("on | off"),
     TM_STR("on: TCP_NODELAY, set by us: Cyclone DDS 0.10 means to, and does not; off: as the library leaves it"), {0}},
    {TM_STR("security"), TM_STR("off"), TM_STR("off | on"),
     TM_STR("on: authenticated, everything encrypted, with credentials made for the run; udp and tcp"), {0}},
};

/* How the bytes travel. */
typedef enum carrier { OVER_UDP, OVER_TCP, OVER_ICEORYX } carrier;

/* What the options say. */
typedef struct config {
    carrier carrier;
    bool is_reliable;
    bool is_secured;
    bool is_undelayed; /* TCP */
    uint32_t depth;
    uint32_t followers;
    uint32_t publishers; /* of one topic */
    uint32_t packet_bytes; /* 0: the library's default */
    uint64_t buffer_bytes; /* of UDP sockets */
} config;

/* Writes the error text and returns `status`. */
#define fail iceoryx_fail

static inline bool is(tm_str text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.data, word, text.length) == 0;
}

/* A setting's value, empty if it is not given. */
static inline tm_str setting(const tm_node_options *options, const char *name)
{
    for (size_t i = 0; i < options->setting_count; ++i) {
        if (is(options->settings[i].key, name)) {
            return options->settings[i].value;
        }
    }
    return (tm_str)TM_STR("");
}

/* A number from `least` to `most`; 0 if the text is none. */
static inline uint32_t number(tm_str text, uint32_t least, uint32_t most)
{
    char copy[16] = "";
    char *end = NULL;
    if (text.length == 0 || text.length >= sizeof copy || text.data[0] < '0' || text.data[0] > '9') {
        return 0;
    }
    memcpy(copy, text.data, text.length);
    const unsigned long found = strtoul(copy, &end, 10);
    return *end == '\0' && found >= least && found <= most ? (uint32_t)found : 0;
}

/* What net.core.rmem_max allows a socket, in bytes. */
static inline uint64_t most_buffer_bytes(void)
{
    uint64_t bytes = 0;
    FILE *file = fopen(RMEM_MAX, "re");
    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%" SCNu64, &bytes) != 1) {
        bytes = 0;
    }
    fclose(file);
    return bytes;
}

static inline uint64_t buffer_bytes(uint64_t payload_bytes)
{
    const uint64_t most = most_buffer_bytes();
    const uint64_t wanted = BUFFER_PER_PAYLOAD * payload_bytes;
    const uint64_t least = wanted > LEAST_BUFFER_BYTES ? wanted : LEAST_BUFFER_BYTES;
    return least < most ? least : most;
}

/* The carrier of a variant; -1 if there is none of that name. */
static inline int carrier_of(tm_str variant)
{
    if (is(variant, "udp")) {
        return LIE == 1 ? OVER_TCP : OVER_UDP;
    }
    if (is(variant, "tcp")) {
        return LIE == 1 ? OVER_UDP : OVER_TCP;
    }
    return is(variant, "iceoryx") ? (LIE == 1 ? OVER_UDP : OVER_ICEORYX) : -1;
}

static inline int32_t read_config(const tm_node_options *options, config *found, tm_error *error)
{
    const tm_str reliability = setting(options, "reliability");
    const tm_str security = setting(options, "security");
    const tm_str nodelay = setting(options, "nodelay");
    const tm_str depth = setting(options, "depth");
    const tm_str packet = setting(options, "packet");
    const int carrier = carrier_of(options->variant);
    if (carrier < 0) {
        return fail(error, TM_INVALID, "variant '%.*s' is not known; there are udp, tcp and iceoryx",
                    (int)options->variant.length, options->variant.data);
    }
    found->carrier = (enum carrier)carrier;
    found->is_reliable = reliability.length == 0 || is(reliability, "reliable");
    found->is_secured = is(security, "on");
    found->is_undelayed = !is(nodelay, "off");
    found->depth = depth.length == 0 ? 16 : number(depth, 1, MOST_DEPTH);
    found->followers = options->follower_count != 0 ? options->follower_count : 1;
    found->publishers = options->publisher_count != 0 ? options->publisher_count : 1;
    found->packet_bytes = number(packet, LEAST_PACKET_BYTES, MOST_PACKET_BYTES);
    found->buffer_bytes = buffer_bytes(options->max_payload_bytes);
    if (!found->is_reliable && !is(reliability, "best_effort")) {
        return fail(error, TM_INVALID, "setting reliability is neither reliable nor best_effort");
    }
    if (!found->is_secured && security.length != 0 && !is(security, "off")) {
        return fail(error, TM_INVALID, "setting security is neither on nor off");
    }
    if (found->is_undelayed && nodelay.length != 0 && !is(nodelay, "on")) {
        return fail(error, TM_INVALID, "setting nodelay is neither on nor off");
    }
    if (!found->is_undelayed && found->carrier != OVER_TCP) {
        return fail(error, TM_INVALID, "setting nodelay is of tcp only; leave it out");
    }
    if (found->depth == 0) {
        return fail(error, TM_INVALID, "setting depth is not a number from 1 to %u", MOST_DEPTH);
    }
    if (found->followers > MOST_FOLLOWERS) {
        return fail(error, TM_LIMIT, "%" PRIu32 " followers are more than %u", found->followers, MOST_FOLLOWERS);
    }
    if (found->publishers > MOST_DEPTH) {
        return fail(error, TM_LIMIT, "%" PRIu32 " publishers are more than %u", found->publishers, MOST_DEPTH);
    }
    /* The leader's reader holds an answer of each, and the follower's a message of each publisher. */
    found->depth = found->depth > found->followers ? found->depth : found->followers;
    found->depth = found->depth > found->publishers ? found->depth : found->publishers;
    if (found->packet_bytes == 0 && packet.length != 0 && !is(packet, "default")) {
        return fail(error, TM_INVALID, "setting packet is neither 'default' nor a number from %u to %u",
                    LEAST_PACKET_BYTES, MOST_PACKET_BYTES);
    }
    if (found->is_secured && found->carrier == OVER_ICEORYX) {
        return fail(error, TM_INVALID, "iceoryx has no security: shared memory is not encrypted; use udp or tcp");
    }
    return TM_OK;
}

/* The same options as RouDi's header understands them: what it serves is chunks. */
typedef struct chunk_options {
    tm_node_options options;
    tm_key_value queue;
    char depth[16];
} chunk_options;

static inline void read_chunk_options(const tm_node_options *options, const config *found, chunk_options *chunks)
{
    const int length = snprintf(chunks->depth, sizeof chunks->depth, "%" PRIu32, found->depth);
    chunks->queue = (tm_key_value){TM_STR("queue_capacity"), {chunks->depth, (size_t)length}};
    chunks->options = *options;
    chunks->options.variant = (tm_str)TM_STR("shm");
    chunks->options.settings = &chunks->queue;
    chunks->options.setting_count = 1;
    chunks->options.max_payload_bytes += CHUNK_EXTRA_BYTES;
}

/* The largest message over UDP and TCP. */
static inline uint64_t largest_payload(const config *found)
{
    const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t largest = memory / 16 < INT32_MAX ? memory / 16 : INT32_MAX;
    /* Nothing is sent again: all fragments must find room. */
    const uint64_t room = most_buffer_bytes() / BUFFER_PER_PAYLOAD;
    return found->carrier == OVER_UDP && !found->is_reliable && room < largest ? room : largest;
}

static inline int32_t too_large(const config *found, uint64_t payload_bytes, uint64_t largest, tm_error *error)
{
    if (found->carrier == OVER_UDP && !found->is_reliable) {
        return fail(error, TM_LIMIT,
                    "payload of %" PRIu64 " bytes exceeds %" PRIu64 " bytes, a quarter of the receive buffer that "
                    "net.core.rmem_max allows; raise it (`sysctl -w net.core.rmem_max=%" PRIu64 "`), or use "
                    "reliability=reliable",
                    payload_bytes, largest, BUFFER_PER_PAYLOAD * payload_bytes);
    }
    return fail(error, TM_LIMIT,
                "payload of %" PRIu64 " bytes exceeds %" PRIu64 " bytes, what this host has memory for", payload_bytes,
                largest);
}

#endif /* TRIPMETER_CYCLONEDDS_CONFIG_H */
