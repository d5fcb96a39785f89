/*
 * Ping-pong through a shared segment, without a copy. Poll: spin on the next chunk's turn; block: futex on it.
 *
 * Each direction is a ring of distinct chunks. The word that hands a chunk over shares its cache line with the first
 * bytes of the message, so that one line crosses per hop. Chunks return through a counter, which the sender reads only
 * when its own copy of the counter says that the ring is full.
 */
#define SYSTEM_NAME "shm"
#define CAN_BLOCK 1
#include "bare.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#define CHUNKS 16u
/* One chunk fewer than the ring has: the receiver may hold two messages and release them in either order. */
#define IN_FLIGHT (CHUNKS - 1)
/* Offset that keeps the first lines of the chunks from sharing one set of the first-level cache. */
#define STAGGER 64u

struct chunk {
    uint32_t turn; /* sequence number of its message, from 1, truncated to 32 bits */
    uint32_t length;
    uint64_t rest;
    uint8_t message[];
};

struct ring {
    uint8_t *chunks;
    struct line *released;
    uint64_t next;            /* private to the process that uses this end */
    uint64_t known_released;
};

struct tie {
    struct ring rings[2];
    size_t stride;
    uint32_t payload;
    int block;
    struct ring out;
    struct ring in;
};

static void tie_prepare(struct tie *tie, const struct options *options)
{
    tie->payload = (uint32_t)options->payload;
    tie->block = options->block;
    tie->stride = ((sizeof(struct chunk) + options->payload + 4095) & ~(size_t)4095) + STAGGER;
    for (int i = 0; i < 2; i++) {
        tie->rings[i].chunks = (uint8_t *)shared_memory(tie->stride * CHUNKS);
        tie->rings[i].released = (struct line *)shared_memory(sizeof(struct line));
    }
}

static void tie_join(struct tie *tie, const struct options *options, int is_leader)
{
    (void)options;
    tie->out = tie->rings[is_leader];
    tie->in = tie->rings[!is_leader];
    for (size_t at = 0; at < tie->stride * CHUNKS; at += 4096) {
        (void)*(volatile uint8_t *)(tie->out.chunks + at);
        (void)*(volatile uint8_t *)(tie->in.chunks + at);
    }
}

static inline struct chunk *chunk_at(const struct ring *ring, size_t stride)
{
    return (struct chunk *)(ring->chunks + ring->next % CHUNKS * stride);
}

static inline void futex(uint32_t *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static inline struct chunk *loan(struct tie *tie)
{
    struct ring *ring = &tie->out;
    while (ring->next - ring->known_released >= IN_FLIGHT)
        ring->known_released = __atomic_load_n(&ring->released->value, __ATOMIC_ACQUIRE);
    struct chunk *chunk = chunk_at(ring, tie->stride);
    chunk->length = tie->payload;
    return chunk;
}

static inline void publish(struct tie *tie, struct chunk *chunk, int block)
{
    __atomic_store_n(&chunk->turn, (uint32_t)++tie->out.next, __ATOMIC_RELEASE);
    if (block)
        futex(&chunk->turn, FUTEX_WAKE, 1);
}

static inline const struct chunk *take(struct tie *tie, int block)
{
    struct chunk *chunk = chunk_at(&tie->in, tie->stride);
    uint32_t turn, awaited = (uint32_t)(tie->in.next + 1);
    while ((turn = __atomic_load_n(&chunk->turn, __ATOMIC_ACQUIRE)) != awaited) {
        if (block)
            futex(&chunk->turn, FUTEX_WAIT, turn);
        else
            _mm_pause();
    }
    if (chunk->length != tie->payload) {
        errno = 0;
        die("length of a message");
    }
    return chunk;
}

static inline void release(struct tie *tie)
{
    __atomic_store_n(&tie->in.released->value, ++tie->in.next, __ATOMIC_RELEASE);
}

static inline __attribute__((always_inline)) void lead_by(struct tie *tie, uint64_t *samples, uint64_t trips, int block)
{
    uint64_t last = ticks();
    for (uint64_t trip = 0; trip < trips; trip++) {
        struct chunk *chunk = loan(tie);
        header_write(chunk->message, trip);
        publish(tie, chunk, block);
        expect_sequence(header_read(take(tie, block)->message), trip);
        release(tie);
        uint64_t now = ticks();
        samples[trip] = now - last;
        last = now;
    }
}

static inline __attribute__((always_inline)) void follow_by(struct tie *tie, uint64_t trips, int block)
{
    for (uint64_t trip = 0; trip < trips; trip++) {
        uint64_t sequence = header_read(take(tie, block)->message);
        struct chunk *chunk = loan(tie);
        header_write(chunk->message, sequence);
        publish(tie, chunk, block);
        release(tie);
    }
}

static void lead(struct tie *tie, uint64_t *samples, uint64_t trips)
{
    if (tie->block)
        lead_by(tie, samples, trips, 1);
    else
        lead_by(tie, samples, trips, 0);
}

static void follow(struct tie *tie, uint64_t trips)
{
    if (tie->block)
        follow_by(tie, trips, 1);
    else
        follow_by(tie, trips, 0);
}

int main(int count, char **words)
{
    static struct tie tie;
    return bare_main(&tie, count, words);
}
