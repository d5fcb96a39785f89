/*
 * Tripmeter transport `cyclonedds`: Eclipse Cyclone DDS through its C API. Per link one topic from leader to follower
 * ("up") and, where the follower answers, one back ("down").
 *
 * Over UDP and TCP a message is a sequence of octets: written from one of our buffers, taken into another.
 * Over iceoryx it is a struct of fixed size, the largest payload of the run, behind its length: loaned with
 * dds_loan_sample, and received with dds_takecdr, which leaves it where it is; dds_take would copy all of it.
 */
#include "session.h"

#include <dds/dds.h>
#include <dds/ddsc/dds_loan_api.h>
#include <dds/ddsi/ddsi_serdata.h>
#include <dds/version.h>
#include <iceoryx_binding_c/log.h>
#include <iceoryx_binding_c/runtime.h>

#define NS_PER_MS INT64_C(1000000)
/* Time that one call of dds_write waits for room; it is repeated until the host's time-out. */
#define WRITE_WAIT DDS_MSECS(20)

/* A message over iceoryx. */
typedef struct chunk {
    uint64_t length;
    uint8_t data[];
} chunk;

struct tm_node {
    config config;
    session session;
    dds_entity_t domain;
    dds_entity_t participant;
    char run_id[64];
    uint64_t max_payload_bytes;
    bool leads;
    bool is_answered;
    uint32_t wait;
};

struct tm_link {
    const tm_node *node;
    uint32_t index;
    tm_on_message on_message;
    void *context;
    dds_entity_t writer; /* 0 if nothing is sent */
    dds_entity_t reader; /* 0 if nothing is received */
    dds_entity_t wait_set;
    dds_sequence_t draft; /* UDP and TCP: message being written */
    dds_sequence_t taken; /* UDP and TCP: message taken last; the library makes room for the largest */
};

static int32_t fail_dds(tm_error *error, const char *what, dds_return_t code)
{
    return tm_fail(error, TM_FAILED, "%s failed: %s", what, dds_strretcode(code));
}

/* Type descriptor as idlc makes it for `struct Message { sequence<octet> data; }`, or for a length and that many
 * octets. */
static dds_topic_descriptor_t describe_type(const tm_node *node, uint32_t *operations)
{
    uint32_t *next = operations;
    if (node->config.carrier == OVER_ICEORYX) {
        const uint32_t octets = (uint32_t)((node->max_payload_bytes + 7) / 8 * 8);
        *next++ = DDS_OP_ADR | DDS_OP_TYPE_8BY;
        *next++ = offsetof(chunk, length);
        *next++ = DDS_OP_ADR | DDS_OP_TYPE_ARR | DDS_OP_SUBTYPE_1BY;
        *next++ = offsetof(chunk, data);
        *next++ = octets;
        *next = DDS_OP_RTS;
        return (dds_topic_descriptor_t){.m_size = (uint32_t)sizeof(chunk) + octets,
                                        .m_align = 8,
                                        .m_flagset = DDS_TOPIC_FIXED_SIZE,
                                        .m_typename = "tripmeter::Chunk",
                                        .m_nops = 3,
                                        .m_ops = operations,
                                        .m_meta = ""};
    }
    *next++ = DDS_OP_ADR | DDS_OP_TYPE_SEQ | DDS_OP_SUBTYPE_1BY;
    *next++ = 0;
    *next = DDS_OP_RTS;
    return (dds_topic_descriptor_t){.m_size = sizeof(dds_sequence_t),
                                    .m_align = _Alignof(dds_sequence_t),
                                    .m_typename = "tripmeter::Message",
                                    .m_nops = 2,
                                    .m_ops = operations,
                                    .m_meta = ""};
}

static int32_t probe(const tm_node_options *options, tm_limits *limits, tm_error *error)
{
    config found;
    int32_t status = read_config(options, &found, error);
    if (status != TM_OK) {
        return status;
    }
    if (found.carrier == OVER_ICEORYX) {
        const roudi_need chunks = chunks_of(options, &found);
        status = roudi_probe(&chunks, limits, error);
        limits->max_payload_bytes -= limits->max_payload_bytes < CHUNK_EXTRA_BYTES ? 0 : CHUNK_EXTRA_BYTES;
        return status;
    }
    limits->max_payload_bytes = largest_payload(&found);
    if (options->max_payload_bytes > limits->max_payload_bytes) {
        return too_large(&found, options->max_payload_bytes, limits->max_payload_bytes, error);
    }
    limits->packet_bytes = found.packet_bytes != 0 ? found.packet_bytes : PRESET_PACKET_BYTES;
    limits->unauthorized_peers = found.is_secured ? TM_UNAUTHORIZED_PLAIN | TM_UNAUTHORIZED_FOREIGN : 0;
    return TM_OK;
}

static int32_t daemon_command(const tm_node_options *options, tm_daemon_command *command, tm_error *error)
{
    config found;
    const int32_t status = read_config(options, &found, error);
    if (status != TM_OK) {
        return status;
    }
    const roudi_need chunks = chunks_of(options, &found);
    return roudi_daemon_command(&chunks, command, error);
}

/* Joins iceoryx under our own name before Cyclone DDS does, and checks that RouDi runs. */
static int32_t join_iceoryx(const tm_node_options *options, const config *found, tm_error *error)
{
    const roudi_need chunks = chunks_of(options, found);
    const int32_t status = roudi_check_need(&chunks, error);
    if (status != TM_OK) {
        return status;
    }
    iox_set_loglevel(Iceoryx_LogLevel_Warn);
    return roudi_join(options, iox_runtime_init, error);
}

/* Refuses a payload that is too large. */
static int32_t check_payload(const tm_node_options *options, const config *found, tm_error *error)
{
    if (found->carrier == OVER_ICEORYX) {
        return join_iceoryx(options, found, error);
    }
    const uint64_t largest = largest_payload(found);
    return options->max_payload_bytes <= largest ? TM_OK : too_large(found, options->max_payload_bytes, largest, error);
}

/* Over TCP, Cyclone DDS 0.10 may abort if a peer closes its connection while a thread here still writes to it: the
 * receiving thread then frees the connection while its mutex is locked. So no process closes before all have stopped
 * sending. */
static void node_close(tm_node *node)
{
    if (node->participant > 0) {
        dds_delete(node->participant);
    }
    leave_together(&node->session);
    /* To shut down, the library connects to itself over the loopback. */
    filter_all(NULL, strchr(node->session.address, ':') == NULL ? AF_INET : AF_INET6);
    if (node->domain > 0) {
        dds_delete(node->domain);
    }
    free(node);
}

static int32_t join(tm_node *node, const tm_node_options *options, tm_error *error)
{
    char xml[XML_BYTES];
    const int32_t status = open_session(options, &node->config, &node->session, error);
    if (status != TM_OK) {
        return status;
    }
    write_xml(xml, options, &node->session, &node->config);
    node->domain = dds_create_domain(node->session.domain, xml);
    if (node->domain < 0) {
        return fail_dds(error, "dds_create_domain", node->domain);
    }
    node->participant = dds_create_participant(node->session.domain, NULL, NULL);
    if (node->participant < 0) {
        return fail_dds(error, "dds_create_participant", node->participant);
    }
    /* The library binds its receiving sockets to all addresses. */
    return filter_sockets(node->session.address, error);
}

static int32_t node_open(const tm_node_options *options, tm_node **node, tm_error *error)
{
    config found;
    int32_t status = read_config(options, &found, error);
    if (status == TM_OK) {
        status = check_payload(options, &found, error);
    }
    if (status != TM_OK) {
        return status;
    }
    tm_node *opened = (tm_node *)calloc(1, sizeof *opened);
    if (opened == NULL) {
        return tm_fail(error, TM_FAILED, "out of memory");
    }
    opened->config = found;
    snprintf(opened->run_id, sizeof opened->run_id, "%.*s", (int)options->run_id.length, options->run_id.data);
    opened->max_payload_bytes = options->max_payload_bytes;
    opened->leads = options->role == TM_LEADER;
    opened->is_answered = options->pattern == TM_PING || options->pattern == TM_CALL;
    opened->wait = options->wait;
    status = join(opened, options, error);
    if (status != TM_OK) {
        node_close(opened);
        return status;
    }
    *node = opened;
    return TM_OK;
}

static int32_t receive(tm_link *link, tm_message *message, tm_error *error)
{
    dds_sample_info_t info;
    if (link->node->config.carrier == OVER_ICEORYX) {
        struct ddsi_serdata *taken = NULL;
        const dds_return_t count = dds_takecdr(link->reader, &taken, 1, &info, DDS_ANY_STATE);
        if (count <= 0) {
            return count == 0 ? TM_AGAIN : fail_dds(error, "dds_takecdr", count);
        }
        if (info.valid_data && taken->iox_chunk != NULL) {
            const chunk *received = (const chunk *)taken->iox_chunk;
            *message = (tm_message){received->data, received->length, taken};
            return TM_OK;
        }
        ddsi_serdata_unref(taken);
        return info.valid_data ? tm_fail(error, TM_FAILED, "a message came over the network instead of shared memory")
                               : TM_AGAIN;
    }
    void *taken = &link->taken;
    const dds_return_t count = dds_take(link->reader, &taken, &info, 1, 1);
    if (count <= 0) {
        return count == 0 ? TM_AGAIN : fail_dds(error, "dds_take", count);
    }
    if (!info.valid_data) {
        return TM_AGAIN; /* notice that a writer has gone */
    }
    *message = (tm_message){link->taken._buffer, link->taken._length, NULL};
    return TM_OK;
}

static void release(tm_link *link, tm_message *message)
{
    if (link->node->config.carrier == OVER_ICEORYX) {
        ddsi_serdata_unref((struct ddsi_serdata *)message->token);
    }
    message->data = NULL;
}

/* Runs in the library's thread. One call may announce several messages. */
static void deliver(dds_entity_t reader, void *context)
{
    (void)reader;
    tm_link *link = (tm_link *)context;
    tm_message message;
    tm_error error;
    while (receive(link, &message, &error) == TM_OK) {
        link->on_message(link->context, &message);
        release(link, &message);
    }
}

static void link_close(tm_link *link)
{
    const dds_entity_t entities[] = {link->wait_set, link->reader, link->writer};
    for (size_t i = 0; i < sizeof entities / sizeof *entities; ++i) {
        if (entities[i] > 0) {
            dds_delete(entities[i]);
        }
    }
    free(link->draft._buffer);
    dds_free(link->taken._buffer);
    free(link);
}

/* Reliable writers over the network wait for readers; others, and iceoryx, keep the latest messages. */
static dds_qos_t *make_qos(const config *config)
{
    dds_qos_t *qos = dds_create_qos();
    const int32_t depth = (int32_t)config->depth;
    dds_qset_reliability(qos, config->is_reliable ? DDS_RELIABILITY_RELIABLE : DDS_RELIABILITY_BEST_EFFORT, WRITE_WAIT);
    dds_qset_durability(qos, DDS_DURABILITY_VOLATILE);
    if (config->is_reliable && config->carrier != OVER_ICEORYX) {
        dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
        dds_qset_resource_limits(qos, depth, DDS_LENGTH_UNLIMITED, DDS_LENGTH_UNLIMITED);
    } else {
        dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, depth);
    }
    return qos;
}

/* Creates the topic of one direction; returns it, or an error code. */
static dds_entity_t make_topic(const tm_link *link, bool up)
{
    char name[128];
    uint32_t operations[8];
    const dds_topic_descriptor_t type = describe_type(link->node, operations);
    /* Several publishers share one topic. */
    const uint32_t index = link->node->config.publishers > 1 ? 0 : link->index;
    snprintf(name, sizeof name, "%s_%" PRIu32 "_%s", link->node->run_id, index, up ? "up" : "down");
    for (char *letter = name; *letter != '\0'; ++letter) {
        *letter = *letter == '-' ? '_' : *letter; /* not allowed in the name of a topic */
    }
    return dds_create_topic(link->node->participant, &type, name, NULL, NULL);
}

static dds_return_t make_writer(tm_link *link, const dds_qos_t *qos)
{
    const dds_entity_t topic = make_topic(link, link->node->leads);
    link->writer = topic < 0 ? topic : dds_create_writer(link->node->participant, topic, qos, NULL);
    return link->writer;
}

static dds_return_t make_reader(tm_link *link, const dds_qos_t *qos)
{
    const dds_entity_t topic = make_topic(link, !link->node->leads);
    if (topic < 0) {
        return topic;
    }
    dds_listener_t *listener = link->node->wait == TM_CALLBACK ? dds_create_listener(link) : NULL;
    if (listener != NULL) {
        dds_lset_data_available(listener, deliver);
    }
    link->reader = dds_create_reader(link->node->participant, topic, qos, listener);
    dds_delete_listener(listener);
    if (link->reader < 0 || link->node->wait != TM_BLOCK) {
        return link->reader;
    }
    link->wait_set = dds_create_waitset(link->node->participant);
    const dds_entity_t condition = dds_create_readcondition(link->reader, DDS_ANY_STATE);
    return condition < 0 ? condition : dds_waitset_attach(link->wait_set, condition, 0);
}

static int32_t make_endpoints(tm_link *link, tm_error *error)
{
    const tm_node *node = link->node;
    dds_qos_t *qos = make_qos(&node->config);
    dds_return_t result = DDS_RETCODE_OK;
    if (node->leads || node->is_answered) {
        result = make_writer(link, qos);
    }
    if (result >= 0 && (!node->leads || node->is_answered)) {
        result = make_reader(link, qos);
    }
    dds_delete_qos(qos);
    if (result < 0) {
        return fail_dds(error, "a topic with writer and reader", result);
    }
    const dds_entity_t shared = link->writer > 0 ? link->writer : link->reader;
    if (node->config.carrier == OVER_ICEORYX && !dds_is_loan_available(shared)) {
        return tm_fail(error, TM_UNAVAILABLE, "this Cyclone DDS does not use iceoryx; install one that does");
    }
    return TM_OK;
}

static int32_t link_open(tm_node *node, const tm_link_options *options, tm_link **link, tm_error *error)
{
    tm_link *opened = (tm_link *)calloc(1, sizeof *opened);
    if (opened == NULL) {
        return tm_fail(error, TM_FAILED, "out of memory");
    }
    opened->node = node;
    opened->index = options->index;
    opened->on_message = options->on_message;
    opened->context = options->context;
    int32_t status = TM_OK;
    if (node->config.carrier != OVER_ICEORYX) {
        opened->draft._buffer = (uint8_t *)calloc(1, node->max_payload_bytes);
        opened->draft._maximum = (uint32_t)node->max_payload_bytes;
        if (opened->draft._buffer == NULL) {
            status = tm_fail(error, TM_FAILED, "no memory for a message of %" PRIu64 " bytes", node->max_payload_bytes);
        }
    } else if (node->leads || node->is_answered) {
        status = roudi_check(error);
    }
    if (status == TM_OK) {
        status = make_endpoints(opened, error);
    }
    if (status != TM_OK) {
        link_close(opened);
        return status;
    }
    *link = opened;
    return TM_OK;
}

static bool is_matched(const tm_link *link)
{
    dds_publication_matched_status_t readers = {0};
    dds_subscription_matched_status_t writers = {0};
    const uint32_t peers = link->node->leads ? link->node->config.followers : link->node->config.publishers;
    const bool has_readers =
        link->writer == 0
        || (dds_get_publication_matched_status(link->writer, &readers) == DDS_RETCODE_OK
            && readers.current_count >= peers);
    const bool has_writers =
        link->reader == 0
        || (dds_get_subscription_matched_status(link->reader, &writers) == DDS_RETCODE_OK
            && writers.current_count >= peers);
    return has_readers && has_writers;
}

static int32_t link_connect(tm_link *link, const tm_bytes *peers, size_t peer_count, uint64_t timeout_ns,
                            tm_error *error)
{
    (void)peers, (void)peer_count;
    const dds_time_t deadline = dds_time() + (dds_time_t)tm_wait_ns(timeout_ns);
    while (!is_matched(link)) {
        if (dds_time() >= deadline) {
            return tm_fail(error, TM_FAILED, "link %" PRIu32 ": no peer was discovered within %" PRIu64 " ms",
                           link->index, timeout_ns / (uint64_t)NS_PER_MS);
        }
        dds_sleepfor(DDS_MSECS(1));
    }
    const config *config = &link->node->config;
    return config->carrier == OVER_TCP && config->is_undelayed ? set_nodelay(&link->node->session, error) : TM_OK;
}

static int32_t loan(tm_link *link, size_t length, const tm_message *in_reply_to, tm_loan *loan, tm_error *error)
{
    (void)in_reply_to;
    if (length > link->node->max_payload_bytes) {
        return tm_fail(error, TM_LIMIT, "message of %zu bytes, %" PRIu64 " at most", length,
                       link->node->max_payload_bytes);
    }
    if (link->node->config.carrier != OVER_ICEORYX) {
        *loan = (tm_loan){link->draft._buffer, length, NULL};
        return TM_OK;
    }
    void *sample = NULL;
    const dds_return_t result = dds_loan_sample(link->writer, &sample);
    if (result != DDS_RETCODE_OK) {
        return tm_fail(error, TM_LIMIT,
                       "RouDi has no chunk of %zu bytes left; lower depth, or give RouDi a larger pool: %s", length,
                       dds_strretcode(result));
    }
    ((chunk *)sample)->length = length;
    *loan = (tm_loan){((chunk *)sample)->data, length, sample};
    return TM_OK;
}

static void discard(tm_link *link, tm_loan *loan)
{
    if (loan->token != NULL) {
        dds_return_loan(link->writer, &loan->token, 1);
    }
    loan->data = NULL;
}

static int32_t publish(tm_link *link, tm_loan *loan, uint64_t timeout_ns, tm_error *error)
{
    const void *sample = loan->token;
    if (sample == NULL) {
        link->draft._length = (uint32_t)loan->length;
        sample = &link->draft;
    }
    dds_return_t result = dds_write(link->writer, sample);
    if (result == DDS_RETCODE_TIMEOUT) {
        const dds_time_t deadline = dds_time() + (dds_time_t)tm_wait_ns(timeout_ns);
        while (result == DDS_RETCODE_TIMEOUT && dds_time() < deadline) {
            result = dds_write(link->writer, sample);
        }
    }
    loan->data = NULL;
    if (result == DDS_RETCODE_OK) {
        return TM_OK;
    }
    return result == DDS_RETCODE_TIMEOUT ? TM_AGAIN : fail_dds(error, "dds_write", result);
}

static int32_t take(tm_link *link, uint64_t timeout_ns, tm_message *message, tm_error *error)
{
    if (link->wait_set > 0) {
        dds_waitset_wait(link->wait_set, NULL, 0, (dds_duration_t)tm_wait_ns(timeout_ns));
    }
    return receive(link, message, error);
}

static char system_version[48];

static tm_description description = {
    .struct_size = sizeof description,
    .system = TM_STR("cyclonedds"),
    .summary = TM_STR("Eclipse Cyclone DDS through its C API: UDP, TCP, and iceoryx shared memory"),
    .version = TM_STR("0.1.0"),
    .system_version = {system_version, 0},
    .variants = variants,
    .variant_count = TM_COUNT(variants),
    .settings = settings,
    .setting_count = TM_COUNT(settings),
    .daemon = TM_STR("iox-roudi"),
};

/* DDS_VERSION, the version at build time, is the fallback. */
__attribute__((constructor)) static void find_version(void)
{
    tm_library_version((const void *)(uintptr_t)&dds_create_domain, "Cyclone DDS", DDS_VERSION, system_version,
                       sizeof system_version);
    description.system_version.length = strlen(system_version);
}

TM_EXPORT const tm_transport *tripmeter_transport(void)
{
    static const tm_transport transport = TM_TRANSPORT(&description, tm_no_address, daemon_command);
    return &transport;
}
