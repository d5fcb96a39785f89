/*
 * tripmeter_transport.h: the boundary between Tripmeter and a transport.
 *
 * A transport is a shared library named `tripmeter_<system>.so` that exports one function,
 *
 *     const tm_transport *tripmeter_transport(void);
 *
 * which returns a table that lives as long as the library. The host owns the measuring loop, the clock and all files; a
 * transport moves one message at a time and never stamps, loops over messages or writes results.
 *
 * Life of a node (one per process and sub-experiment):
 *
 *     probe -> node_open -> link_open (1 to N) -> link_address -> link_connect
 *           -> { loan, publish | discard, take, release }* -> link_close -> node_close
 *
 * Between link_address and link_connect the host sends the address of every link to its peers, over its own connection.
 *
 * Threads: one thread opens a node, opens and connects its links, and closes both, links first. In between, loan, publish,
 * discard, take and release of a link are called by one thread at a time, which may be another one; different links may be
 * used by different threads at once. When a link is closed, no thread is in any of its functions.
 *
 * Callbacks: a thread of the system calls `on_message`. Inside it the host may call loan, publish and discard, on the
 * link that delivers and on any other link of the same node. The message stays valid until on_message returns, whatever
 * is published meanwhile. The host's own thread may publish on the same link; on_message then waits until that call has
 * returned. So publish must not wait for the delivering thread: if only that thread can make room, it returns TM_AGAIN,
 * inside on_message at once. link_close returns when on_message is not running and will not be called again.
 *
 * Errors: a function that returns int32_t returns a TM_* status. On a negative status it has written one line to
 * `error->text` (UTF-8, NUL-terminated, cut to fit): what failed, value against limit, what to do. `error` is never NULL.
 * No exception and no signal may leave a function. The host ignores SIGPIPE, so that a write to a peer that has gone is an
 * error like any other.
 *
 * Inside the measured window (loan, publish, take, release) a transport adds no allocation, lock, log or system call of
 * its own to what the system does by itself.
 *
 * Versions: tables and option blocks only ever grow at their end. `struct_size` is the size of a block as its writer
 * was compiled. The host refuses a table whose `abi_version` is not its own; entries beyond the end of a shorter table
 * count as NULL.
 *
 * C11 and C++11 clean. All strings are UTF-8, pointer and length, not NUL-terminated unless said otherwise.
 */
#ifndef TRIPMETER_TRANSPORT_H
#define TRIPMETER_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TM_ABI_VERSION 1u

/* Status of a call. Errors are negative. */
#define TM_OK 0
#define TM_AGAIN 1        /* no message yet, or would block; no error text is written */
#define TM_CLOSED -1      /* the peer has gone */
#define TM_UNAVAILABLE -2 /* a library, device or kernel facility is missing */
#define TM_NO_DAEMON -3   /* the system's daemon or broker is not running */
#define TM_LIMIT -4       /* a value exceeds a limit */
#define TM_INVALID -5     /* a setting or an argument is not understood */
#define TM_FAILED -6      /* anything else */

/* Folder in scratch_dir for files that the leader writes for all processes, e.g. addresses and credentials. No
 * subfolders; file names consist of letters, digits, `.`, `_` and `-`. */
#define TM_AGREED "agreed"

/* Role of a process. */
#define TM_LEADER 1u   /* drives and records; publisher or client */
#define TM_FOLLOWER 2u /* answers; subscriber or server */

/* Patterns (bits). Messages over a link:
 *   ping        both ways, one message at a time over each link, each answered by the follower with a message of the same
 *               size; one link per client
 *   publish     leader to follower only, at a fixed rate, one link per topic; with several publishers (TM_PUBLISHERS) the
 *               leader has one link per publisher, all on one topic, and the follower one link that receives from all
 *   call        both ways; the follower's loan names the request it answers (`in_reply_to`), one link per client
 *   throughput  leader to follower only, as fast as it will go, with links as under publish
 *   log         publish only; there is no follower. Every publish logs its message, a printable text without line breaks,
 *               as one line that ends with the text and a line break; the system may put a prefix before the text.
 *               Lines go to the file `log` in scratch_dir: with TM_PATH_FILE the leader creates it; with TM_PATH_PIPE
 *               it is a FIFO that the host has created and reads. link_connect gets no peer; link_close flushes
 *               and closes the file. The host opens a new node for each payload. */
#define TM_PING (1u << 0)
#define TM_PUBLISH (1u << 1)
#define TM_CALL (1u << 2)
#define TM_THROUGHPUT (1u << 3)
#define TM_LOG (1u << 4)

/* Ways to wait (bits).
 *   poll      take returns at once, TM_AGAIN if there is nothing
 *   block     take sleeps until a message or the time-out. A system without a time-out may simply make a blocking call,
 *             if it declares TM_INTERRUPT
 *   callback  on_message is called in the system's own thread; take is not used */
#define TM_POLL (1u << 0)
#define TM_BLOCK (1u << 1)
#define TM_CALLBACK (1u << 2)

/* Flags of a variant. */
#define TM_ZERO_COPY (1u << 0)    /* a loan is shared with the receiver: both see the same memory */
#define TM_LOSSY (1u << 1)        /* a message may be lost without an error */
#define TM_REMOTE (1u << 2)       /* can cross hosts: listening sockets are bound to local_address if it is set, and
                                   * the addresses of the node's links contain it */
#define TM_SECURE (1u << 3)       /* can authenticate or encrypt */
#define TM_SAME_PROCESS (1u << 4) /* leader and follower must be two threads of one process */
#define TM_OWN_THREADS (1u << 5)  /* delivery depends on threads of the system, which must not be pinned with ours */
#define TM_FAN_OUT (1u << 6)      /* one link reaches several followers: a message of the leader goes to all, and it
                                   * receives from all. link_connect returns when all are connected */
#define TM_INTERRUPT (1u << 7)    /* under block, calls have no time-out of their own: the host interrupts an overdue one
                                   * with SIGUSR2 in the calling thread; EINTR is then reported as TM_AGAIN. No other
                                   * thread gets signals from the host */
#define TM_PUBLISHERS (1u << 8)   /* under publish and throughput, several links of the leader may publish on one topic,
                                   * and one link of the follower receives from all: see publisher_count */
#define TM_BROKER (1u << 9)       /* with TM_PATH_TCP: messages go through a third process, to which both sides
                                   * connect at one address; the host finds out which process it is */

/* Unauthorized peers (bits) that a secured transport must refuse; `tm_limits.unauthorized_peers` declares them. While
 * the true pair is connected, the host starts one more process for each of the first two bits. It gets the same
 * options, with `tm_node_options.unauthorized_peer` set, and the link address of the true peer that it contacts. The
 * path proof holds only if its node_open or link_connect fails with TM_FAILED or TM_CLOSED, by itself or after the
 * time-out. That time-out is at least 2 s, and at least three times as long as the true pair took. With any other
 * status, or if that process crashes or hangs, nothing is proven. The attempt must not disturb the true pair, which
 * gets no calls. */
#define TM_UNAUTHORIZED_PLAIN 1u   /* a peer without security */
#define TM_UNAUTHORIZED_FOREIGN 2u /* a peer whose credentials another authority issued */
#define TM_UNAUTHORIZED_LEADS 4u   /* the unauthorized peer acts as the leader; without this bit, as the follower */

/* Path of the payload: a claim that the host checks against the operating system. */
#define TM_PATH_OTHER 0u
#define TM_PATH_MEMORY 1u /* memory of one process (TM_SAME_PROCESS) */
#define TM_PATH_SHARED_MEMORY 2u
#define TM_PATH_UNIX_STREAM 3u
#define TM_PATH_UNIX_DATAGRAM 4u
#define TM_PATH_UNIX_SEQPACKET 5u
#define TM_PATH_MESSAGE_QUEUE 6u
#define TM_PATH_PIPE 7u
#define TM_PATH_TCP 8u
#define TM_PATH_UDP 9u
#define TM_PATH_FILE 10u

/* Kind of object outside the process that the value of a setting names. A setting that names a file or a host is not
 * taken from a results folder, which may come from somebody else: the user must give it again. The same holds for 0
 * (transports older than these constants) and unknown numbers, unless the value is the default. */
#define TM_NAMES_NOTHING 1u
#define TM_NAMES_FILE 2u /* a file or folder that is read or written */
#define TM_NAMES_HOST 3u /* a network peer: an address, a port, a domain */

typedef struct tm_str {
    const char *data;
    size_t length;
} tm_str;

/* A string literal as tm_str, usable in static initialisers. */
#define TM_STR(literal) { (literal), sizeof(literal) - 1 }

typedef struct tm_bytes {
    const uint8_t *data;
    size_t length;
} tm_bytes;

typedef struct tm_error {
    char text[512];
} tm_error;

/* Variant of a system: `datagram` in `uds/datagram`. */
typedef struct tm_variant {
    tm_str name;    /* [a-z0-9-]+ */
    tm_str summary; /* one line */
    uint32_t path;  /* TM_PATH_* */
    uint32_t patterns;
    uint32_t waits;
    uint32_t flags;
    uint64_t reserved[4];
} tm_variant;

/* One setting, given as `?name=value` behind a transport. */
typedef struct tm_setting {
    tm_str name;          /* [a-z0-9_]+ */
    tm_str default_value;
    tm_str values;        /* allowed values, as text: "on | off", "bytes, 64 to 212960" */
    tm_str summary;
    uint64_t names; /* TM_NAMES_*; 0 from older transports, for which it was reserved */
    uint64_t reserved[3];
} tm_setting;

/* Description of a transport. Valid as long as the library is loaded; needs no daemon and no device. Each text has at
 * most 4096 bytes, each list at most 256 entries. Names of variants are unique, and so are names of settings. */
typedef struct tm_description {
    uint32_t struct_size;
    uint32_t reserved;
    tm_str system;         /* [a-z0-9-]+, the name before the slash */
    tm_str summary;        /* one line */
    tm_str version;        /* of the transport itself */
    tm_str system_version; /* of the library or kernel it drives, as found at run time */
    const tm_variant *variants; /* the first is the default */
    size_t variant_count;
    const tm_setting *settings;
    size_t setting_count;
    /* Name of the daemon it needs, e.g. "iox-roudi", without a slash and of at most 100 bytes; empty if none. Equal names
     * share one daemon. */
    tm_str daemon;
} tm_description;

typedef struct tm_key_value {
    tm_str key;
    tm_str value;
} tm_key_value;

/* Options of a node. Pointers are valid during the call only. */
typedef struct tm_node_options {
    uint32_t struct_size;
    uint32_t role;    /* TM_LEADER or TM_FOLLOWER */
    uint32_t pattern; /* one bit */
    uint32_t wait;    /* one bit */
    tm_str variant;
    const tm_key_value *settings; /* every setting of the description, defaults filled in */
    size_t setting_count;
    /* Unique on this host, [a-z0-9-], at most 48 characters. Every name that the node creates outside scratch_dir
     * (shared memory, queue, topic, domain) begins with it, so that the host can remove what a killed process left. `probe`
     * and `daemon_command` may be called with an empty one. */
    tm_str run_id;
    /* Folder for sockets, FIFOs and generated files; removed by the host. Followers on other hosts have their own;
     * between the leader's node_open and theirs, its folder TM_AGREED (1 MiB at most) is copied to them. */
    tm_str scratch_dir;
    uint64_t max_payload_bytes; /* the largest message that will be loaned */
    uint32_t link_count;
    uint32_t follower_count;
    uint32_t follower_index; /* 0-based; 0 for the leader */
    /* 0, or TM_UNAUTHORIZED_PLAIN or TM_UNAUTHORIZED_FOREIGN: this node acts as that peer, with the domain, topic and
     * addresses of a true node. It must not change files in scratch_dir that the true pair uses. */
    uint32_t unauthorized_peer;
    /* Number of the leader's links that publish on one topic; the follower's only link receives from all. Above 1 only
     * under publish and throughput with TM_PUBLISHERS; then link_count is the same number at the leader and 1 at the
     * follower. The follower's link_connect gets the addresses of the leader's links, by index; each of the leader's
     * links gets the follower's address. The host connects the leader's links one after the other while the follower is
     * in its one call, and then publishes from one thread per link. Never mix messages of two publishers. Appended
     * after the first release of this header: a transport that does not know this field does not set TM_PUBLISHERS. */
    uint32_t publisher_count;
    uint32_t reserved;
    /* Numeric IPv4 or IPv6 address of the interface that peers on other hosts reach: bind listening sockets to it and
     * to nothing else. Empty if all peers are on this host: bind to the loopback. Only set for a variant with
     * TM_REMOTE. Appended after publisher_count: a transport that does not know this field does not set TM_REMOTE. */
    tm_str local_address;
} tm_node_options;

/* Limits of a variant on this machine with these settings; both byte counts are at most 2^53. */
typedef struct tm_limits {
    uint32_t struct_size;
    uint32_t unauthorized_peers;         /* TM_UNAUTHORIZED_* of a secured transport; 0: not secured with these settings */
    uint64_t max_payload_bytes; /* largest message */
    uint64_t packet_bytes;      /* most bytes per system send; a larger message is split. 0: never split */
} tm_limits;

/* A message being written. `data` is not NULL and is aligned to 8 bytes at least; `length` is the requested length.
 * Otherwise the host fails the run and writes nothing. */
typedef struct tm_loan {
    uint8_t *data;
    size_t length;
    void *token; /* for the transport's own use */
} tm_loan;

/* A message received by reference; valid until release, in a callback until its return. `data` may have any alignment,
 * since the host reads bytes; it is never NULL, not even if `length` is 0. Otherwise the host fails the run and reads
 * nothing. */
typedef struct tm_message {
    const uint8_t *data;
    size_t length;
    void *token; /* for the transport's own use */
} tm_message;

typedef struct tm_node tm_node;
typedef struct tm_link tm_link;

/* Called once per message, in the system's own thread; must be called by one thread at a time per link. `message` is not NULL
 * and is aligned as its type. */
typedef void (*tm_on_message)(void *context, const tm_message *message);

typedef struct tm_link_options {
    uint32_t struct_size;
    uint32_t index; /* 0-based index of the topic, client or publisher */
    tm_on_message on_message; /* with wait callback; else NULL */
    void *context;
} tm_link_options;

/* How to start the system's daemon for these options. The host starts, watches and stops it. */
typedef struct tm_daemon_command {
    uint32_t struct_size;
    uint32_t reserved;
    char program[256];    /* looked up in PATH; NUL-terminated */
    char arguments[2048]; /* each NUL-terminated, the list ends with an empty one */
} tm_daemon_command;

typedef struct tm_transport {
    uint32_t abi_version; /* TM_ABI_VERSION */
    uint32_t struct_size; /* sizeof(tm_transport) as compiled */
    const tm_description *description;

    /* Checks that this variant with these settings can run here. Starts nothing and blocks for less than a second.
     * `limits` is filled on TM_OK and on TM_NO_DAEMON. Other errors: TM_UNAVAILABLE, TM_LIMIT, TM_INVALID. */
    int32_t (*probe)(const tm_node_options *options, tm_limits *limits, tm_error *error);

    /* NULL without a daemon. Writes the command line, and configuration files below scratch_dir if needed. `run_id` is
     * empty if the host starts the daemon now, for more than one run; otherwise the host only checks that it could. */
    int32_t (*daemon_command)(const tm_node_options *options, tm_daemon_command *command, tm_error *error);

    /* Joins the system. May block until its own time-out, at most 30 s. */
    int32_t (*node_open)(const tm_node_options *options, tm_node **node, tm_error *error);
    /* Leaves the system and frees everything; all links are already closed. */
    void (*node_close)(tm_node *node);

    int32_t (*link_open)(tm_node *node, const tm_link_options *options, tm_link **link, tm_error *error);
    /* The address that a peer needs, if any: opaque, at most `capacity` bytes, 0 allowed. */
    int32_t (*link_address)(tm_link *link, uint8_t *buffer, size_t capacity, size_t *length, tm_error *error);
    /* Completes the connection; TM_FAILED after the time-out. A follower gets one peer, the leader's link of the same
     * index, or with several publishers one for each; the leader gets one per follower. Both sides are in this call at
     * the same time. */
    int32_t (*link_connect)(tm_link *link, const tm_bytes *peers, size_t peer_count, uint64_t timeout_ns,
                            tm_error *error);
    void (*link_close)(tm_link *link);

    /* A buffer for one message of exactly `length` bytes, contents undefined. `in_reply_to` is NULL except under call at
     * the follower. At most one loan per link is open at a time. */
    int32_t (*loan)(tm_link *link, size_t length, const tm_message *in_reply_to, tm_loan *loan, tm_error *error);
    /* Sends a loan and takes it back, whatever the status. TM_AGAIN: nothing was sent within the time-out. A message
     * that was sent only in part is TM_FAILED, and the link is then unusable. */
    int32_t (*publish)(tm_link *link, tm_loan *loan, uint64_t timeout_ns, tm_error *error);
    /* Takes a loan back unsent. */
    void (*discard)(tm_link *link, tm_loan *loan);
    /* The next message, by reference. TM_AGAIN after the time-out (block), at once (poll), or earlier. The host
     * releases a message before it takes the next one. */
    int32_t (*take)(tm_link *link, uint64_t timeout_ns, tm_message *message, tm_error *error);
    void (*release)(tm_link *link, tm_message *message);
} tm_transport;

/* The one exported function. Never NULL. */
const tm_transport *tripmeter_transport(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TRIPMETER_TRANSPORT_H */
