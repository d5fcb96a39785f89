/*
 * roudi.h: functions that iceoryx's own API lacks: checking that RouDi runs, reading its memory pools, and starting one
 * that fits. For all transports that use iceoryx. Plain C11, also compiled as C++17.
 *
 * Nothing here joins iceoryx before RouDi is known to run: otherwise the runtime waits a minute for it and then ends
 * the process.
 */
#ifndef TRIPMETER_ICEORYX_ROUDI_H
#define TRIPMETER_ICEORYX_ROUDI_H

#include "tripmeter_plugin.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#define ROUDI_SOCKET "/tmp/roudi"
#define ROUDI_LOCK "/tmp/iox-unique-roudi.lock"
#define ROUDI_SYSTEM_CONFIG "/etc/iceoryx/roudi_config.toml"

/* RouDi's own tables take 64 MiB of shared memory, its built-in pools end at 4 MiB, a chunk has a header. */
#define ROUDI_MANAGEMENT_BYTES (UINT64_C(68) << 20)
#define ROUDI_BUILT_IN_LARGEST (UINT64_C(4) << 20)
#define ROUDI_CHUNK_HEADER_BYTES UINT64_C(40)
#define ROUDI_LARGEST_PAYLOAD (UINT32_MAX - UINT64_C(64))

/* One RouDi has 512 publishers, six of them its own; a link uses two. */
#define ROUDI_MAX_LINKS 253u

#define ROUDI_JOIN_TIMEOUT_S 10

/* Largest buffer for the entry of a group with its members. */
#define ROUDI_GROUP_BYTES (UINT64_C(16) << 20)

/* Requirements of a run on RouDi. */
typedef struct roudi_need {
    const tm_node_options *options; /* links, followers, scratch folder, name of the run */
    uint64_t payload_bytes;         /* of the largest chunk */
    uint64_t queue_capacity;        /* messages that a subscriber's queue holds */
} roudi_need;

/* True if this user or root owns the file: anybody may create files in /tmp. */
static inline bool roudi_is_trusted(const struct stat *found)
{
    return found->st_uid == geteuid() || found->st_uid == 0;
}

/* TM_OK if RouDi accepts messages. Sends none, and does not touch RouDi's lock: a RouDi that is just starting would
 * take us for a second RouDi and give up. */
static inline int32_t roudi_check(tm_error *error)
{
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, ROUDI_SOCKET, sizeof ROUDI_SOCKET);
    struct stat found;
    if (lstat(ROUDI_SOCKET, &found) == 0 && !roudi_is_trusted(&found)) {
        return tm_fail(error, TM_UNAVAILABLE,
                       "%s is of user %ju, and RouDi is joined only if it is this user's or root's; end that RouDi, or run "
                       "as its user",
                       ROUDI_SOCKET, (uintmax_t)found.st_uid);
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return tm_fail(error, TM_UNAVAILABLE, "cannot create a socket to contact RouDi: %s", strerror(errno));
    }
    const int connected = connect(fd, (const struct sockaddr *)&address, sizeof address);
    int reason = errno;
    close(fd);
    /* Ownership is checked after connecting: nobody else can replace a file of this user or root. */
    if (connected == 0 && lstat(ROUDI_SOCKET, &found) == 0) {
        if (S_ISSOCK(found.st_mode) && roudi_is_trusted(&found)) {
            return TM_OK;
        }
        return tm_fail(error, TM_UNAVAILABLE, "%s was replaced during the check for RouDi, possibly by another user",
                       ROUDI_SOCKET);
    }
    /* A socket that is gone by now belonged to a RouDi that has just ended. */
    reason = connected == 0 ? ENOENT : reason;
    if (reason == EACCES || reason == EPERM) {
        return tm_fail(error, TM_UNAVAILABLE, "RouDi runs as another user (%s: %s); run as its user or in its group",
                       ROUDI_SOCKET, strerror(reason));
    }
    return tm_fail(error, TM_NO_DAEMON,
                   "RouDi is not running; start `iox-roudi`, or let tripmeter start it with `--daemons start`");
}

/* ID of the process that holds RouDi's lock; 0 if unknown (other PID namespace). */
static inline long roudi_pid(void)
{
    struct stat lock;
    FILE *locks = fopen("/proc/locks", "re");
    long found = 0;
    if (locks != NULL && lstat(ROUDI_LOCK, &lock) == 0 && roudi_is_trusted(&lock)) {
        char line[256];
        while (found == 0 && fgets(line, sizeof line, locks) != NULL) {
            long pid = 0;
            unsigned major_number = 0;
            unsigned minor_number = 0;
            unsigned long inode = 0;
            if (sscanf(line, "%*d: FLOCK ADVISORY WRITE %ld %x:%x:%lu", &pid, &major_number, &minor_number, &inode) == 4
                && inode == lock.st_ino && makedev(major_number, minor_number) == lock.st_dev) {
                found = pid > 0 ? pid : 0;
            }
        }
    }
    if (locks != NULL) {
        fclose(locks);
    }
    return found;
}

/* Path, through /proc, of the configuration file in RouDi's command line; false if there is none. */
static inline bool roudi_config_path(long pid, char *path, size_t capacity)
{
    char proc[64];
    char line[4096];
    snprintf(proc, sizeof proc, "/proc/%ld/cmdline", pid);
    FILE *file = fopen(proc, "re");
    const size_t length = file != NULL ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    line[length] = '\0';
    const char *config = NULL;
    for (const char *argument = line; argument < line + length; argument += strlen(argument) + 1) {
        if (strcmp(argument, "-c") == 0 || strcmp(argument, "--config-file") == 0) {
            config = argument + strlen(argument) + 1;
        } else if (strncmp(argument, "-c", 2) == 0) {
            config = argument + 2;
        } else if (strncmp(argument, "--config-file=", 14) == 0) {
            config = argument + 14;
        }
    }
    if (config == NULL || config >= line + length) {
        return false;
    }
    const int written = config[0] == '/' ? snprintf(path, capacity, "%s", config)
                                         : snprintf(path, capacity, "/proc/%ld/cwd/%s", pid, config);
    return written > 0 && (size_t)written < capacity;
}

/* Largest payload of the running RouDi in bytes; 0 if unknown. */
static inline uint64_t roudi_largest_payload(void)
{
    char path[PATH_MAX];
    char line[256];
    uint64_t largest = 0;
    const long pid = roudi_pid();
    if (pid == 0) {
        return 0;
    }
    if (!roudi_config_path(pid, path, sizeof path)) {
        return access(ROUDI_SYSTEM_CONFIG, F_OK) == 0 ? 0 : ROUDI_BUILT_IN_LARGEST;
    }
    /* O_NONBLOCK: opening a FIFO would block. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat found;
    const bool is_file = descriptor >= 0 && fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
    FILE *file = is_file ? fdopen(descriptor, "r") : NULL;
    if (file == NULL && descriptor >= 0) {
        close(descriptor);
    }
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        uint64_t size = 0;
        if (sscanf(line, " size = %" SCNu64, &size) == 1 && size > largest) {
            largest = size;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return largest;
}

/* Error of a loan that no pool can serve. `largest` is 0 if unknown. */
static inline int32_t roudi_too_large(uint64_t payload_bytes, uint64_t largest, tm_error *error)
{
    char limit[64] = "the largest chunk";
    if (largest != 0) {
        snprintf(limit, sizeof limit, "%" PRIu64 " bytes, the largest chunk", largest);
    }
    return tm_fail(error, TM_LIMIT,
                   "payload of %" PRIu64 " bytes exceeds %s of the RouDi that is running; restart it with a "
                   "larger [[segment.mempool]] (`iox-roudi -c FILE`), or stop it and use `--daemons start`",
                   payload_bytes, limit);
}

static inline int32_t roudi_check_links(const roudi_need *need, tm_error *error)
{
    if (need->options->link_count > ROUDI_MAX_LINKS) {
        return tm_fail(error, TM_LIMIT, "%" PRIu32 " links exceed the %u that one RouDi has publishers for",
                       need->options->link_count, ROUDI_MAX_LINKS);
    }
    return TM_OK;
}

/* TM_OK if the running RouDi meets the requirements. Call before the runtime is initialised. */
static inline int32_t roudi_check_need(const roudi_need *need, tm_error *error)
{
    int32_t status = roudi_check_links(need, error);
    if (status == TM_OK) {
        status = roudi_check(error);
    }
    if (status == TM_OK) {
        const uint64_t largest = roudi_largest_payload();
        if (need->payload_bytes > (largest != 0 ? largest : ROUDI_LARGEST_PAYLOAD)) {
            status = roudi_too_large(need->payload_bytes, largest, error);
        }
    }
    return status;
}

/* Sizes of the pools below the largest, so that small messages do not use up large chunks. */
static const uint64_t roudi_pools[] = {256, 4096, 65536, 1u << 20};
#define ROUDI_POOL_COUNT (sizeof roudi_pools / sizeof roudi_pools[0])

/* Bytes of one chunk of each pool when the largest carries `payload` bytes. */
static inline uint64_t roudi_row_bytes(uint64_t payload)
{
    uint64_t row = payload + 8 + ROUDI_CHUNK_HEADER_BYTES;
    for (size_t i = 0; i < ROUDI_POOL_COUNT && roudi_pools[i] < payload; ++i) {
        row += roudi_pools[i] + ROUDI_CHUNK_HEADER_BYTES;
    }
    return row;
}

/* Free bytes of /dev/shm. */
static inline uint64_t roudi_shm_free_bytes(void)
{
    struct statvfs shm;
    return statvfs("/dev/shm", &shm) == 0 ? (uint64_t)shm.f_bavail * shm.f_frsize : 0;
}

/* Shared memory that RouDi may use for chunks, in bytes. */
static inline uint64_t roudi_free_bytes(void)
{
    const uint64_t available = roudi_shm_free_bytes();
    return available > ROUDI_MANAGEMENT_BYTES ? available - ROUDI_MANAGEMENT_BYTES : 0;
}

/* Largest payload that a RouDi started by us serves: the requested one, or RouDi's default of 4 MiB if that takes less
 * than half of the room, so that a later experiment can use the same RouDi. */
static inline uint64_t roudi_served_bytes(uint64_t payload)
{
    const uint64_t usual = UINT64_C(4) << 20;
    return payload < usual && 32 * roudi_row_bytes(usual) <= roudi_free_bytes() / 2 ? usual : payload;
}

static inline uint64_t roudi_at_least_1(uint32_t count)
{
    return count != 0 ? count : 1;
}

/* Fewest chunks for a ping-pong: in each direction one loaned, one queued, two held, and the last one sent; for each of
 * several followers one loaned, one queued, the last one sent, and one in reserve. */
static inline uint64_t roudi_fewest_chunks(const roudi_need *need)
{
    return roudi_at_least_1(need->options->link_count) * (8 + 4 * roudi_at_least_1(need->options->follower_count));
}

/* Fills `limits` from the running RouDi if `running`, else from the RouDi that we could start. */
static inline void roudi_limits(const roudi_need *need, bool running, tm_limits *limits)
{
    uint64_t largest = ROUDI_LARGEST_PAYLOAD;
    if (running) {
        const uint64_t known = roudi_largest_payload();
        largest = known != 0 && known < largest ? known : largest;
    } else {
        const uint64_t row = roudi_free_bytes() / roudi_fewest_chunks(need);
        const uint64_t small = roudi_row_bytes(ROUDI_LARGEST_PAYLOAD) - ROUDI_LARGEST_PAYLOAD;
        const uint64_t fits = row > small ? row - small : 0;
        largest = fits < largest ? fits : largest;
    }
    limits->max_payload_bytes = largest;
    limits->packet_bytes = 0;
}

/* Second half of the transport function `probe`, after it has read its options. */
static inline int32_t roudi_probe(const roudi_need *need, tm_limits *limits, tm_error *error)
{
    int32_t status = roudi_check_links(need, error);
    if (status == TM_OK) {
        status = roudi_check(error);
    }
    if (status == TM_OK || status == TM_NO_DAEMON) {
        roudi_limits(need, status == TM_OK, limits);
    }
    return status;
}

/* Chunks per pool: enough for full queues, but at most half a GiB if that suffices for a ping-pong, and at most the
 * free space of /dev/shm. RouDi writes all of it when it starts. */
static inline int32_t roudi_chunk_count(const roudi_need *need, uint64_t *count, tm_error *error)
{
    const uint64_t row = roudi_row_bytes(roudi_served_bytes(need->payload_bytes));
    const uint64_t fewest = roudi_fewest_chunks(need);
    const uint64_t available = roudi_free_bytes();
    uint64_t chunks = fewest + roudi_at_least_1(need->options->link_count) * need->queue_capacity;
    chunks = chunks > 32 ? chunks : 32;
    if (chunks * row > (UINT64_C(512) << 20)) {
        chunks = (UINT64_C(512) << 20) / row;
    }
    chunks = chunks > fewest ? chunks : fewest;
    if (chunks * row > available) {
        chunks = available / row;
    }
    if (need->payload_bytes > ROUDI_LARGEST_PAYLOAD || chunks < fewest) {
        return tm_fail(error, TM_LIMIT,
                       "payload of %" PRIu64 " bytes: RouDi needs %" PRIu64 " MiB of shared memory for it, and "
                       "/dev/shm has %" PRIu64 " MiB free; use smaller payloads or enlarge /dev/shm",
                       need->payload_bytes, (fewest * row + ROUDI_MANAGEMENT_BYTES) >> 20,
                       roudi_shm_free_bytes() >> 20);
    }
    *count = chunks;
    return TM_OK;
}

/* Writes RouDi's configuration; false with errno set if that fails. */
static inline bool roudi_write_config(const char *path, uint64_t payload, uint64_t chunks)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return false;
    }
    fprintf(file, "[general]\nversion = 1\n\n[[segment]]\n");
    for (size_t i = 0; i < ROUDI_POOL_COUNT && roudi_pools[i] < payload; ++i) {
        fprintf(file, "\n[[segment.mempool]]\nsize = %" PRIu64 "\ncount = %" PRIu64 "\n", roudi_pools[i], chunks);
    }
    fprintf(file, "\n[[segment.mempool]]\nsize = %" PRIu64 "\ncount = %" PRIu64 "\n", (payload + 7) / 8 * 8, chunks);
    const bool written = ferror(file) == 0;
    return fclose(file) == 0 && written;
}

/* Runs RouDi with the configuration $1 and cleans up after it. RouDi's monitoring of clients stays off: it declares a
 * client dead after 1.5 s without CPU time, and hangs at a lock that a killed client held. Without it, a killed client
 * makes RouDi abort at SIGTERM and leave its segments and sockets behind. They are removed under RouDi's own lock,
 * which another RouDi would hold. */
static const char roudi_script[] =
    "#!/bin/sh\n"
    /* Works even if no process can be started (exec), and no file opened (no 2>/dev/null). */
    "trap 'trap \"\" TERM INT HUP; exec 2>&-; kill -KILL \"$roudi\"; exec flock -w 10 -F " ROUDI_LOCK
    " rm -f /dev/shm/iceoryx_mgmt \"$2\" " ROUDI_SOCKET " " ROUDI_SOCKET ".lock " ROUDI_LOCK "' EXIT\n"
    "runs() { grep -qs ') [^Z]' \"/proc/$roudi/stat\"; }\n"
    /* The signal may arrive before RouDi is started, or before its process ID is stored. */
    "stop() {\n"
    "    trap '' TERM INT HUP\n"
    "    roudi=$!\n"
    "    [ \"$roudi\" ] || exit 143\n"
    "    kill -TERM \"$roudi\"\n"
    "    n=30\n"
    "    while runs && [ \"$n\" -gt 0 ]; do sleep 0.1; n=$((n - 1)); done\n"
    "    kill -KILL \"$roudi\"\n"
    "    wait \"$roudi\"\n"
    "    status=$?\n"
    "} 2>/dev/null\n"
    "status=\n"
    "trap stop TERM INT HUP\n"
    "setpriv --pdeathsig KILL iox-roudi -c \"$1\" -m off -l warning -k 1 &\n"
    "roudi=$!\n"
    "wait \"$roudi\"\n"
    "status=${status:-$?}\n"
    "trap '' TERM INT HUP\n"
    "roudi=\n"
    "[ \"$status\" = 0 ] ||\n"
    "    flock -n -F " ROUDI_LOCK " rm -f /dev/shm/iceoryx_mgmt \"$2\" " ROUDI_SOCKET " " ROUDI_SOCKET ".lock " ROUDI_LOCK "\n"
    "trap - EXIT\n"
    "exit \"$status\"\n";

static inline bool roudi_write_script(const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return false;
    }
    const bool written = fputs(roudi_script, file) >= 0;
    return fclose(file) == 0 && written;
}

/* Refuses a file of another user in the place of one of RouDi's, which would trust it, or fail at it. */
static inline int32_t roudi_check_name(const char *path, tm_error *error)
{
    struct stat found;
    if (lstat(path, &found) != 0) {
        return TM_OK;
    }
    if (!roudi_is_trusted(&found)) {
        return tm_fail(error, TM_UNAVAILABLE,
                       "'%s', which RouDi uses, is of user %ju, and RouDi is started only where it is this user's or root's; "
                       "have it removed",
                       path, (uintmax_t)found.st_uid);
    }
    if (!S_ISREG(found.st_mode)) {
        return tm_fail(error, TM_UNAVAILABLE, "'%s', which RouDi uses, is not a file; remove it", path);
    }
    return TM_OK;
}

/* Files that RouDi locks in /tmp. */
static const char *const roudi_locks[] = {ROUDI_LOCK, ROUDI_SOCKET ".lock"};

/* Path of RouDi's segment of chunks, named after the main group: RouDi ends if the group has no name. */
static inline int32_t roudi_segment(char *path, size_t capacity, tm_error *error)
{
    struct group group;
    struct group *own = NULL;
    char *buffer = NULL;
    int reason = ERANGE;
    /* Grows until the names of all members fit. */
    for (size_t size = 4096; reason == ERANGE && size <= ROUDI_GROUP_BYTES; size *= 2) {
        free(buffer);
        buffer = (char *)malloc(size);
        reason = buffer != NULL ? getgrgid_r(getegid(), &group, buffer, size, &own) : ENOMEM;
    }
    int32_t status = TM_OK;
    if (reason == 0 && own != NULL) {
        snprintf(path, capacity, "/dev/shm/%s", own->gr_name);
    } else {
        status = tm_fail(error, TM_UNAVAILABLE,
                         "RouDi's segment is called after the main group, and the name of group %ju is not known: %s; add "
                         "it to /etc/group, or run as another",
                         (uintmax_t)getegid(), reason == ERANGE || reason == ENOMEM ? strerror(reason) : "no such group");
    }
    free(buffer);
    return status;
}

/* Checks all file names of a RouDi before anything is created, except its socket, which is checked earlier. */
static inline int32_t roudi_check_names(const char *segment, tm_error *error)
{
    int32_t status = TM_OK;
    for (size_t i = 0; status == TM_OK && i < sizeof roudi_locks / sizeof *roudi_locks; ++i) {
        status = roudi_check_name(roudi_locks[i], error);
    }
    if (status == TM_OK) {
        status = roudi_check_name("/dev/shm/iceoryx_mgmt", error);
    }
    return status == TM_OK ? roudi_check_name(segment, error) : status;
}

/* Creates RouDi's lock files in /tmp before RouDi does, which would follow another user's link. In /tmp only their
 * owner can remove them. */
static inline int32_t roudi_make_locks(tm_error *error)
{
    for (size_t i = 0; i < sizeof roudi_locks / sizeof *roudi_locks; ++i) {
        const int lock = open(roudi_locks[i], O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        struct stat found;
        const int reason = errno;
        const bool is_ours = lock >= 0 && fstat(lock, &found) == 0 && S_ISREG(found.st_mode) && roudi_is_trusted(&found);
        if (lock >= 0) {
            close(lock);
        }
        if (!is_ours) {
            return tm_fail(error, TM_UNAVAILABLE, "'%s', which RouDi locks, is not this user's file (%s); remove it",
                           roudi_locks[i], lock >= 0 ? "it is of another user, or no file" : strerror(reason));
        }
    }
    return TM_OK;
}

/* Second half of the transport function `daemon_command`: `sh roudi.sh roudi.toml`, both in the scratch folder. */
static inline int32_t roudi_daemon_command(const roudi_need *need, tm_daemon_command *command, tm_error *error)
{
    const tm_str scratch = need->options->scratch_dir;
    uint64_t chunks = 0;
    char segment[256];
    char config[(sizeof command->arguments - sizeof segment) / 2 - 16];
    char script[sizeof config];
    int32_t status = roudi_check_links(need, error);
    if (status == TM_OK) {
        status = roudi_chunk_count(need, &chunks, error);
    }
    if (status == TM_OK) {
        status = roudi_segment(segment, sizeof segment, error);
    }
    if (status == TM_OK) {
        status = roudi_check_names(segment, error);
    }
    /* A command with a run ID is only a proposal; RouDi is started without one, for all runs. */
    if (status == TM_OK && need->options->run_id.length == 0) {
        status = roudi_make_locks(error);
    }
    if (status != TM_OK) {
        return status;
    }
    const int folder = (int)scratch.length;
    if (scratch.length > sizeof config - 16) {
        return tm_fail(error, TM_LIMIT, "scratch folder: the path has %d characters, over the limit of %zu", folder,
                       sizeof config - 16);
    }
    snprintf(config, sizeof config, "%.*s/roudi.toml", folder, scratch.data);
    snprintf(script, sizeof script, "%.*s/roudi.sh", folder, scratch.data);
    if (!roudi_write_config(config, roudi_served_bytes(need->payload_bytes), chunks) || !roudi_write_script(script)) {
        return tm_fail(error, TM_FAILED, "cannot write RouDi's configuration to '%.*s': %s", folder, scratch.data,
                       strerror(errno));
    }
    memset(command->arguments, 0, sizeof command->arguments);
    snprintf(command->program, sizeof command->program, "sh");
    snprintf(command->arguments, sizeof command->arguments, "%s%c%s%c%s", script, 0, config, 0, segment);
    return TM_OK;
}

/* Name under which a process joins iceoryx, also of its socket and lock in /tmp. */
static inline void iceoryx_runtime_name(const tm_node_options *options, char *buffer, size_t capacity)
{
    if (options->role == TM_LEADER) {
        snprintf(buffer, capacity, "%.*s-l", (int)options->run_id.length, options->run_id.data);
    } else {
        snprintf(buffer, capacity, "%.*s-f%" PRIu32, (int)options->run_id.length, options->run_id.data,
                 options->follower_index);
    }
}

typedef struct roudi_join_call {
    void (*init)(const char *name);
    char name[128];
} roudi_join_call;

static inline void *roudi_join_thread(void *argument)
{
    const roudi_join_call *call = (const roudi_join_call *)argument;
    call->init(call->name);
    return NULL;
}

/* Initialises the runtime by `init` in a thread of its own: if RouDi hangs, the call takes a minute and then ends the
 * process. On a time-out the thread is left behind, and the process should end. */
static inline int32_t roudi_join(const tm_node_options *options, void (*init)(const char *name), tm_error *error)
{
    pthread_t thread;
    struct timespec deadline;
    roudi_join_call *call = (roudi_join_call *)calloc(1, sizeof *call);
    if (call == NULL) {
        return tm_fail(error, TM_FAILED, "out of memory");
    }
    call->init = init;
    iceoryx_runtime_name(options, call->name, sizeof call->name);
    const int created = pthread_create(&thread, NULL, roudi_join_thread, call);
    if (created != 0) {
        free(call);
        return tm_fail(error, TM_FAILED, "cannot start a thread to join iceoryx: %s", strerror(created));
    }
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += ROUDI_JOIN_TIMEOUT_S;
    if (pthread_timedjoin_np(thread, NULL, &deadline) != 0) {
        pthread_detach(thread);
        return tm_fail(error, TM_FAILED,
                       "RouDi did not answer within %d s; it hangs for good if a client was killed at a bad "
                       "moment: restart it",
                       ROUDI_JOIN_TIMEOUT_S);
    }
    free(call);
    return TM_OK;
}

#endif /* TRIPMETER_ICEORYX_ROUDI_H */
