/*
 * Shared code of the bare ping-pong loops: options, clock, pinning, the core-to-core probe and the result line.
 *
 * A program defines SYSTEM_NAME and CAN_BLOCK, includes this file, and defines `struct tie` and the four functions
 * declared below. bare_main() forks the follower, pins both processes and runs the two loops once, with a probe before
 * and after.
 */
#ifndef BARE_H
#define BARE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define CACHE_LINE 64
#define PROBE_TRIPS 4000
#define PROBE_WARM_UP 400
/* Headers of 16 bytes each: of a packet (uds and mq), and of a message. */
#define PACKET_HEADER 16
#define SMALLEST_PAYLOAD 16

/* The first 16 bytes of every message. */
struct header {
    uint64_t sequence;
    uint32_t check;
    uint32_t zero;
};

struct options {
    int leader_cpu;
    int follower_cpu;
    size_t payload;
    uint64_t samples;
    uint64_t warm_up;
    int block;
    unsigned timeout_s;
};

/* One word alone on its cache line. */
struct line {
    uint64_t value;
    uint8_t rest[CACHE_LINE - sizeof(uint64_t)];
} __attribute__((aligned(CACHE_LINE)));

/* Cache lines of the probe, mapped before the fork so that leader and follower share them. */
struct probe {
    struct line ball;
    struct line ready;
};

/* Defined by each program. */
struct tie;
static void tie_prepare(struct tie *tie, const struct options *options); /* before the fork */
static void tie_join(struct tie *tie, const struct options *options, int is_leader); /* in each process */
static void lead(struct tie *tie, uint64_t *samples, uint64_t trips); /* the loops */
static void follow(struct tie *tie, uint64_t trips);

static void die(const char *what)
{
    fprintf(stderr, "bare loop '%s' failed: %s: %s\n", SYSTEM_NAME, what, errno ? strerror(errno) : "unexpected value");
    exit(70);
}

static inline uint64_t ticks(void)
{
    unsigned processor;
    return __rdtscp(&processor);
}

static inline uint32_t check_of(uint64_t sequence)
{
    return (uint32_t)((sequence * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

static inline void header_write(void *message, uint64_t sequence)
{
    struct header *header = (struct header *)message;
    header->sequence = sequence;
    header->check = check_of(sequence);
    header->zero = 0;
}

static inline uint64_t header_read(const void *message)
{
    const struct header *header = (const struct header *)message;
    if (__builtin_expect(header->check != check_of(header->sequence), 0)) {
        errno = 0;
        die("check word of a message");
    }
    return header->sequence;
}

static inline void expect_sequence(uint64_t found, uint64_t expected)
{
    if (__builtin_expect(found != expected, 0)) {
        errno = 0;
        die("sequence number of a message");
    }
}

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        die("sched_setaffinity");
}

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        die("mmap of shared memory");
    return memory;
}

/* Page-aligned private memory, faulted in. */
static void *private_memory(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes) != 0)
        die("posix_memalign");
    memset(memory, 1, bytes);
    return memory;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Bounces a value between the processes: odd on its way out, even on its way back. Returns the median round trip in
 * ticks. */
static uint64_t probe_lead(struct probe *probe)
{
    static uint64_t trips[PROBE_TRIPS];
    __atomic_store_n(&probe->ready.value, 0, __ATOMIC_RELAXED);
    uint64_t last = ticks();
    for (uint64_t i = 0; i < PROBE_WARM_UP + PROBE_TRIPS; i++) {
        __atomic_store_n(&probe->ball.value, 2 * i + 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(&probe->ball.value, __ATOMIC_ACQUIRE) != 2 * i + 2) {
        }
        uint64_t now = ticks();
        if (i >= PROBE_WARM_UP)
            trips[i - PROBE_WARM_UP] = now - last;
        last = now;
    }
    __atomic_store_n(&probe->ball.value, 0, __ATOMIC_RELEASE);
    qsort(trips, PROBE_TRIPS, sizeof trips[0], by_value);
    return trips[PROBE_TRIPS / 2];
}

static void probe_follow(struct probe *probe)
{
    for (uint64_t i = 0; i < PROBE_WARM_UP + PROBE_TRIPS; i++) {
        while (__atomic_load_n(&probe->ball.value, __ATOMIC_ACQUIRE) != 2 * i + 1) {
        }
        __atomic_store_n(&probe->ball.value, 2 * i + 2, __ATOMIC_RELEASE);
    }
    /* The leader resets the ball to 0 before the next probe begins. */
    while (__atomic_load_n(&probe->ball.value, __ATOMIC_ACQUIRE) != 0) {
    }
}

static uint64_t number(const char *text, const char *flag, uint64_t least, uint64_t most)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < least || value > most) {
        fprintf(stderr, "%s %s: expected a number from %llu to %llu\n", flag, text, (unsigned long long)least,
                (unsigned long long)most);
        exit(64);
    }
    return value;
}

static void usage(void)
{
    fprintf(stderr, "usage: bare_%s [--leader-cpu N] [--follower-cpu N] [--payload BYTES] [--samples N] [--warmup N]\n"
                    "       [--wait %s] [--timeout SECONDS]\n", SYSTEM_NAME, CAN_BLOCK ? "poll|block" : "poll");
    exit(64);
}

static struct options options_parse(int count, char **words)
{
    struct options options = {0, 1, 1024, 20000, 1000, 0, 120};
    for (int i = 1; i < count; i += 2) {
        const char *flag = words[i], *value = words[i + 1];
        if (value == NULL)
            usage();
        if (strcmp(flag, "--leader-cpu") == 0)
            options.leader_cpu = (int)number(value, flag, 0, CPU_SETSIZE - 1);
        else if (strcmp(flag, "--follower-cpu") == 0)
            options.follower_cpu = (int)number(value, flag, 0, CPU_SETSIZE - 1);
        else if (strcmp(flag, "--payload") == 0)
            options.payload = number(value, flag, SMALLEST_PAYLOAD, 64u << 20);
        else if (strcmp(flag, "--samples") == 0)
            options.samples = number(value, flag, 1, 100000000);
        else if (strcmp(flag, "--warmup") == 0)
            options.warm_up = number(value, flag, 0, 100000000);
        else if (strcmp(flag, "--timeout") == 0)
            options.timeout_s = (unsigned)number(value, flag, 1, 86400);
        else if (strcmp(flag, "--wait") == 0 && strcmp(value, "poll") == 0)
            options.block = 0;
        else if (strcmp(flag, "--wait") == 0 && strcmp(value, "block") == 0 && CAN_BLOCK)
            options.block = 1;
        else
            usage();
    }
    return options;
}

/* Median of `sorted`, interpolated within its step of the clock: between the middles of the gaps to the neighbouring
 * values, by the share of samples below. Otherwise a clock with steps of 10 ns would show false differences of 5 %. */
static double median_within_step(const uint64_t *sorted, uint64_t count)
{
    uint64_t value = sorted[count / 2], first = count / 2, last = count / 2;
    while (first > 0 && sorted[first - 1] == value)
        first--;
    while (last + 1 < count && sorted[last + 1] == value)
        last++;
    double low = first > 0 ? ((double)sorted[first - 1] + (double)value) / 2 : (double)value;
    double high = last + 1 < count ? ((double)sorted[last + 1] + (double)value) / 2 : (double)value;
    return low + (high - low) * ((double)count / 2 - (double)first) / (double)(last + 1 - first);
}

static void print_result(const struct options *options, uint64_t *samples, double ns_per_tick,
                         const double *core_to_core_ns)
{
    uint64_t n = options->samples, sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += samples[i];
    qsort(samples, n, sizeof samples[0], by_value);
#define NS(x) ((double)(x) * ns_per_tick)
    printf("{\"system\":\"%s\",\"wait\":\"%s\",\"payload_bytes\":%zu,\"samples\":%llu,"
           "\"rtt_ns\":{\"min\":%.1f,\"p50\":%.1f,\"p50_within_step\":%.1f,\"p99\":%.1f,\"mean\":%.1f},"
           "\"core_to_core_ns\":{\"before\":%.1f,\"after\":%.1f}}\n",
           SYSTEM_NAME, options->block ? "block" : "poll", options->payload, (unsigned long long)n,
           NS(samples[0]), NS(samples[n / 2]), NS(median_within_step(samples, n)), NS(samples[n * 99 / 100]),
           NS(sum) / (double)n, core_to_core_ns[0], core_to_core_ns[1]);
#undef NS
}

/* Locks all memory mapped so far, as Tripmeter does. With MCL_FUTURE, a user with a limit on locked memory could map no
 * more. */
static void lock_memory(void)
{
    mlockall(MCL_CURRENT);
}

static void run_follower(struct tie *tie, const struct options *options, struct probe *probe)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(options->timeout_s);
    pin(options->follower_cpu);
    tie_join(tie, options, 0);
    lock_memory();
    __atomic_store_n(&probe->ready.value, 1, __ATOMIC_RELEASE);
    probe_follow(probe);
    follow(tie, options->warm_up + options->samples);
    __atomic_store_n(&probe->ready.value, 1, __ATOMIC_RELEASE);
    probe_follow(probe);
}

/* Waits with sleeps, so that a follower on the same CPU can run. */
static void await_follower(struct probe *probe)
{
    while (__atomic_load_n(&probe->ready.value, __ATOMIC_ACQUIRE) == 0)
        usleep(200);
}

static void run_leader(struct tie *tie, const struct options *options, struct probe *probe)
{
    uint64_t trips = options->warm_up + options->samples;
    uint64_t *samples = (uint64_t *)private_memory(trips * sizeof *samples);
    uint64_t core_to_core_ticks[2];
    alarm(options->timeout_s);
    pin(options->leader_cpu);
    tie_join(tie, options, 1);
    lock_memory();
    uint64_t start_ns = monotonic_ns(), start_ticks = ticks();
    await_follower(probe);
    core_to_core_ticks[0] = probe_lead(probe);
    lead(tie, samples, trips);
    await_follower(probe);
    core_to_core_ticks[1] = probe_lead(probe);
    while (monotonic_ns() - start_ns < 50000000) {
    }
    uint64_t elapsed_ns = monotonic_ns() - start_ns;
    double ns_per_tick = (double)elapsed_ns / (double)(ticks() - start_ticks);
    double core_to_core_ns[2] = {(double)core_to_core_ticks[0] * ns_per_tick, (double)core_to_core_ticks[1] * ns_per_tick};
    print_result(options, samples + options->warm_up, ns_per_tick, core_to_core_ns);
}

static int bare_main(struct tie *tie, int count, char **words)
{
    struct options options = options_parse(count, words);
    struct probe *probe = (struct probe *)shared_memory(sizeof *probe);
    tie_prepare(tie, &options);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        run_follower(tie, &options, probe);
        exit(0);
    }
    run_leader(tie, &options, probe);
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 70;
}

#endif /* BARE_H */
