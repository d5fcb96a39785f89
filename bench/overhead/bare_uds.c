/* Ping-pong over a pair of Unix datagram sockets. Poll: O_NONBLOCK and spin on EAGAIN; block: plain calls. */
#define SYSTEM_NAME "uds"
#define CAN_BLOCK 1
#include "bare.h"

#include <sys/socket.h>

/* Largest datagram with the kernel's default send buffer of 212,992 bytes, packet header included. */
#define PACKET_MOST 212960u

struct queue {
    int pair[2];
    int socket;
};

static void queue_prepare(struct queue *queue, const struct options *options)
{
    if (socketpair(AF_UNIX, SOCK_DGRAM | (options->block ? 0 : SOCK_NONBLOCK), 0, queue->pair) != 0)
        die("socketpair");
}

static void queue_join(struct queue *queue, const struct options *options, int is_leader)
{
    (void)options;
    queue->socket = queue->pair[is_leader];
    close(queue->pair[!is_leader]);
}

static inline void packet_send(struct queue *queue, const void *packet, size_t length)
{
    while (write(queue->socket, packet, length) != (ssize_t)length) {
        if (errno != EAGAIN && errno != EINTR)
            die("write");
    }
}

static inline size_t packet_receive(struct queue *queue, void *packet, size_t room)
{
    ssize_t length;
    while ((length = read(queue->socket, packet, room)) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            die("read");
    }
    return (size_t)length;
}

#include "bare_packets.h"

int main(int count, char **words)
{
    static struct tie tie;
    return bare_main(&tie, count, words);
}
