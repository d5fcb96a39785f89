/*
 * Shared code of plugins that wrap another one: finding the true plugin. Their file is called tripmeter_SYSTEM.so, or
 * tripmeter_SYSTEM-N.so; the true plugin is true/tripmeter_SYSTEM.so beside it.
 */
#ifndef AROUND_H
#define AROUND_H

#include "tripmeter_plugin.h"

static const tm_transport *truth;
static char plugin[64]; /* SYSTEM, or SYSTEM-N */

/* Writes the path of the true plugin, derived from this file's name; false if that is unknown. */
static bool find_file(char *file, size_t capacity)
{
    static const char prefix[] = "tripmeter_";
    Dl_info self;
    if (dladdr((const void *)(uintptr_t)&find_file, &self) == 0) {
        return false;
    }
    const char *const slash = strrchr(self.dli_fname, '/');
    const char *const name = slash != NULL ? slash + 1 : self.dli_fname;
    const int folder = (int)(name - self.dli_fname);
    if (strncmp(name, prefix, strlen(prefix)) != 0) {
        return false;
    }
    snprintf(plugin, sizeof plugin, "%.*s", (int)strcspn(name + strlen(prefix), "."), name + strlen(prefix));
    const char *const number = strrchr(plugin, '-');
    const bool is_numbered = number != NULL && number[1] >= '0' && number[1] <= '9';
    const int length = is_numbered ? (int)(number - plugin) : (int)strlen(plugin);
    const int written = snprintf(file, capacity, "%.*strue/%s%.*s.so", folder, self.dli_fname, prefix, length, plugin);
    return written > 0 && (size_t)written < capacity;
}

/* The table of the true plugin; NULL if it cannot be loaded. */
static const tm_transport *load(void)
{
    char file[PATH_MAX];
    /* Lazy binding as in the host: libraries of ros2 refer to functions that do not exist. */
    void *const library = find_file(file, sizeof file) ? dlopen(file, RTLD_LAZY | RTLD_LOCAL) : NULL;
    void *const symbol = library != NULL ? dlsym(library, "tripmeter_transport") : NULL;
    const tm_transport *(*entry)(void) = NULL;
    memcpy(&entry, &symbol, sizeof entry);
    if (entry == NULL) {
        fprintf(stderr, "around: %s\n", dlerror());
        return NULL;
    }
    return entry();
}

#endif /* AROUND_H */
