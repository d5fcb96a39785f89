/*
 * Tripmeter transport `iceoryx-c`: the C binding of iceoryx, zero-copy. Same topics and behaviour as transport
 * `iceoryx`: per link one topic from leader to follower ("up") and, where the follower answers, one back ("down").
 * RouDi connects publishers and subscribers before it answers the calls that create them.
 */
#include "tripmeter_plugin.h"

#include "../common/iceoryx/common.h"

#include <iceoryx_binding_c/chunk.h>
#include <iceoryx_binding_c/listener.h>
#include <iceoryx_binding_c/log.h>
#include <iceoryx_binding_c/publisher.h>
#include <iceoryx_binding_c/runtime.h>
#include <iceoryx_binding_c/subscriber.h>
#include <iceoryx_binding_c/wait_set.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define ALIGNMENT 8u
#define NS_PER_S UINT64_C(1000000000)

struct tm_node {
    char run_id[64];
    uint64_t queue_capacity;
    uint64_t max_payload_bytes;
    bool is_leader;
    bool is_answered;
    bool looks_first; /* checks the queue before it waits */
    bool has_publishers; /* more than one, on one topic */
    uint32_t wait;
    iox_listener_storage_t listener_storage;
    iox_listener_t listener; /* NULL unless the system's own thread delivers */
};

struct tm_link {
    tm_node *node;
    uint32_t index;
    tm_on_message on_message;
    void *context;
    iox_pub_storage_t publisher_storage;
    iox_sub_storage_t subscriber_storage;
    iox_ws_storage_t wait_set_storage;
    iox_pub_t publisher;  /* NULL if nothing is sent */
    iox_sub_t subscriber; /* NULL if nothing is received */
    iox_ws_t wait_set;    /* NULL unless take blocks */
    bool is_attached;
};

/* The C binding has no call for the size of a received chunk. The header's layout is fixed by its version number, the
 * byte at offset 4; version 1 has the payload size at offset 28. link_open proves both on a chunk of known size. */
static size_t chunk_payload_bytes(const void *payload)
{
    uint32_t bytes = 0;
    memcpy(&bytes, (const uint8_t *)iox_chunk_header_from_user_payload_const(payload) + 28, sizeof bytes);
    return bytes;
}

static bool chunk_layout_is_known(const void *payload, size_t length)
{
    return ((const uint8_t *)iox_chunk_header_from_user_payload_const(payload))[4] == 1
           && chunk_payload_bytes(payload) == length;
}

static int32_t loan_failed(const tm_link *link, size_t length, enum iox_AllocationResult reason, tm_error *error)
{
    switch (reason) {
    case AllocationResult_NO_MEMPOOLS_AVAILABLE:
        return roudi_too_large(length, roudi_largest_payload(), error);
    case AllocationResult_RUNNING_OUT_OF_CHUNKS:
        return tm_fail(error, TM_LIMIT,
                       "RouDi has no chunk of %zu bytes left: its pool is smaller than what queue_capacity=%" PRIu64
                       " can fill; lower queue_capacity or give RouDi a larger pool",
                       length, link->node->queue_capacity);
    default:
        return tm_fail(error, TM_FAILED, "loan of %zu bytes refused: iox_AllocationResult %d", length, (int)reason);
    }
}

static int32_t receive(tm_link *link, tm_message *message)
{
    const void *payload = NULL;
    const enum iox_ChunkReceiveResult result = iox_sub_take_chunk(link->subscriber, &payload);
    if (result != ChunkReceiveResult_SUCCESS) {
        return result == ChunkReceiveResult_NO_CHUNK_AVAILABLE ? TM_AGAIN : TM_LIMIT;
    }
    message->data = payload;
    message->length = chunk_payload_bytes(payload);
    message->token = NULL;
    return TM_OK;
}

/* Runs in the listener's thread. One event may announce several messages. */
static void deliver(iox_sub_t subscriber, void *context)
{
    tm_link *link = context;
    tm_message message;
    while (receive(link, &message) == TM_OK) {
        link->on_message(link->context, &message);
        iox_sub_release_chunk(subscriber, message.data);
    }
}

static int32_t probe(const tm_node_options *options, tm_limits *limits, tm_error *error)
{
    return iceoryx_probe(options, limits, error);
}

static int32_t node_open(const tm_node_options *options, tm_node **node, tm_error *error)
{
    roudi_need need;
    int32_t status = iceoryx_check(options, &need, error);
    if (status != TM_OK) {
        return status;
    }
    tm_node *opened = calloc(1, sizeof *opened);
    if (opened == NULL) {
        return tm_fail(error, TM_FAILED, "out of memory");
    }
    snprintf(opened->run_id, sizeof opened->run_id, "%.*s", (int)options->run_id.length, options->run_id.data);
    opened->looks_first = iceoryx_looks_first(options);
    opened->has_publishers = options->publisher_count > 1;
    opened->queue_capacity = iceoryx_queue_length(need.queue_capacity, options);
    opened->max_payload_bytes = options->max_payload_bytes;
    opened->is_leader = options->role == TM_LEADER;
    opened->is_answered = options->pattern == TM_PING || options->pattern == TM_CALL;
    opened->wait = options->wait;
    iox_set_loglevel(Iceoryx_LogLevel_Warn);
    status = roudi_join(options, iox_runtime_init, error);
    if (status != TM_OK) {
        free(opened);
        return status;
    }
    if (opened->wait == TM_CALLBACK && (opened->is_answered || !opened->is_leader)) {
        opened->listener = iox_listener_init(&opened->listener_storage);
    }
    *node = opened;
    return TM_OK;
}

static void node_close(tm_node *node)
{
    if (node->listener != NULL) {
        iox_listener_deinit(node->listener);
    }
    free(node);
}

static void link_close(tm_link *link)
{
    if (link->is_attached && link->wait_set != NULL) {
        iox_ws_detach_subscriber_state(link->wait_set, link->subscriber, SubscriberState_HAS_DATA);
    } else if (link->is_attached) {
        iox_listener_detach_subscriber_event(link->node->listener, link->subscriber, SubscriberEvent_DATA_RECEIVED);
    }
    if (link->subscriber != NULL) {
        iox_sub_deinit(link->subscriber);
    }
    if (link->wait_set != NULL) {
        iox_ws_deinit(link->wait_set);
    }
    if (link->publisher != NULL) {
        iox_pub_deinit(link->publisher);
    }
    free(link);
}

static void create_ports(tm_link *link)
{
    const tm_node *node = link->node;
    char instance[32];
    snprintf(instance, sizeof instance, "link-%" PRIu32, link->node->has_publishers ? 0 : link->index);
    if (node->is_leader || node->is_answered) {
        iox_pub_options_t options;
        iox_pub_options_init(&options);
        link->publisher = iox_pub_init(&link->publisher_storage, node->run_id, instance,
                                       node->is_leader ? "up" : "down", &options);
    }
    if (!node->is_leader || node->is_answered) {
        iox_sub_options_t options;
        iox_sub_options_init(&options);
        options.queueCapacity = node->queue_capacity;
        link->subscriber = iox_sub_init(&link->subscriber_storage, node->run_id, instance,
                                        node->is_leader ? "down" : "up", &options);
    }
}

/* Attaches the subscriber to the wait set or the listener; true on success. */
static bool attach(tm_link *link)
{
    if (link->subscriber == NULL || link->node->wait == TM_POLL) {
        return true;
    }
    if (link->node->wait == TM_BLOCK) {
        link->wait_set = iox_ws_init(&link->wait_set_storage);
        link->is_attached = iox_ws_attach_subscriber_state(link->wait_set, link->subscriber, SubscriberState_HAS_DATA,
                                                           link->index, NULL)
                            == WaitSetResult_SUCCESS;
    } else {
        link->is_attached = iox_listener_attach_subscriber_event_with_context_data(
                                link->node->listener, link->subscriber, SubscriberEvent_DATA_RECEIVED, deliver, link)
                            == ListenerResult_SUCCESS;
    }
    return link->is_attached;
}

/* Loans `length` bytes in a child process, which iceoryx aborts if no pool is large enough: the C binding cannot
 * set an error handler. True if the child lived. */
static bool loan_survives(tm_link *link, uint32_t length)
{
    const pid_t child = fork();
    if (child == 0) {
        void *payload = NULL;
        const int null = open("/dev/null", O_WRONLY);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        dup2(null, STDERR_FILENO);
        if (iox_pub_loan_aligned_chunk(link->publisher, &payload, length, ALIGNMENT) == AllocationResult_SUCCESS) {
            iox_pub_release_chunk(link->publisher, payload);
        }
        _exit(0);
    }
    const uint64_t deadline = tm_now_ns() + NS_PER_S;
    int status = 0;
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
        if (tm_now_ns() >= deadline) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return false;
        }
        tm_sleep_1_ms();
    }
    return child > 0 && WIFEXITED(status);
}

/* Tries a loan of the largest payload before the measurement starts. */
static int32_t try_loan(tm_link *link, tm_error *error)
{
    const uint32_t length = (uint32_t)link->node->max_payload_bytes;
    void *payload = NULL;
    if (roudi_largest_payload() == 0 && !loan_survives(link, length)) {
        return roudi_too_large(length, 0, error);
    }
    const enum iox_AllocationResult result = iox_pub_loan_aligned_chunk(link->publisher, &payload, length, ALIGNMENT);
    if (result != AllocationResult_SUCCESS) {
        return loan_failed(link, length, result, error);
    }
    const bool is_known = chunk_layout_is_known(payload, length);
    iox_pub_release_chunk(link->publisher, payload);
    if (!is_known) {
        return tm_fail(error, TM_UNAVAILABLE,
                       "the chunk header of this iceoryx is not version 1; use transport "
                       "'iceoryx' (C++ API) instead");
    }
    return TM_OK;
}

static int32_t link_open(tm_node *node, const tm_link_options *options, tm_link **link, tm_error *error)
{
    int32_t status = roudi_check(error);
    if (status != TM_OK) {
        return status;
    }
    tm_link *opened = calloc(1, sizeof *opened);
    if (opened == NULL) {
        return tm_fail(error, TM_FAILED, "out of memory");
    }
    opened->node = node;
    opened->index = options->index;
    opened->on_message = options->on_message;
    opened->context = options->context;
    create_ports(opened);
    if (opened->publisher != NULL) {
        status = try_loan(opened, error);
    }
    if (status == TM_OK && !attach(opened)) {
        status = tm_fail(error, TM_FAILED, "link %" PRIu32 ": the subscriber cannot be waited for", opened->index);
    }
    if (status != TM_OK) {
        link_close(opened);
        return status;
    }
    *link = opened;
    return TM_OK;
}

static int32_t link_connect(tm_link *link, const tm_bytes *peers, size_t peer_count, uint64_t timeout_ns,
                            tm_error *error)
{
    (void)peers, (void)peer_count;
    const uint64_t deadline = tm_now_ns() + tm_wait_ns(timeout_ns);
    while (link->publisher != NULL && !iox_pub_has_subscribers(link->publisher)) {
        if (tm_now_ns() >= deadline) {
            return tm_fail(error, TM_FAILED,
                           "link %" PRIu32 ": no subscriber after %" PRIu64
                           " ms; see that both sides use the same RouDi",
                           link->index, timeout_ns / 1000000);
        }
        tm_sleep_1_ms();
    }
    return TM_OK;
}

static int32_t loan(tm_link *link, size_t length, const tm_message *in_reply_to, tm_loan *loan, tm_error *error)
{
    (void)in_reply_to;
    void *payload = NULL;
    if (length > link->node->max_payload_bytes) {
        return roudi_too_large(length, link->node->max_payload_bytes, error);
    }
    const enum iox_AllocationResult result =
        iox_pub_loan_aligned_chunk(link->publisher, &payload, (uint32_t)length, ALIGNMENT);
    if (result != AllocationResult_SUCCESS) {
        return loan_failed(link, length, result, error);
    }
    loan->data = payload;
    loan->length = length;
    loan->token = NULL;
    return TM_OK;
}

static int32_t publish(tm_link *link, tm_loan *loan, uint64_t timeout_ns, tm_error *error)
{
    (void)timeout_ns, (void)error;
    iox_pub_publish_chunk(link->publisher, loan->data);
    loan->data = NULL;
    return TM_OK;
}

static void discard(tm_link *link, tm_loan *loan)
{
    iox_pub_release_chunk(link->publisher, loan->data);
    loan->data = NULL;
}

static int32_t take(tm_link *link, uint64_t timeout_ns, tm_message *message, tm_error *error)
{
    if (link->wait_set != NULL) {
        if (link->node->looks_first && receive(link, message) == TM_OK) {
            return TM_OK;
        }
        const uint64_t wait = tm_wait_ns(timeout_ns);
        const struct timespec timeout = {(time_t)(wait / NS_PER_S), (long)(wait % NS_PER_S)};
        iox_notification_info_t notification = NULL;
        uint64_t missed = 0;
        iox_ws_timed_wait(link->wait_set, timeout, &notification, 1, &missed);
    }
    const int32_t status = receive(link, message);
    if (status < 0) {
        return tm_fail(error, status, "link %" PRIu32 ": too many messages are held unreleased", link->index);
    }
    return status;
}

static void release(tm_link *link, tm_message *message)
{
    iox_sub_release_chunk(link->subscriber, message->data);
    message->data = NULL;
}

static char system_version[32];

static tm_description description = {
    .struct_size = sizeof description,
    .system = TM_STR("iceoryx-c"),
    .summary = TM_STR("Eclipse iceoryx through its C binding: zero-copy shared memory"),
    .version = TM_STR("0.1.0"),
    .system_version = {system_version, 0},
    .variants = iceoryx_variants,
    .variant_count = TM_COUNT(iceoryx_variants),
    .settings = iceoryx_settings,
    .setting_count = TM_COUNT(iceoryx_settings),
    .daemon = TM_STR("iox-roudi"),
};

__attribute__((constructor)) static void find_version(void)
{
    iceoryx_version((const void *)(uintptr_t)&iox_runtime_init, system_version, sizeof system_version);
    description.system_version.length = strlen(system_version);
}

TM_EXPORT const tm_transport *tripmeter_transport(void)
{
    static const tm_transport transport = TM_TRANSPORT(&description, tm_no_address, iceoryx_daemon_command);
    return &transport;
}
