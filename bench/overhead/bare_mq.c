/* Ping-pong over two POSIX message queues of the native size. Poll: spin on EAGAIN; block: plain calls. */
#define SYSTEM_NAME "mq"
#define CAN_BLOCK 1
#include "bare.h"

#include <fcntl.h>
#include <mqueue.h>

/* The kernel's defaults of msgsize_max and msg_max. */
#define PACKET_MOST 8192u
#define QUEUE_DEPTH 10

struct queue {
    mqd_t pair[2];
    mqd_t out;
    mqd_t in;
};

/* Unlinks the queues at once, so that nothing is left behind; the follower inherits the descriptors. */
static void queue_prepare(struct queue *queue, const struct options *options)
{
    struct mq_attr attributes = {.mq_maxmsg = QUEUE_DEPTH, .mq_msgsize = PACKET_MOST};
    int flags = O_RDWR | O_CREAT | O_EXCL | (options->block ? 0 : O_NONBLOCK);
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "/tripmeter-bare-%d-%d", (int)getpid(), i);
        queue->pair[i] = mq_open(name, flags, 0600, &attributes);
        if (queue->pair[i] == (mqd_t)-1)
            die("mq_open");
        mq_unlink(name);
    }
}

static void queue_join(struct queue *queue, const struct options *options, int is_leader)
{
    (void)options;
    queue->out = queue->pair[is_leader];
    queue->in = queue->pair[!is_leader];
}

static inline void packet_send(struct queue *queue, const void *packet, size_t length)
{
    while (mq_send(queue->out, (const char *)packet, length, 0) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            die("mq_send");
    }
}

static inline size_t packet_receive(struct queue *queue, void *packet, size_t room)
{
    ssize_t length;
    while ((length = mq_receive(queue->in, (char *)packet, room, NULL)) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            die("mq_receive");
    }
    return (size_t)length;
}

#include "bare_packets.h"

int main(int count, char **words)
{
    static struct tie tie;
    return bare_main(&tie, count, words);
}
