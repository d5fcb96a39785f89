/* Shared code of the test plugins: the node. */
#ifndef COMMON_H
#define COMMON_H

#include "tripmeter_plugin.h"

#define LARGEST_PAYLOAD_BYTES ((uint64_t)1 << 30)

struct tm_node {
    int leads;
    int blocks;
    size_t max_payload_bytes;
    char run_id[64];
    char scratch_dir[512];
    char variant[64];
};

static int32_t copy_str(char *to, size_t room, tm_str from, tm_error *error) {
    if (tm_copy(from, to, room)) return TM_OK;
    return tm_fail(error, TM_LIMIT, "a name of %zu bytes, %zu at most", from.length, room - 1);
}

static int32_t common_probe(const tm_node_options *options, tm_limits *limits, tm_error *error) {
    if (options->wait == TM_CALLBACK) return tm_fail(error, TM_INVALID, "wait callback is not supported");
    limits->max_payload_bytes = LARGEST_PAYLOAD_BYTES;
    limits->packet_bytes = 0;
    return TM_OK;
}

static int32_t common_node_open(const tm_node_options *options, tm_node **node, tm_error *error) {
    tm_node *opened = calloc(1, sizeof *opened);
    if (!opened) return tm_fail(error, TM_FAILED, "no memory for a node");
    opened->leads = options->role == TM_LEADER;
    opened->blocks = options->wait == TM_BLOCK;
    opened->max_payload_bytes = options->max_payload_bytes;
    int32_t status = copy_str(opened->run_id, sizeof opened->run_id, options->run_id, error);
    if (status == TM_OK) status = copy_str(opened->variant, sizeof opened->variant, options->variant, error);
    if (status == TM_OK)
        status = copy_str(opened->scratch_dir, sizeof opened->scratch_dir, options->scratch_dir, error);
    if (status == TM_OK)
        *node = opened;
    else
        free(opened);
    return status;
}

#endif /* COMMON_H */
