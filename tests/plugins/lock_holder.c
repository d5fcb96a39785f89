/*
 * Preloaded into the processes of ros2: holds a lock in Fast DDS's shared memory, that of a port's queue, at the worst
 * moment. Closing the port's listener waits for the lock for some time; if it does not get it, Fast DDS joins the
 * listener's thread without telling it to end. LOCK_HOLDER selects the holder:
 *   killed   the follower, killed while it holds the lock and answers a call
 *   stalled  the leader's receiving thread, which sleeps while the leader closes
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

/* Bit of glibc's mutex kind that marks a mutex shared between processes. */
#define SHARED_KIND 128
/* Offset in its page of the allocator's lock in a segment of Boost.Interprocess; that one is skipped. */
#define ALLOCATOR_AT 0x10
/* Calls that are answered before the kill. */
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

/* Called while the mutex is held. */
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

/* Counts the answers; called by the server only. */
int rcl_send_response(const void *service, void *request, void *response)
{
    int (*send)(const void *, void *, void *) = NULL;
    *(void **)&send = next_of("librcl.so", "rcl_send_response");
    ++answers;
    return send(service, request, response);
}

/* Marks that the leader closes: only the leader has a client. */
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
