/*
 * Tripmeter transport `zeromq`: libzmq over ipc and TCP, with PAIR sockets, or with REQ at the leader and REP at the
 * follower. The follower binds, the leader connects. A loan is a zmq_msg_t of its length; a message is received by
 * reference into the library's own buffer.
 */
#include "tripmeter_plugin.h"

#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#define NS_PER_MS UINT64_C(1000000)
#define ENDPOINT_BYTES 256u
#define MOST_QUEUED 1000000u
#define MOST_IO_THREADS 16u

/* In ping and call, a message exists as a loan, on its way out, on its way in, and received; likewise each answer. */
#define MESSAGES_IN_FLIGHT 8u

static const tm_variant variants[] = {
    TM_VARIANT("ipc", "PAIR sockets over a Unix socket", TM_PATH_UNIX_STREAM,
               TM_PING | TM_PUBLISH | TM_CALL | TM_THROUGHPUT, TM_POLL | TM_BLOCK, TM_OWN_THREADS),
    TM_VARIANT("tcp", "PAIR sockets over TCP", TM_PATH_TCP, TM_PING | TM_PUBLISH | TM_CALL | TM_THROUGHPUT,
               TM_POLL | TM_BLOCK, TM_OWN_THREADS | TM_REMOTE),
    TM_VARIANT("ipc-reqrep", "REQ and REP sockets over a Unix socket", TM_PATH_UNIX_STREAM, TM_PING | TM_CALL,
               TM_POLL | TM_BLOCK, TM_OWN_THREADS),
    TM_VARIANT("tcp-reqrep", "REQ and REP sockets over TCP", TM_PATH_TCP, TM_PING | TM_CALL,
               TM_POLL | TM_BLOCK, TM_OWN_THREADS | TM_REMOTE),
};

static const tm_setting settings[] = {
    TM_SETTING("hwm", "1000", "messages, 1 to 1000000",
               "ZMQ_SNDHWM and ZMQ_RCVHWM: so many messages are queued at each side; sending waits for room",
               TM_NAMES_NOTHING),
    TM_SETTING("io_threads", "1", "threads, 1 to 16", "ZMQ_IO_THREADS: threads of each process that move bytes",
               TM_NAMES_NOTHING),
};

typedef struct config {
    bool over_tcp;
    bool requests; /* REQ and REP instead of PAIR */
    uint32_t hwm;
    uint32_t io_threads;
} config;

struct tm_node {
    void *context;
    char folder[ENDPOINT_BYTES];
    char address[64];
    uint64_t max_payload_bytes;
    config config;
    bool leads;
    bool blocks;
};

struct tm_link {
    const tm_node *node;
    void *socket;
    void *monitor;      /* NULL once connected */
    int send_wait_ms;   /* as last set */
    int receive_wait_ms;
    zmq_msg_t loaned;
    zmq_msg_t received; /* valid from take to release */
};

/* Fails with libzmq's text for its last error. */
static int32_t fail_zmq(tm_error *error, const char *what)
{
    return tm_fail(error, TM_FAILED, "%s failed: %s", what, zmq_strerror(zmq_errno()));
}

static int32_t read_config(const tm_node_options *options, config *found, tm_error *error)
{
    const tm_variant *const variant = tm_find_variant(variants, TM_COUNT(variants), options->variant);
    *found = (config){.hwm = 1000, .io_threads = 1};
    if (variant == NULL) {
        return tm_fail(error, TM_INVALID, "variant '%.*s' is not known; there are ipc, tcp, ipc-reqrep and tcp-reqrep",
                       (int)options->variant.length, options->variant.data);
    }
    found->over_tcp = variant->path == TM_PATH_TCP;
    found->requests = (variant->patterns & TM_PUBLISH) == 0;
    const int32_t status = tm_read_number(options, "hwm", 1, MOST_QUEUED, &found->hwm, error);
    return status == TM_OK ? tm_read_number(options, "io_threads", 1, MOST_IO_THREADS, &found->io_threads, error)
                           : status;
}

/* Largest message such that all messages in flight fit into half of this machine's memory. */
static uint64_t largest_payload(const tm_node_options *options, const config *config)
{
    const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const bool streams = options->pattern == TM_PUBLISH || options->pattern == TM_THROUGHPUT;
    const uint64_t messages = streams ? 2 * (uint64_t)config->hwm + MESSAGES_IN_FLIGHT : MESSAGES_IN_FLIGHT;
    const uint64_t links = options->link_count != 0 ? options->link_count : 1;
    return memory / 2 / messages / links;
}

static int32_t probe(const tm_node_options *options, tm_limits *limits, tm_error *error)
{
    config found;
    const int32_t status = read_config(options, &found, error);
    if (status == TM_OK) {
        limits->max_payload_bytes = largest_payload(options, &found);
        limits->packet_bytes = 0;
    }
    return status;
}

static void node_close(tm_node *node)
{
    if (node->context != NULL) {
        zmq_ctx_term(node->context);
    }
    free(node);
}

/* libzmq starts its threads with the first socket. That happens here, before the host binds threads to CPUs. */
static int32_t start_threads(tm_node *node, tm_error *error)
{
    node->context = zmq_ctx_new();
    if (node->context == NULL || zmq_ctx_set(node->context, ZMQ_IO_THREADS, (int)node->config.io_threads) != 0) {
        return fail_zmq(error, "a context");
    }
    void *first = zmq_socket(node->context, ZMQ_PAIR);
    if (first == NULL) {
        return fail_zmq(error, "the first socket of the context");
    }
    zmq_close(first);
    return TM_OK;
}

static int32_t node_open(const tm_node_options *options, tm_node **node, tm_error *error)
{
    config found;
    int32_t status = read_config(options, &found, error);
    if (status != TM_OK) {
        return status;
    }
    const uint64_t largest = largest_payload(options, &found);
    if (options->max_payload_bytes > largest) {
        return tm_fail(error, TM_LIMIT,
                       "payload of %" PRIu64 " bytes exceeds %" PRIu64 " bytes, what memory has room for; use smaller "
                       "payloads or a lower hwm",
                       options->max_payload_bytes, largest);
    }
    tm_node *opened = calloc(1, sizeof *opened);
    if (opened == NULL || !tm_copy(options->scratch_dir, opened->folder, sizeof opened->folder)) {
        free(opened);
        return tm_fail(error, TM_FAILED,
                       opened == NULL ? "out of memory" : "the path of the scratch folder is too long");
    }
    if (!tm_address(options, opened->address, sizeof opened->address)) {
        free(opened);
        return tm_fail(error, TM_FAILED, "the address of the interface is too long");
    }
    opened->max_payload_bytes = options->max_payload_bytes;
    opened->config = found;
    opened->leads = options->role == TM_LEADER;
    opened->blocks = options->wait == TM_BLOCK;
    status = start_threads(opened, error);
    if (status != TM_OK) {
        node_close(opened);
        return status;
    }
    *node = opened;
    return TM_OK;
}

static bool set(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool configure(tm_link *link)
{
    const tm_node *node = link->node;
    /* Lets a REQ socket send again although the answer is late; the late answer is dropped. */
    const bool relaxed = !node->config.requests || !node->leads || set(link->socket, ZMQ_REQ_RELAXED, 1);
    const bool is_v6 = strchr(node->address, ':') != NULL;
    return relaxed && set(link->socket, ZMQ_IPV6, is_v6) && set(link->socket, ZMQ_LINGER, 0) && set(link->socket, ZMQ_SNDHWM, (int)node->config.hwm)
           && set(link->socket, ZMQ_RCVHWM, (int)node->config.hwm)
           && set(link->socket, ZMQ_SNDTIMEO, link->send_wait_ms)
           && set(link->socket, ZMQ_RCVTIMEO, link->receive_wait_ms);
}

/* Opens the monitor that reports when a peer has connected. */
static bool watch(tm_link *link, uint32_t index)
{
    char name[64];
    snprintf(name, sizeof name, "inproc://monitor-%" PRIu32, index);
    if (zmq_socket_monitor(link->socket, name, ZMQ_EVENT_HANDSHAKE_SUCCEEDED) != 0) {
        return false;
    }
    link->monitor = zmq_socket(link->node->context, ZMQ_PAIR);
    return link->monitor != NULL && set(link->monitor, ZMQ_LINGER, 0) && zmq_connect(link->monitor, name) == 0;
}

/* Binds the follower's socket. */
static int32_t bind_socket(tm_link *link, uint32_t index, tm_error *error)
{
    char endpoint[ENDPOINT_BYTES + 32];
    if (link->node->config.over_tcp) {
        const char *const address = link->node->address;
        const bool is_v6 = strchr(address, ':') != NULL;
        snprintf(endpoint, sizeof endpoint, "tcp://%s%s%s:*", is_v6 ? "[" : "", address, is_v6 ? "]" : "");
    } else {
        const int length = snprintf(endpoint, sizeof endpoint, "ipc://%s/zeromq-%" PRIu32, link->node->folder, index);
        const size_t path = (size_t)length - strlen("ipc://");
        const size_t most = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;
        if (path > most) {
            return tm_fail(error, TM_LIMIT,
                           "the path '%s' has %zu characters, over the limit of %zu; choose a shorter TMPDIR",
                           endpoint + strlen("ipc://"), path, most);
        }
    }
    if (zmq_bind(link->socket, endpoint) != 0) {
        return tm_fail(error, TM_FAILED, "bind to %s failed: %s", endpoint, zmq_strerror(zmq_errno()));
    }
    return TM_OK;
}

static void stop_watching(tm_link *link)
{
    if (link->monitor != NULL) {
        zmq_socket_monitor(link->socket, NULL, 0);
        zmq_close(link->monitor);
        link->monitor = NULL;
    }
}

static void link_close(tm_link *link)
{
    zmq_msg_close(&link->loaned);
    zmq_msg_close(&link->received);
    stop_watching(link);
    if (link->socket != NULL) {
        zmq_close(link->socket);
    }
    free(link);
}

static int32_t link_open(tm_node *node, const tm_link_options *options, tm_link **link, tm_error *error)
{
    tm_link *opened = calloc(1, sizeof *opened);
    if (opened == NULL) {
        return tm_fail(error, TM_FAILED, "out of memory");
    }
    opened->node = node;
    zmq_msg_init(&opened->loaned);
    zmq_msg_init(&opened->received);
    opened->socket = zmq_socket(node->context, !node->config.requests ? ZMQ_PAIR : node->leads ? ZMQ_REQ : ZMQ_REP);
    int32_t status = TM_OK;
    if (opened->socket == NULL || !configure(opened) || !watch(opened, options->index)) {
        status = fail_zmq(error, "a socket");
    } else if (!node->leads) {
        status = bind_socket(opened, options->index, error);
    }
    if (status != TM_OK) {
        link_close(opened);
        return status;
    }
    *link = opened;
    return TM_OK;
}

/* The follower's endpoint, e.g. tcp://127.0.0.1:40123. */
static int32_t link_address(tm_link *link, uint8_t *buffer, size_t capacity, size_t *length, tm_error *error)
{
    *length = 0;
    if (link->node->leads) {
        return TM_OK;
    }
    size_t size = capacity;
    if (zmq_getsockopt(link->socket, ZMQ_LAST_ENDPOINT, buffer, &size) != 0) {
        return fail_zmq(error, "asking for the endpoint");
    }
    *length = size;
    return TM_OK;
}

static uint64_t now_ms(void)
{
    return tm_now_ns() / NS_PER_MS;
}

/* Time-out in milliseconds for libzmq, at least 1: 0 would not wait, a negative one would wait forever. */
static int milliseconds(uint64_t timeout_ns)
{
    return (int)((tm_wait_ns(timeout_ns) + NS_PER_MS - 1) / NS_PER_MS);
}

/* True once the monitor reports that the handshake with the peer is done. */
static bool await_peer(tm_link *link, uint64_t deadline_ms)
{
    for (uint64_t now = now_ms(); now < deadline_ms; now = now_ms()) {
        zmq_pollitem_t item = {link->monitor, 0, ZMQ_POLLIN, 0};
        if (zmq_poll(&item, 1, (long)(deadline_ms - now)) == 1) {
            return true;
        }
    }
    return false;
}

static int32_t link_connect(tm_link *link, const tm_bytes *peers, size_t peer_count, uint64_t timeout_ns,
                            tm_error *error)
{
    const uint64_t deadline_ms = now_ms() + (uint64_t)milliseconds(timeout_ns);
    if (peer_count != 1) {
        return tm_fail(error, TM_INVALID, "%zu peers, these sockets can have one", peer_count);
    }
    if (link->node->leads) {
        char endpoint[ENDPOINT_BYTES + 32];
        if (peers->length == 0 || peers->length > sizeof endpoint || peers->data[peers->length - 1] != '\0') {
            return tm_fail(error, TM_INVALID, "the follower's address is not an endpoint");
        }
        memcpy(endpoint, peers->data, peers->length);
        if (zmq_connect(link->socket, endpoint) != 0) {
            return tm_fail(error, TM_FAILED, "connecting to %s failed: %s", endpoint, zmq_strerror(zmq_errno()));
        }
    }
    if (!await_peer(link, deadline_ms)) {
        return tm_fail(error, TM_FAILED, "no peer after %" PRIu64 " ms; see that both sides run",
                       timeout_ns / NS_PER_MS);
    }
    stop_watching(link);
    return TM_OK;
}

static int32_t loan(tm_link *link, size_t length, const tm_message *in_reply_to, tm_loan *loan, tm_error *error)
{
    (void)in_reply_to;
    if (length > link->node->max_payload_bytes) {
        return tm_fail(error, TM_LIMIT, "message of %zu bytes, %" PRIu64 " at most", length,
                       link->node->max_payload_bytes);
    }
    if (zmq_msg_init_size(&link->loaned, length) != 0) {
        return tm_fail(error, TM_FAILED, "no memory for a message of %zu bytes", length);
    }
    *loan = (tm_loan){zmq_msg_data(&link->loaned), length, NULL};
    return TM_OK;
}

static void discard(tm_link *link, tm_loan *loan)
{
    zmq_msg_close(&link->loaned);
    zmq_msg_init(&link->loaned);
    loan->data = NULL;
}

/* Status of a failed send or receive. EFSM: a REQ socket has sent no request, so no answer can come. */
static int32_t outcome(const char *what, tm_error *error)
{
    const int reason = zmq_errno();
    if (reason == EAGAIN || reason == EINTR || reason == EFSM) {
        return TM_AGAIN;
    }
    return tm_fail(error, reason == ETERM ? TM_CLOSED : TM_FAILED, "%s failed: %s", what, zmq_strerror(reason));
}

static int32_t publish(tm_link *link, tm_loan *loan, uint64_t timeout_ns, tm_error *error)
{
    const int wait_ms = milliseconds(timeout_ns);
    if (wait_ms != link->send_wait_ms) {
        link->send_wait_ms = wait_ms;
        set(link->socket, ZMQ_SNDTIMEO, wait_ms);
    }
    if (zmq_msg_send(&link->loaned, link->socket, 0) >= 0) {
        return TM_OK;
    }
    const int32_t status = outcome("sending", error);
    discard(link, loan);
    return status;
}

static int32_t take(tm_link *link, uint64_t timeout_ns, tm_message *message, tm_error *error)
{
    int flags = ZMQ_DONTWAIT;
    if (link->node->blocks) {
        const int wait_ms = milliseconds(timeout_ns);
        flags = 0;
        if (wait_ms != link->receive_wait_ms) {
            link->receive_wait_ms = wait_ms;
            set(link->socket, ZMQ_RCVTIMEO, wait_ms);
        }
    }
    if (zmq_msg_recv(&link->received, link->socket, flags) < 0) {
        return outcome("receiving", error);
    }
    *message = (tm_message){zmq_msg_data(&link->received), zmq_msg_size(&link->received), NULL};
    return TM_OK;
}

/* Frees the library's buffer now instead of at the next message. */
static void release(tm_link *link, tm_message *message)
{
    zmq_msg_close(&link->received);
    zmq_msg_init(&link->received);
    message->data = NULL;
}

static char system_version[32];

static tm_description description = {
    .struct_size = sizeof description,
    .system = TM_STR("zeromq"),
    .summary = TM_STR("ZeroMQ through libzmq: pair and request-reply sockets over ipc and TCP"),
    .version = TM_STR("0.1.0"),
    .system_version = {system_version, 0},
    .variants = variants,
    .variant_count = TM_COUNT(variants),
    .settings = settings,
    .setting_count = TM_COUNT(settings),
};

__attribute__((constructor)) static void find_version(void)
{
    int major = 0;
    int minor = 0;
    int patch = 0;
    zmq_version(&major, &minor, &patch);
    snprintf(system_version, sizeof system_version, "libzmq %d.%d.%d", major, minor, patch);
    description.system_version.length = strlen(system_version);
}

TM_EXPORT const tm_transport *tripmeter_transport(void)
{
    static const tm_transport transport = TM_TRANSPORT(&description, link_address, NULL);
    return &transport;
}
