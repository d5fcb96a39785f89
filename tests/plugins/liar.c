/*
 * A transport that works, but makes false claims about most of its variants, named `<claim>-over-<truth>`. The host's
 * proof of the path must detect each of them, and accept the honest ones. Variants with `secured` in their name claim
 * to refuse unauthorized peers. The honest ones stop listening once the true follower has connected, or, if the
 * unauthorized peer leads, do not connect to it. One accepts unauthorized peers; and the unauthorized peers of the
 * doubtful one crash.
 */
#include "mailbox.h"
#include "queues.h"
#include "stream.h"

enum way { UNIX, TCP, MEMORY, MEMORY_COPIED, QUEUES };

#define VARIANT(text, claim, claim_flags)                                                                             \
    {.name = TM_STR(text),                                                                                            \
     .summary = TM_STR("for tests of the proof of the path"),                                                         \
     .path = claim,                                                                                                   \
     .patterns = TM_PING,                                                                                         \
     .waits = TM_POLL | TM_BLOCK,                                                                                     \
     .flags = claim_flags}

static const tm_variant variants[] = {
    VARIANT("honest-unix", TM_PATH_UNIX_STREAM, 0),
    VARIANT("honest-tcp", TM_PATH_TCP, 0),
    VARIANT("honest-shm", TM_PATH_SHARED_MEMORY, 0),
    VARIANT("honest-loan", TM_PATH_SHARED_MEMORY, TM_ZERO_COPY),
    VARIANT("loan-copied", TM_PATH_SHARED_MEMORY, TM_ZERO_COPY),
    VARIANT("loan-over-unix", TM_PATH_SHARED_MEMORY, TM_ZERO_COPY),
    VARIANT("shm-over-unix", TM_PATH_SHARED_MEMORY, 0),
    VARIANT("shm-over-tcp", TM_PATH_SHARED_MEMORY, 0),
    VARIANT("unix-over-shm", TM_PATH_UNIX_STREAM, 0),
    VARIANT("unix-over-tcp", TM_PATH_UNIX_STREAM, 0),
    VARIANT("datagram-over-unix", TM_PATH_UNIX_DATAGRAM, 0),
    VARIANT("mq-over-shm", TM_PATH_MESSAGE_QUEUE, 0),
    VARIANT("pipe-over-unix", TM_PATH_PIPE, 0),
    VARIANT("tcp-over-shm", TM_PATH_TCP, 0),
    VARIANT("tcp-over-unix", TM_PATH_TCP, 0),
    VARIANT("udp-over-shm", TM_PATH_UDP, 0),
    VARIANT("udp-over-tcp", TM_PATH_UDP, 0),
    VARIANT("udp-over-unix", TM_PATH_UDP, 0),
    VARIANT("honest-mq", TM_PATH_MESSAGE_QUEUE, 0),
    VARIANT("mq-over-unix", TM_PATH_MESSAGE_QUEUE, 0),
    VARIANT("unix-over-mq", TM_PATH_UNIX_STREAM, 0),
    VARIANT("shm-over-mq", TM_PATH_SHARED_MEMORY, 0),
    VARIANT("honest-secured", TM_PATH_TCP, TM_SECURE),
    VARIANT("honest-secured-leads", TM_PATH_TCP, TM_SECURE),
    VARIANT("secured-lets-in", TM_PATH_TCP, TM_SECURE),
    VARIANT("doubtful-secured", TM_PATH_TCP, TM_SECURE),
};

/* True path of each variant, in the same order. */
static const enum way ways[] = {
    UNIX, TCP,    MEMORY, MEMORY, MEMORY_COPIED, UNIX,   UNIX, TCP,    MEMORY,
    TCP,  UNIX,   MEMORY, UNIX,   MEMORY,        UNIX,   MEMORY, TCP,  UNIX,
    QUEUES, UNIX, QUEUES, QUEUES, TCP, TCP, TCP, TCP,
};

#define VARIANTS (TM_COUNT(variants))
_Static_assert(sizeof ways / sizeof *ways == VARIANTS, "one way per variant");

struct tm_link {
    int over_memory;
    int over_queues;
    stream socket;
    mailbox memory;
    queues queues;
};

static void link_close(tm_link *link) {
    if (link->over_memory)
        mailbox_close(&link->memory);
    else if (link->over_queues)
        queues_close(&link->queues);
    else
        stream_close(&link->socket);
    free(link);
}

static int32_t link_open(tm_node *node, const tm_link_options *options, tm_link **out, tm_error *error) {
    size_t variant = 0;
    while (variant < VARIANTS && strcmp(variants[variant].name.data, node->variant) != 0) variant++;
    if (variant == VARIANTS) return tm_fail(error, TM_INVALID, "liar has no variant '%s'", node->variant);
    enum way way = ways[variant];
    tm_link *link = calloc(1, sizeof *link);
    if (!link) return tm_fail(error, TM_FAILED, "no memory for a link");
    link->over_memory = way == MEMORY || way == MEMORY_COPIED;
    link->over_queues = way == QUEUES;
    int32_t status;
    if (link->over_memory)
        status = mailbox_open(&link->memory, node, options->index, way == MEMORY_COPIED, error);
    else if (link->over_queues)
        status = queues_open(&link->queues, node, error);
    else
        status = stream_open(&link->socket, node, way == TCP ? AF_INET : AF_UNIX, options->index, error);
    if (status == TM_OK)
        *out = link;
    else
        link_close(link);
    return status;
}

static int32_t link_address(tm_link *link, uint8_t *buffer, size_t capacity, size_t *length, tm_error *error) {
    if (link->over_queues) return queues_address(&link->queues, buffer, capacity, length, error);
    *length = 0; /* both ends make the name of the shared memory from run_id */
    return link->over_memory ? TM_OK : stream_address(&link->socket, buffer, capacity, length, error);
}

/* Stops listening, so that nobody else can connect. */
static void shut_door(stream *link) {
    if (link->listener >= 0) close(link->listener);
    link->listener = -1;
}

static int32_t link_connect(tm_link *link, const tm_bytes *peers, size_t peer_count, uint64_t timeout_ns,
                            tm_error *error) {
    if (link->over_memory) return mailbox_connect(&link->memory, error);
    if (link->over_queues) return queues_connect(&link->queues, peers, peer_count, error);
    int32_t status = stream_connect(&link->socket, peers, peer_count, timeout_ns, error);
    if (status == TM_OK && strstr(link->socket.node->variant, "honest-secured")) shut_door(&link->socket);
    return status;
}

static int32_t loan(tm_link *link, size_t length, const tm_message *in_reply_to, tm_loan *loan, tm_error *error) {
    (void)in_reply_to;
    if (link->over_memory) return mailbox_loan(&link->memory, length, loan, error);
    if (link->over_queues) return queues_loan(&link->queues, length, loan, error);
    return stream_loan(&link->socket, length, loan, error);
}

static int32_t publish(tm_link *link, tm_loan *loan, uint64_t timeout_ns, tm_error *error) {
    if (link->over_memory) return mailbox_publish(&link->memory, loan);
    if (link->over_queues) return queues_publish(&link->queues, loan, timeout_ns, error);
    return stream_publish(&link->socket, loan, timeout_ns, error);
}

static void discard(tm_link *link, tm_loan *loan) {
    (void)loan;
    if (link->over_memory) mailbox_discard(&link->memory);
}

static int32_t take(tm_link *link, uint64_t timeout_ns, tm_message *message, tm_error *error) {
    if (link->over_memory) return mailbox_take(&link->memory, timeout_ns, message);
    if (link->over_queues) return queues_take(&link->queues, timeout_ns, message, error);
    return stream_take(&link->socket, timeout_ns, message, error);
}

static void release(tm_link *link, tm_message *message) {
    if (link->over_memory)
        mailbox_release(&link->memory);
    else if (!link->over_queues)
        stream_release(message);
}

static int32_t probe(const tm_node_options *options, tm_limits *limits, tm_error *error) {
    char variant[64];
    int32_t status = copy_str(variant, sizeof variant, options->variant, error);
    if (status != TM_OK) return status;
    if (strstr(variant, "secured")) limits->unauthorized_peers = TM_UNAUTHORIZED_PLAIN | TM_UNAUTHORIZED_FOREIGN;
    if (strstr(variant, "-leads")) limits->unauthorized_peers = TM_UNAUTHORIZED_FOREIGN | TM_UNAUTHORIZED_LEADS;
    return common_probe(options, limits, error);
}

static int32_t node_open(const tm_node_options *options, tm_node **node, tm_error *error) {
    int32_t status = common_node_open(options, node, error);
    if (status == TM_OK && options->unauthorized_peer && strstr((*node)->variant, "doubtful")) abort();
    return status;
}

static void node_close(tm_node *node) { free(node); }

static const tm_description description = {
    .struct_size = sizeof(tm_description),
    .system = TM_STR("liar"),
    .summary = TM_STR("claims one path and takes another"),
    .version = TM_STR("1.0.0"),
    .system_version = TM_STR("none"),
    .variants = variants,
    .variant_count = VARIANTS,
};

static const tm_transport table = TM_TRANSPORT(&description, link_address, NULL);

const tm_transport *tripmeter_transport(void) { return &table; }
