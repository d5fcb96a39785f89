/* Messages over a stream socket, each behind its length: AF_UNIX, or TCP over the loopback. */
#ifndef STREAM_H
#define STREAM_H

#include "common.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HEADER sizeof(uint64_t) /* the length of a message, before it */
#define HELD 2                  /* messages that may be held unreleased */

typedef struct frame {
    uint8_t *bytes;
    int held;
} frame;

typedef struct stream {
    const tm_node *node;
    union {
        struct sockaddr any;
        struct sockaddr_un unix_path;
        struct sockaddr_in inet;
    } address;
    socklen_t address_bytes;
    int listener;   /* of the leader; -1 at the follower */
    int connection; /* -1 before the connection */
    frame out;
    frame in[HELD];
    frame *filling; /* the frame that the next bytes belong to, NULL between messages */
    size_t filled;  /* how many of its bytes have come */
} stream;

static void stream_close(stream *link) {
    if (link->connection >= 0) close(link->connection);
    if (link->listener >= 0) close(link->listener);
    if (link->listener >= 0 && link->address.any.sa_family == AF_UNIX) unlink(link->address.unix_path.sun_path);
    for (int i = 0; i < HELD; i++) free(link->in[i].bytes);
    free(link->out.bytes);
}

static int32_t stream_listen(stream *link, int family, uint32_t index, tm_error *error) {
    memset(&link->address, 0, sizeof link->address);
    link->address.any.sa_family = (sa_family_t)family;
    link->address_bytes = sizeof link->address.inet;
    link->address.inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (family == AF_UNIX) {
        char *path = link->address.unix_path.sun_path;
        size_t room = sizeof link->address.unix_path.sun_path;
        int length = snprintf(path, room, "%s/stream-%u", link->node->scratch_dir, (unsigned)index);
        if (length < 0 || (size_t)length >= room) return tm_fail(error, TM_LIMIT, "socket path of %d bytes", length);
        link->address_bytes = sizeof link->address.unix_path;
    }
    link->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->listener < 0) return tm_fail_errno(error, "socket");
    if (bind(link->listener, &link->address.any, link->address_bytes) < 0) return tm_fail_errno(error, "bind");
    if (family == AF_INET) getsockname(link->listener, &link->address.any, &link->address_bytes);
    return listen(link->listener, 1) < 0 ? tm_fail_errno(error, "listen") : TM_OK;
}

/* On an error, the caller closes what was opened. */
static int32_t stream_open(stream *link, const tm_node *node, int family, uint32_t index, tm_error *error) {
    link->node = node;
    link->listener = link->connection = -1;
    frame *frames[] = {&link->out, &link->in[0], &link->in[1]};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        if (!(frames[i]->bytes = malloc(HEADER + node->max_payload_bytes)))
            return tm_fail(error, TM_FAILED, "no memory for messages");
    return node->leads ? stream_listen(link, family, index, error) : TM_OK;
}

static int32_t stream_address(stream *link, uint8_t *buffer, size_t capacity, size_t *length, tm_error *error) {
    return tm_give_address(&link->address, link->address_bytes, buffer, capacity, length, error);
}

static int32_t stream_accept(stream *link, uint64_t timeout_ns, tm_error *error) {
    uint64_t start = tm_now_ns();
    while (tm_now_ns() - start <= timeout_ns) {
        struct pollfd ready = {link->listener, POLLIN, 0};
        poll(&ready, 1, 10);
        link->connection = accept4(link->listener, NULL, NULL, SOCK_CLOEXEC);
        if (link->connection >= 0) return TM_OK;
        if (errno != EAGAIN && errno != EINTR) return tm_fail_errno(error, "accept");
    }
    return tm_fail(error, TM_FAILED, "no follower within %llu ms", (unsigned long long)(timeout_ns / 1000000));
}

static int32_t stream_connect(stream *link, const tm_bytes *peers, size_t peer_count, uint64_t timeout_ns,
                              tm_error *error) {
    int32_t status = TM_OK;
    if (peer_count != 1) return tm_fail(error, TM_INVALID, "%zu peers, 1 is possible", peer_count);
    if (link->node->leads) {
        status = stream_accept(link, timeout_ns, error);
        if (status != TM_OK) return status;
    } else {
        if (peers->length > sizeof link->address) return tm_fail(error, TM_INVALID, "the leader's address is too long");
        memcpy(&link->address, peers->data, peers->length);
        link->connection = socket(link->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (link->connection < 0) return tm_fail_errno(error, "socket");
        if (connect(link->connection, &link->address.any, (socklen_t)peers->length) < 0)
            return tm_fail_errno(error, "connect");
    }
    int on = 1;
    if (link->address.any.sa_family == AF_INET)
        setsockopt(link->connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fcntl(link->connection, F_SETFL, O_NONBLOCK) < 0 ? tm_fail_errno(error, "fcntl") : TM_OK;
}

static int32_t stream_loan(stream *link, size_t length, tm_loan *loan, tm_error *error) {
    size_t most = link->node->max_payload_bytes;
    if (length > most) return tm_fail(error, TM_LIMIT, "message of %zu bytes, %zu at most", length, most);
    *loan = (tm_loan){link->out.bytes + HEADER, length, NULL};
    return TM_OK;
}

static int32_t stream_publish(stream *link, const tm_loan *loan, uint64_t timeout_ns, tm_error *error) {
    uint64_t length = loan->length, start = 0;
    size_t sent = 0;
    memcpy(link->out.bytes, &length, HEADER);
    while (sent < HEADER + length) {
        ssize_t written = write(link->connection, link->out.bytes + sent, HEADER + length - sent);
        if (written > 0) {
            sent += (size_t)written;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR) return tm_fail_errno(error, "write");
        if (!start) start = tm_now_ns();
        if (tm_now_ns() - start < timeout_ns) continue;
        if (sent == 0) return TM_AGAIN;
        return tm_fail(error, TM_FAILED, "%zu of %zu bytes were sent in time", sent, HEADER + loan->length);
    }
    return TM_OK;
}

/* Reads on towards the header, or towards the whole message once its length is known. */
static int32_t stream_take(stream *link, uint64_t timeout_ns, tm_message *message, tm_error *error) {
    if (!link->filling) link->filling = &link->in[link->in[0].held];
    if (link->filling->held) return tm_fail(error, TM_INVALID, "more than %d messages are held", HELD);
    if (link->node->blocks) {
        struct timespec wait = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
        struct pollfd ready = {link->connection, POLLIN, 0};
        if (ppoll(&ready, 1, &wait, NULL) <= 0) return TM_AGAIN;
    }
    uint8_t *bytes = link->filling->bytes;
    uint64_t length = 0;
    if (link->filled >= HEADER) memcpy(&length, bytes, HEADER);
    while (link->filled < HEADER || link->filled < HEADER + length) {
        size_t wanted = link->filled < HEADER ? HEADER : HEADER + length;
        ssize_t got = read(link->connection, bytes + link->filled, wanted - link->filled);
        if (got == 0) return tm_fail(error, TM_CLOSED, "the peer has closed the connection");
        if (got < 0) return errno == EAGAIN || errno == EINTR ? TM_AGAIN : tm_fail_errno(error, "read");
        link->filled += (size_t)got;
        if (link->filled >= HEADER) memcpy(&length, bytes, HEADER);
        if (length > link->node->max_payload_bytes) return tm_fail(error, TM_FAILED, "the peer sends nonsense");
    }
    *message = (tm_message){bytes + HEADER, length, link->filling};
    link->filling->held = 1;
    link->filling = NULL;
    link->filled = 0;
    return TM_OK;
}

static void stream_release(tm_message *message) { ((frame *)message->token)->held = 0; }

#endif /* STREAM_H */
