/* One message per direction in shared memory, written and read in place; semaphores pass the turn. */
#ifndef MAILBOX_H
#define MAILBOX_H

#include "common.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

/* One direction; the message follows. */
typedef struct box {
    _Alignas(64) sem_t empty; /* the sender may write */
    _Alignas(64) sem_t full;  /* the receiver may read */
    size_t length;
} box;

typedef struct mailbox {
    const tm_node *node;
    char name[80];
    size_t bytes; /* of one direction */
    box *outbox;  /* NULL before the memory is mapped */
    box *inbox;
    uint8_t *copy; /* if messages are to be copied out of the shared memory, else NULL */
} mailbox;

static int32_t mailbox_map(mailbox *link, tm_error *error) {
    const tm_node *node = link->node;
    int file = shm_open(link->name, O_RDWR | (node->leads ? O_CREAT | O_EXCL : 0), 0600);
    if (file < 0) return tm_fail_errno(error, "shm_open");
    int failure = node->leads ? posix_fallocate(file, 0, (off_t)(2 * link->bytes)) : 0;
    uint8_t *start = MAP_FAILED;
    if (!failure) start = mmap(NULL, 2 * link->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (start == MAP_FAILED) {
        if (node->leads) shm_unlink(link->name);
        return tm_fail(error, TM_FAILED, "mapping %zu bytes failed", 2 * link->bytes);
    }
    box *boxes[] = {(box *)start, (box *)(start + link->bytes)};
    for (int i = 0; node->leads && i < 2; i++) {
        sem_init(&boxes[i]->empty, 1, 1);
        sem_init(&boxes[i]->full, 1, 0);
    }
    link->outbox = boxes[node->leads ? 0 : 1];
    link->inbox = boxes[node->leads ? 1 : 0];
    return TM_OK;
}

/* On an error, the caller closes what was opened. */
static int32_t mailbox_open(mailbox *link, const tm_node *node, uint32_t index, int copies, tm_error *error) {
    link->node = node;
    link->bytes = (sizeof(box) + node->max_payload_bytes + 4095) / 4096 * 4096;
    snprintf(link->name, sizeof link->name, "/%s-%u", node->run_id, (unsigned)index);
    if (copies && !(link->copy = malloc(node->max_payload_bytes)))
        return tm_fail(error, TM_FAILED, "no memory for a copy");
    return node->leads ? mailbox_map(link, error) : TM_OK;
}

static void mailbox_close(mailbox *link) {
    if (link->outbox) munmap(link->node->leads ? link->outbox : link->inbox, 2 * link->bytes);
    if (link->outbox && link->node->leads) shm_unlink(link->name);
    free(link->copy);
}

static int32_t mailbox_connect(mailbox *link, tm_error *error) {
    return link->node->leads ? TM_OK : mailbox_map(link, error);
}

/* Waits for a turn: TM_OK, or TM_AGAIN after the time-out or a signal. */
static int32_t mailbox_await(sem_t *turn, uint64_t timeout_ns) {
    if (sem_trywait(turn) == 0) return TM_OK;
    uint64_t end_ns = tm_now_ns() + timeout_ns;
    struct timespec until = {(time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u)};
    return timeout_ns && sem_clockwait(turn, CLOCK_MONOTONIC, &until) == 0 ? TM_OK : TM_AGAIN;
}

static int32_t mailbox_loan(mailbox *link, size_t length, tm_loan *loan, tm_error *error) {
    size_t most = link->node->max_payload_bytes;
    if (length > most) return tm_fail(error, TM_LIMIT, "message of %zu bytes, %zu at most", length, most);
    if (mailbox_await(&link->outbox->empty, 1000000000u) != TM_OK)
        return tm_fail(error, TM_FAILED, "the mailbox was not emptied within 1 s");
    *loan = (tm_loan){(uint8_t *)(link->outbox + 1), length, NULL};
    return TM_OK;
}

static int32_t mailbox_publish(mailbox *link, const tm_loan *loan) {
    link->outbox->length = loan->length;
    sem_post(&link->outbox->full);
    return TM_OK;
}

static void mailbox_discard(mailbox *link) { sem_post(&link->outbox->empty); }

static int32_t mailbox_take(mailbox *link, uint64_t timeout_ns, tm_message *message) {
    int32_t status = mailbox_await(&link->inbox->full, link->node->blocks ? timeout_ns : 0);
    if (status != TM_OK) return status;
    const uint8_t *data = (const uint8_t *)(link->inbox + 1);
    if (link->copy) data = memcpy(link->copy, data, link->inbox->length);
    *message = (tm_message){data, link->inbox->length, NULL};
    return TM_OK;
}

static void mailbox_release(mailbox *link) { sem_post(&link->inbox->empty); }

#endif /* MAILBOX_H */
