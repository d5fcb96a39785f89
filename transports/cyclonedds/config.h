/*
 * config.h: variants, settings and limits of transport `cyclonedds`.
 */
#ifndef TRIPMETER_CYCLONEDDS_CONFIG_H
#define TRIPMETER_CYCLONEDDS_CONFIG_H

#include "tripmeter_plugin.h"

#include "../common/iceoryx/roudi.h"

/* Bytes of a chunk beside the payload: our length, Cyclone DDS's header, alignment. */
#define CHUNK_EXTRA_BYTES 256u

/* UDP: a datagram takes up to twice its bytes of a receive buffer; half of the buffer is kept for other traffic. */
#define BUFFER_PER_PAYLOAD 4u
#define LEAST_BUFFER_BYTES (UINT64_C(1) << 20)

#define MOST_DEPTH 256u /* iceoryx's own limit */
#define LEAST_PACKET_BYTES 1456u
#define MOST_PACKET_BYTES 65000u
#define PRESET_PACKET_BYTES 14720u /* the library's own defaults */
#define PRESET_FRAGMENT_BYTES 1344u
#define PRESET_WATERMARK_BYTES (UINT64_C(500) << 10)
#define CALLBACK_WATERMARK_BYTES (UINT64_C(256) << 20) /* acknowledgements are requested every 10 ms */

#define MOST_FOLLOWERS 64u

#define RMEM_MAX "/proc/sys/net/core/rmem_max"

#define PATTERNS (TM_PING | TM_PUBLISH | TM_CALL | TM_THROUGHPUT)
#define WAITS (TM_POLL | TM_BLOCK | TM_CALLBACK)
#define FLAGS (TM_LOSSY | TM_OWN_THREADS | TM_FAN_OUT | TM_PUBLISHERS)

static const tm_variant variants[] = {
    TM_VARIANT("udp", "topics over UDP", TM_PATH_UDP, PATTERNS, WAITS, FLAGS | TM_SECURE | TM_REMOTE),
    TM_VARIANT("tcp", "topics over TCP", TM_PATH_TCP, PATTERNS, WAITS, FLAGS | TM_SECURE | TM_REMOTE),
    TM_VARIANT("iceoryx", "topics over iceoryx shared memory; discovery over UDP", TM_PATH_SHARED_MEMORY, PATTERNS,
               WAITS, FLAGS | TM_ZERO_COPY),
};

static const tm_setting settings[] = {
    TM_SETTING("reliability", "reliable", "reliable | best_effort",
               "QoS of writer and reader; over iceoryx both may lose the oldest message of a full queue",
               TM_NAMES_NOTHING),
    TM_SETTING("depth", "16", "messages, 1 to 256",
               "most that a reader holds: reliable writers then wait, others and iceoryx drop the oldest",
               TM_NAMES_NOTHING),
    TM_SETTING("packet", "default", "default | bytes, 1456 to 65000",
               "MaxMessageSize, with fragments that fill it; default: 14720, fragments of 1344", TM_NAMES_NOTHING),
    TM_SETTING("nodelay", "on", "on | off",
               "on: TCP_NODELAY, set by us: Cyclone DDS 0.10 means to, and does not; off: as the library leaves it",
               TM_NAMES_NOTHING),
    TM_SETTING("security", "off", "off | on",
               "on: authenticated, everything encrypted, with credentials made for the run; udp and tcp",
               TM_NAMES_NOTHING),
};

/* Carrier of the bytes, in the order of the variants. */
typedef enum carrier { OVER_UDP, OVER_TCP, OVER_ICEORYX } carrier;

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

/* Largest receive buffer of a socket in bytes (net.core.rmem_max). */
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

/* Parses the settings; the caller checks that they suit the variant. */
static inline int32_t read_settings(const tm_node_options *options, config *found, tm_error *error)
{
    const tm_str *const packet = tm_setting_of(options, "packet");
    uint64_t packet_bytes = 0;
    int32_t status = tm_read_choice(options, "reliability", "reliable", "best_effort", &found->is_reliable, error);
    if (status == TM_OK) {
        status = tm_read_choice(options, "security", "on", "off", &found->is_secured, error);
    }
    if (status == TM_OK) {
        status = tm_read_choice(options, "nodelay", "on", "off", &found->is_undelayed, error);
    }
    if (status == TM_OK) {
        status = tm_read_number(options, "depth", 1, MOST_DEPTH, &found->depth, error);
    }
    if (status == TM_OK && packet != NULL && !tm_is(*packet, "default")
        && !tm_parse_number(*packet, LEAST_PACKET_BYTES, MOST_PACKET_BYTES, &packet_bytes)) {
        return tm_fail(error, TM_INVALID, "setting packet is neither 'default' nor a number from %u to %u",
                       LEAST_PACKET_BYTES, MOST_PACKET_BYTES);
    }
    found->packet_bytes = (uint32_t)packet_bytes;
    return status;
}

static inline int32_t read_config(const tm_node_options *options, config *found, tm_error *error)
{
    const tm_variant *const variant = tm_find_variant(variants, TM_COUNT(variants), options->variant);
    if (variant == NULL) {
        return tm_fail(error, TM_INVALID, "variant '%.*s' is not known; there are udp, tcp and iceoryx",
                       (int)options->variant.length, options->variant.data);
    }
    *found = (config){
        .carrier = (enum carrier)(variant - variants),
        .is_reliable = true,
        .is_undelayed = true,
        .depth = 16,
        .followers = options->follower_count != 0 ? options->follower_count : 1,
        .publishers = options->publisher_count != 0 ? options->publisher_count : 1,
        .buffer_bytes = buffer_bytes(options->max_payload_bytes),
    };
    const int32_t status = read_settings(options, found, error);
    if (status != TM_OK) {
        return status;
    }
    if (!found->is_undelayed && found->carrier != OVER_TCP) {
        return tm_fail(error, TM_INVALID, "setting nodelay applies to tcp only; leave it out");
    }
    if (found->followers > MOST_FOLLOWERS) {
        return tm_fail(error, TM_LIMIT, "%" PRIu32 " followers are more than %u", found->followers, MOST_FOLLOWERS);
    }
    if (found->publishers > MOST_DEPTH) {
        return tm_fail(error, TM_LIMIT, "%" PRIu32 " publishers are more than %u", found->publishers, MOST_DEPTH);
    }
    if (found->is_secured && found->carrier == OVER_ICEORYX) {
        return tm_fail(error, TM_INVALID, "iceoryx has no security: shared memory is not encrypted; use udp or tcp");
    }
    /* The leader's reader holds an answer of each follower, the follower's a message of each publisher. */
    found->depth = found->depth > found->followers ? found->depth : found->followers;
    found->depth = found->depth > found->publishers ? found->depth : found->publishers;
    return TM_OK;
}

/* Chunks requested from iceoryx. */
static inline roudi_need chunks_of(const tm_node_options *options, const config *found)
{
    return (roudi_need){options, options->max_payload_bytes + CHUNK_EXTRA_BYTES, found->depth};
}

/* Largest message over UDP and TCP. */
static inline uint64_t largest_payload(const config *found)
{
    const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t largest = memory / 16 < INT32_MAX ? memory / 16 : INT32_MAX;
    /* Without retransmission, all fragments must fit into the receive buffer. */
    const uint64_t room = most_buffer_bytes() / BUFFER_PER_PAYLOAD;
    return found->carrier == OVER_UDP && !found->is_reliable && room < largest ? room : largest;
}

static inline int32_t too_large(const config *found, uint64_t payload_bytes, uint64_t largest, tm_error *error)
{
    if (found->carrier == OVER_UDP && !found->is_reliable) {
        return tm_fail(error, TM_LIMIT,
                       "payload of %" PRIu64 " bytes exceeds %" PRIu64 " bytes, a quarter of the receive buffer that "
                       "net.core.rmem_max allows; raise it (`sysctl -w net.core.rmem_max=%" PRIu64 "`), or use "
                       "reliability=reliable",
                       payload_bytes, largest, BUFFER_PER_PAYLOAD * payload_bytes);
    }
    return tm_fail(error, TM_LIMIT,
                   "payload of %" PRIu64 " bytes exceeds %" PRIu64 " bytes, what this host has memory for",
                   payload_bytes, largest);
}

#endif /* TRIPMETER_CYCLONEDDS_CONFIG_H */
