/*
 * Preloaded before libfaketime, so that only the wall clock is stepped. libfaketime also shifts CPU-time clocks, and
 * sleeps until a time of CLOCK_MONOTONIC, which a step of a real clock never does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

/* Function of the library that is preloaded next (`is_next`), or of the C library itself. */
static void *function(const char *name, int is_next)
{
    return dlsym(is_next ? RTLD_NEXT : dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), name);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int (*all[2])(clockid_t, struct timespec *);
    const int is_date = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
    if (all[is_date] == NULL) {
        void *const found = function("clock_gettime", is_date);
        memcpy(&all[is_date], &found, sizeof found);
    }
    return all[is_date](clock, time);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    static int (*all[2])(clockid_t, int, const struct timespec *, struct timespec *);
    const int is_date = clock == CLOCK_REALTIME;
    if (all[is_date] == NULL) {
        void *const found = function("clock_nanosleep", is_date);
        memcpy(&all[is_date], &found, sizeof found);
    }
    return all[is_date](clock, flags, until, left);
}
