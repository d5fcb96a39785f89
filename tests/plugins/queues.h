/* Messages over two System V message queues, one per direction, in packets that carry the length of the message. */
#ifndef QUEUES_H
#define QUEUES_H

#include "common.h"

#include <sys/ipc.h>
#include <sys/msg.h>

#define QUEUE_PACKET 4096 /* below the default limit of a message, 8192 bytes */

/* Layout of msgsnd(2), with the length of the whole message as the type. */
typedef struct packet {
    long length;
    uint8_t bytes[QUEUE_PACKET];
} packet;

typedef struct queues {
    const tm_node *node;
    int ids[2]; /* from the leader and from the follower; -1 before there is one */
    packet packet;
    uint8_t *out;
    uint8_t *in;
    size_t filled; /* bytes of `in` that have come */
} queues;

static int *queues_to(queues *link) { return &link->ids[link->node->leads ? 0 : 1]; }
static int *queues_from(queues *link) { return &link->ids[link->node->leads ? 1 : 0]; }

static void queues_close(queues *link) {
    for (int i = 0; i < 2; i++)
        if (link->node->leads && link->ids[i] >= 0) msgctl(link->ids[i], IPC_RMID, NULL);
    free(link->out);
    free(link->in);
}

/* Makes a queue, and lists it for the host, which removes it if nobody else does. */
static int32_t queues_make(queues *link, int *id, tm_error *error) {
    char list[600];
    struct msqid_ds status;
    *id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    if (*id < 0) return tm_fail_errno(error, "msgget");
    if (msgctl(*id, IPC_STAT, &status) < 0) return tm_fail_errno(error, "msgctl");
    snprintf(list, sizeof list, "%s/sysv-queues", link->node->scratch_dir);
    FILE *file = fopen(list, "a");
    if (!file) return tm_fail_errno(error, "fopen");
    fprintf(file, "%d %lld\n", *id, (long long)status.msg_ctime);
    return fclose(file) ? tm_fail_errno(error, "fclose") : TM_OK;
}

/* On an error, the caller closes what was opened. */
static int32_t queues_open(queues *link, const tm_node *node, tm_error *error) {
    link->node = node;
    link->ids[0] = link->ids[1] = -1;
    link->out = malloc(node->max_payload_bytes);
    link->in = malloc(node->max_payload_bytes);
    if (!link->out || !link->in) return tm_fail(error, TM_FAILED, "no memory for messages");
    if (!node->leads) return TM_OK;
    int32_t status = queues_make(link, &link->ids[0], error);
    return status == TM_OK ? queues_make(link, &link->ids[1], error) : status;
}

static int32_t queues_address(queues *link, uint8_t *buffer, size_t capacity, size_t *length, tm_error *error) {
    return tm_give_address(link->ids, sizeof link->ids, buffer, capacity, length, error);
}

static int32_t queues_connect(queues *link, const tm_bytes *peers, size_t peer_count, tm_error *error) {
    if (link->node->leads) return TM_OK;
    if (peer_count != 1 || peers->length != sizeof link->ids) return tm_fail(error, TM_INVALID, "no address of queues");
    memcpy(link->ids, peers->data, peers->length);
    return TM_OK;
}

static int32_t queues_loan(queues *link, size_t length, tm_loan *loan, tm_error *error) {
    size_t most = link->node->max_payload_bytes;
    if (length > most) return tm_fail(error, TM_LIMIT, "message of %zu bytes, %zu at most", length, most);
    *loan = (tm_loan){link->out, length, NULL};
    return TM_OK;
}

/* Status of a failed call; TM_OK means to retry, after a short sleep if the node blocks. */
static int32_t queues_retry(queues *link, const char *what, uint64_t *start, uint64_t timeout_ns, tm_error *error) {
    if (errno == EIDRM || errno == EINVAL) return tm_fail(error, TM_CLOSED, "the peer has removed the queue");
    if (errno != EAGAIN && errno != ENOMSG && errno != EINTR) return tm_fail_errno(error, what);
    if (!*start) *start = tm_now_ns();
    if (tm_now_ns() - *start >= timeout_ns) return TM_AGAIN;
    struct timespec pause = {0, 20000};
    if (link->node->blocks) nanosleep(&pause, NULL);
    return TM_OK;
}

static int32_t queues_publish(queues *link, const tm_loan *loan, uint64_t timeout_ns, tm_error *error) {
    uint64_t start = 0;
    size_t sent = 0;
    link->packet.length = (long)loan->length;
    while (sent < loan->length) {
        size_t bytes = loan->length - sent < QUEUE_PACKET ? loan->length - sent : QUEUE_PACKET;
        memcpy(link->packet.bytes, link->out + sent, bytes);
        if (msgsnd(*queues_to(link), &link->packet, bytes, IPC_NOWAIT) == 0) {
            sent += bytes;
            continue;
        }
        int32_t status = queues_retry(link, "msgsnd", &start, timeout_ns, error);
        if (status == TM_AGAIN && sent)
            return tm_fail(error, TM_FAILED, "%zu of %zu bytes were sent in time", sent, loan->length);
        if (status != TM_OK) return status;
    }
    return TM_OK;
}

static int32_t queues_take(queues *link, uint64_t timeout_ns, tm_message *message, tm_error *error) {
    uint64_t start = 0;
    for (;;) {
        ssize_t got = msgrcv(*queues_from(link), &link->packet, QUEUE_PACKET, 0, IPC_NOWAIT);
        if (got < 0) {
            int32_t status = queues_retry(link, "msgrcv", &start, link->node->blocks ? timeout_ns : 0, error);
            if (status != TM_OK) return status;
            continue;
        }
        size_t length = (size_t)link->packet.length;
        if (length > link->node->max_payload_bytes || link->filled + (size_t)got > length)
            return tm_fail(error, TM_FAILED, "the peer sends nonsense");
        memcpy(link->in + link->filled, link->packet.bytes, (size_t)got);
        link->filled += (size_t)got;
        if (link->filled < length) continue;
        link->filled = 0;
        *message = (tm_message){link->in, length, NULL};
        return TM_OK;
    }
}

#endif /* QUEUES_H */
