/*
 * The loops of the two systems that carry packets: uds and mq. A program defines `struct queue`, PACKET_MOST,
 * packet_send(), packet_receive(), queue_prepare() and queue_join(), and includes this file.
 *
 * Every packet begins with a header of 16 bytes, without copying the message to make room for it. From the second
 * packet on, the sender writes the header over bytes already sent; the receiver restores the bytes that the header
 * overwrites.
 */
#ifndef BARE_PACKETS_H
#define BARE_PACKETS_H

struct packet_header {
    uint32_t message;
    uint32_t total;
    uint32_t offset;
    uint32_t zero;
};

struct tie {
    struct queue queue;
    uint32_t payload;
    uint32_t sent;
    uint32_t received;
    uint8_t *out; /* the message; the packet header goes in the 16 bytes before it */
    uint8_t *in;
};

static void tie_prepare(struct tie *tie, const struct options *options)
{
    queue_prepare(&tie->queue, options);
}

static void tie_join(struct tie *tie, const struct options *options, int is_leader)
{
    size_t room = 4096 + options->payload + PACKET_MOST;
    tie->payload = (uint32_t)options->payload;
    tie->out = (uint8_t *)private_memory(room) + 64;
    tie->in = (uint8_t *)private_memory(room) + 64;
    queue_join(&tie->queue, options, is_leader);
}

static inline void message_send(struct tie *tie)
{
    uint32_t total = tie->payload, message = tie->sent++;
    for (uint32_t offset = 0; offset < total;) {
        uint32_t piece = total - offset < PACKET_MOST - PACKET_HEADER ? total - offset : PACKET_MOST - PACKET_HEADER;
        struct packet_header *header = (struct packet_header *)(tie->out + offset - PACKET_HEADER);
        *header = (struct packet_header){message, total, offset, 0};
        packet_send(&tie->queue, header, PACKET_HEADER + piece);
        offset += piece;
    }
}

static inline const uint8_t *message_receive(struct tie *tie)
{
    uint32_t total = tie->payload, message = tie->received++;
    for (uint32_t offset = 0; offset < total;) {
        struct packet_header *header = (struct packet_header *)(tie->in + offset - PACKET_HEADER);
        struct packet_header covered = *header;
        size_t length = packet_receive(&tie->queue, header, PACKET_MOST);
        if (length <= PACKET_HEADER || header->message != message || header->total != total ||
            header->offset != offset) {
            errno = 0;
            die("packet header");
        }
        *header = covered;
        offset += (uint32_t)length - PACKET_HEADER;
    }
    return tie->in;
}

static void lead(struct tie *tie, uint64_t *samples, uint64_t trips)
{
    uint64_t last = ticks();
    for (uint64_t trip = 0; trip < trips; trip++) {
        header_write(tie->out, trip);
        message_send(tie);
        expect_sequence(header_read(message_receive(tie)), trip);
        uint64_t now = ticks();
        samples[trip] = now - last;
        last = now;
    }
}

static void follow(struct tie *tie, uint64_t trips)
{
    for (uint64_t trip = 0; trip < trips; trip++) {
        uint64_t sequence = header_read(message_receive(tie));
        header_write(tie->out, sequence);
        message_send(tie);
    }
}

#endif /* BARE_PACKETS_H */
