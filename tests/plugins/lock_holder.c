/*
 * Preloaded into the processes of ros2, it has a lock in Fast DDS's shared memory held at the worst moment: that of a port's
 * queue. Closing the port's listener tries to get it for some time; without it, the listener is not told to end, and joined all
 * the same. LOCK_HOLDER says by whom it is held:
 *   killed   the follower, killed inside it while it answers a call
 *   stalled  the leader's receiving thread, which is kept from its CPU while the leader closes
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of a mutex of several processes, in glibc. */
#define SHARED_KIND 128
/* Where in its page a segment of Boost.Interprocess has the lock of its allocator, which is no port's. */
#define ALLOCATOR_AT 0x10
/* Calls that are answered before. */
#define ANSWERS 500
#define LONGEST_MS 5000
#define STALL_MS 60000

static atomic_int answers;
static atomic_bool is_closing;
static atomic_bool is_stalled;

static int is_mode(const char *name)
{
    const char *mode = getenv("LOCK_HOLDER");
    return mode != NULL && strcmp(mode, name) == 0;
}

static void nap(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void *next_of(const char *library, const char *name)
{
    /* A plugin's libraries are not in the global scope. */
    void *const handle = library != NULL ? dlopen(library, RTLD_LAZY | RTLD_NOLOAD) : RTLD_NEXT;
    void *const function = dlsym(handle, name);
    if (function == NULL) {
        abort();
    }
    return function;
}

/* Called while it is held. */
static void hold(const pthread_mutex_t *mutex)
{
    if ((mutex->__data.__kind & SHARED_KIND) == 0 || ((uintptr_t)mutex & 0xfff) == ALLOCATOR_AT) {
        return;
    }
    if (answers >= ANSWERS && syscall(SYS_gettid) == getpid() && is_mode("killed")) {
        raise(SIGKILL);
    }
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    if (is_closing && strncmp(name, "dds.shm.", 8) == 0 && strcmp(name, "dds.shm.wdog") != 0
        && !atomic_exchange(&is_stalled, 1)) {
        nap(STALL_MS);
    }
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *time)
{
    int (*lock)(pthread_mutex_t *, const struct timespec *) = NULL;
    *(void **)&lock = next_of(NULL, "pthread_mutex_timedlock");
    const int result = lock(mutex, time);
    if (result == 0) {
        hold(mutex);
    }
    return result;
}

/* The server's. */
int rcl_send_response(const void *service, void *request, void *response)
{
    int (*send)(const void *, void *, void *) = NULL;
    *(void **)&send = next_of("librcl.so", "rcl_send_response");
    ++answers;
    return send(service, request, response);
}

/* Only the leader has made a client. */
int rcl_client_fini(void *client, void *node)
{
    int (*fini)(void *, void *) = NULL;
    *(void **)&fini = next_of("librcl.so", "rcl_client_fini");
    const int result = fini(client, node);
    is_closing = is_mode("stalled");
    for (int ms = 0; is_closing && !is_stalled && ms < LONGEST_MS; ++ms) {
        nap(1);
    }
    return result;
}
