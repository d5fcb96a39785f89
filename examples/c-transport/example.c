/*
 * A transport for Tripmeter in one C11 file: a mailbox of one message in each direction, in shared memory.
 *
 * The sender copies its message in, the receiver reads it in place; two semaphores per direction say whose turn it is.
 */
#include "tripmeter_plugin.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGEST_PAYLOAD_BYTES ((uint64_t)1 << 30)

/* One direction; the message follows at the next multiple of its alignment. */
typedef struct mailbox {
    _Alignas(64) sem_t empty; /* the sender may write */
    _Alignas(64) sem_t full;  /* the receiver may read */
    size_t length;
} mailbox;

struct tm_node {
    int leads;
    int blocks;
    size_t max_payload_bytes;
    size_t box_bytes; /* a mailbox with its message */
    char run_id[64];
};

struct tm_link {
    const tm_node *node;
    char name[80];    /* of the shared memory */
    mailbox *outbox;  /* NULL before the memory is mapped */
    mailbox *inbox;
    uint8_t *draft; /* the message being written */
};

static int32_t probe(const tm_node_options *options, tm_limits *limits, tm_error *error) {
    if (options->wait == TM_CALLBACK) return tm_fail(error, TM_INVALID, "example cannot wait by callback");
    limits->max_payload_bytes = LARGEST_PAYLOAD_BYTES;
    limits->packet_bytes = 0;
    return TM_OK;
}

static int32_t node_open(const tm_node_options *options, tm_node **node, tm_error *error) {
    if (options->max_payload_bytes > LARGEST_PAYLOAD_BYTES)
        return tm_fail(error, TM_LIMIT, "payload of %llu bytes, %llu at most", (unsigned long long)options->max_payload_bytes,
                       (unsigned long long)LARGEST_PAYLOAD_BYTES);
    if (!(*node = calloc(1, sizeof **node))) return tm_fail(error, TM_FAILED, "no memory for a node");
    (*node)->leads = options->role == TM_LEADER;
    (*node)->blocks = options->wait == TM_BLOCK;
    (*node)->max_payload_bytes = options->max_payload_bytes;
    (*node)->box_bytes = (sizeof(mailbox) + options->max_payload_bytes + 4095) / 4096 * 4096;
    tm_copy(options->run_id, (*node)->run_id, sizeof(*node)->run_id);
    return TM_OK;
}

static void node_close(tm_node *node) { free(node); }

/* Maps both mailboxes. The leader creates them: its outbox is the follower's inbox. */
static int32_t map(tm_link *link, int flags, tm_error *error) {
    const tm_node *node = link->node;
    int file = shm_open(link->name, O_RDWR | flags, 0600);
    if (file < 0) return tm_fail(error, TM_FAILED, "shm_open of '%s' failed: %s", link->name, strerror(errno));
    /* Memory that is not there must be an error here, not a SIGBUS in the measured loop. */
    int failure = node->leads ? posix_fallocate(file, 0, (off_t)(2 * node->box_bytes)) : 0;
    uint8_t *start = MAP_FAILED;
    if (!failure) {
        start = mmap(NULL, 2 * node->box_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        failure = errno;
    }
    close(file);
    if (start == MAP_FAILED) {
        if (node->leads) shm_unlink(link->name);
        return tm_fail(error, TM_FAILED, "mapping %zu bytes of '%s' failed: %s", 2 * node->box_bytes, link->name,
                       strerror(failure));
    }
    link->outbox = (mailbox *)(start + (node->leads ? 0 : node->box_bytes));
    link->inbox = (mailbox *)(start + (node->leads ? node->box_bytes : 0));
    mailbox *boxes[] = {link->outbox, link->inbox};
    for (int i = 0; node->leads && i < 2; i++) {
        sem_init(&boxes[i]->empty, 1, 1);
        sem_init(&boxes[i]->full, 1, 0);
    }
    return TM_OK;
}

static void link_close(tm_link *link) {
    if (link->outbox) munmap(link->node->leads ? link->outbox : link->inbox, 2 * link->node->box_bytes);
    if (link->outbox && link->node->leads) shm_unlink(link->name);
    free(link->draft);
    free(link);
}

static int32_t link_open(tm_node *node, const tm_link_options *options, tm_link **out, tm_error *error) {
    tm_link *link = calloc(1, sizeof *link);
    if (!link) return tm_fail(error, TM_FAILED, "no memory for a link");
    link->node = node;
    snprintf(link->name, sizeof link->name, "/%s-%u", node->run_id, (unsigned)options->index);
    link->draft = malloc(node->max_payload_bytes);
    int32_t status = link->draft ? TM_OK : tm_fail(error, TM_FAILED, "no memory for a message");
    if (status == TM_OK && node->leads) status = map(link, O_CREAT | O_EXCL, error);
    if (status != TM_OK) {
        link_close(link);
        return status;
    }
    *out = link;
    return TM_OK;
}

static int32_t link_address(tm_link *link, uint8_t *buffer, size_t capacity, size_t *length, tm_error *error) {
    return tm_give_address(link->name, strlen(link->name), buffer, capacity, length, error);
}

/* The leader need not wait: a message for a follower that is still to come lies in the mailbox. */
static int32_t link_connect(tm_link *link, const tm_bytes *peers, size_t peer_count, uint64_t timeout_ns,
                            tm_error *error) {
    (void)timeout_ns;
    if (peer_count != 1) return tm_fail(error, TM_INVALID, "%zu peers, example can have one", peer_count);
    if (link->node->leads) return TM_OK;
    if (!tm_copy(tm_peer_text(peers), link->name, sizeof link->name))
        return tm_fail(error, TM_INVALID, "the leader's address is too long");
    return map(link, 0, error);
}

/* Waits for a turn: TM_OK, or TM_AGAIN after the time-out or a signal. */
static int32_t await(sem_t *turn, int sleeps, uint64_t timeout_ns) {
    if (sem_trywait(turn) == 0) return TM_OK;
    if (!sleeps) return TM_AGAIN;
    uint64_t end_ns = tm_now_ns() + tm_wait_ns(timeout_ns);
    struct timespec until = {(time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u)};
    return sem_clockwait(turn, CLOCK_MONOTONIC, &until) == 0 ? TM_OK : TM_AGAIN;
}

static int32_t loan(tm_link *link, size_t length, const tm_message *in_reply_to, tm_loan *loan, tm_error *error) {
    (void)in_reply_to; /* a client has a link of its own, so a reply needs no address */
    if (length > link->node->max_payload_bytes)
        return tm_fail(error, TM_LIMIT, "message of %zu bytes, %zu at most", length, link->node->max_payload_bytes);
    *loan = (tm_loan){link->draft, length, NULL};
    return TM_OK;
}

static int32_t publish(tm_link *link, tm_loan *loan, uint64_t timeout_ns, tm_error *error) {
    (void)error;
    int32_t status = await(&link->outbox->empty, 1, timeout_ns);
    if (status != TM_OK) return status;
    memcpy(link->outbox + 1, loan->data, loan->length);
    link->outbox->length = loan->length;
    sem_post(&link->outbox->full);
    return TM_OK;
}

static void discard(tm_link *link, tm_loan *loan) {
    (void)link; /* the draft is the link's and is used again */
    (void)loan;
}

static int32_t take(tm_link *link, uint64_t timeout_ns, tm_message *message, tm_error *error) {
    int32_t status = await(&link->inbox->full, link->node->blocks, timeout_ns);
    if (status != TM_OK) return status;
    if (link->inbox->length > link->node->max_payload_bytes)
        return tm_fail(error, TM_FAILED, "the peer sent %zu bytes, %zu at most", link->inbox->length,
                       link->node->max_payload_bytes);
    *message = (tm_message){(const uint8_t *)(link->inbox + 1), link->inbox->length, NULL};
    return TM_OK;
}

static void release(tm_link *link, tm_message *message) {
    (void)message;
    sem_post(&link->inbox->empty);
}

static const tm_variant variants[] = {
    TM_VARIANT("mailbox", "copied into shared memory, read there", TM_PATH_SHARED_MEMORY,
               TM_PING | TM_PUBLISH | TM_CALL | TM_THROUGHPUT, TM_POLL | TM_BLOCK, 0),
};

static const tm_description description = {
    .struct_size = sizeof(tm_description),
    .system = TM_STR("example"),
    .summary = TM_STR("how to write a transport in C"),
    .version = TM_STR("1.0.0"),
    .system_version = TM_STR("POSIX shared memory and semaphores"),
    .variants = variants,
    .variant_count = TM_COUNT(variants),
};

static const tm_transport table = TM_TRANSPORT(&description, link_address, NULL);

const tm_transport *tripmeter_transport(void) { return &table; }
