/*
 * A transport that works (AF_UNIX stream) until it makes the trouble set by `mode`, at the `side` and, for loan,
 * publish and take, after the number of messages in `after`. -DLOAD=... selects a fault at loading at compile time.
 */
#include "stream.h"

#include <signal.h>

#define LOADS 0
#define OTHER_ABI 1     /* another version of the interface */
#define NO_ENTRY 2      /* a shared library, but no transport */
#define NULL_FUNCTION 3 /* a function of the table is missing */
#define NULL_TABLE 4    /* the entry returns NULL */
#define SHORT_TABLE 5   /* an earlier, shorter table */
#define NO_VARIANT 6    /* describes nothing */
#define BAD_NAME 7      /* describes a variant with a name against the rules */
#define LATER_TABLE 9 /* a table with an entry that this header does not have */
#define NULL_VARIANTS 10 /* a list of its description is missing */
#define UNDECLARED 11    /* built with a header before `names` of settings */

#ifndef LOAD
#define LOAD LOADS
#endif

#if LOAD == UNDECLARED
#define NAMED(what) 0
#else
#define NAMED(what) what
#endif

/* With -DFAR=VERSION it claims to reach other hosts, and to be of that version. */
#ifdef FAR
#define VERSION FAR
#define CLAIMED_PATH TM_PATH_TCP
#define FLAGS TM_REMOTE
#else
#define VERSION "1.0.0"
#define CLAIMED_PATH TM_PATH_UNIX_STREAM
#define FLAGS 0
#endif

#if LOAD == BAD_NAME
#define VARIANT "Not A Name"
#else
#define VARIANT "stream"
#endif

#define LONGEST_HANG_NS ((uint64_t)600 * 1000000000u) /* so that no test leaves a process behind */

/* One process has one node. */
static struct {
    char mode[32];
    int here;
    uint64_t after;
    uint64_t taken; /* messages taken; published ones if nothing comes back */
    int one_way;
    int noises;
} trouble;

struct tm_link {
    stream socket;
};

/* Hangs, and creates the file named by TRIPMETER_TEST_HANGS, so that a test sees it. Meanwhile sends `said` to the
 * supervisor, unless it is NULL. */
static void hang(const char *said) {
    const char *sign = getenv("TRIPMETER_TEST_HANGS");
    FILE *file = sign ? fopen(sign, "w") : NULL;
    if (file) fclose(file);
    uint64_t start = tm_now_ns();
    while (tm_now_ns() - start < LONGEST_HANG_NS) {
        if (said) dprintf(STDIN_FILENO, "%s", said);
        usleep(200000);
    }
    abort();
}

/* Makes trouble if the mode is `<where>-<what>`. */
static int32_t trouble_at(const char *where, tm_error *error) {
    size_t length = strlen(where);
    if (!trouble.here || strncmp(trouble.mode, where, length) != 0 || trouble.mode[length] != '-') return TM_OK;
    const char *what = trouble.mode + length + 1;
    if (strcmp(what, "error") == 0)
        return tm_fail(error, TM_FAILED, "trouble on purpose in %s; choose another mode", where);
    if (strcmp(what, "mute") == 0) return TM_FAILED; /* an error without its text */
    if (strcmp(what, "garbage") == 0) {
        memset(error->text, 0xff, sizeof error->text); /* neither UTF-8 nor NUL-terminated */
        return TM_FAILED;
    }
    if (strcmp(what, "code") == 0) return -77; /* a status that the header does not know */
    if (strcmp(what, "odd") == 0) return 42;   /* unknown too, and not negative, so not an error */
    if (strcmp(what, "again") == 0) return TM_AGAIN;
    if (strcmp(what, "hang") == 0) hang(NULL);
    if (strcmp(what, "chatter") == 0)
        hang("{\"Progress\":{\"samples\":0,\"moves\":5}}\n{\"Phase\":\"measure 65536 bytes\"}\n"
             "{\"CellStarted\":{\"payload_bytes\":65536}}\n");
    if (strcmp(what, "crash") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(what, "exit") == 0) _exit(3);
    if (strcmp(what, "quit") == 0) _exit(70); /* like a failed process of ours, but without the message of the cause */
    if (strcmp(what, "junk") == 0 && trouble.noises++ == 0) dprintf(STDIN_FILENO, "junk from %s\n", where);
    if (strcmp(what, "broken") == 0) { /* like a leader that has reported the cause, and crashes before its end */
        dprintf(STDIN_FILENO, "{\"Broken\":\"it broke on purpose in %s\"}\n", where);
        raise(SIGSEGV);
    }
    if (strcmp(what, "throw") == 0) { /* like a C++ library whose exception nobody catches */
        fprintf(stderr, "terminate called after throwing an instance of 'trouble'\n  what():  no room in %s\n\n", where);
        abort();
    }
    if (strcmp(what, "flood") == 0 && trouble.noises++ == 0) { /* like a library that logs without limit */
        puts("first line");
        for (int line = 0; line < 100000; line++) printf("%0127d\n", line);
        puts("last line");
        fflush(stdout);
    }
    if (strcmp(what, "noise") == 0 && trouble.noises++ < 10) {
        printf("noise on stdout from %s\n", where);
        fflush(stdout);
    }
    return TM_OK;
}

static tm_str setting(const tm_node_options *options, const char *name) {
    const tm_str *given = tm_setting_of(options, name);
    return given ? *given : (tm_str)TM_STR("");
}

static int32_t read_settings(const tm_node_options *options, tm_error *error) {
    char side[16], after[24];
    int32_t status = copy_str(trouble.mode, sizeof trouble.mode, setting(options, "mode"), error);
    if (status == TM_OK) status = copy_str(side, sizeof side, setting(options, "side"), error);
    if (status == TM_OK) status = copy_str(after, sizeof after, setting(options, "after"), error);
    if (status != TM_OK) return status;
    const char *role = options->role == TM_LEADER ? "leader" : "follower";
    trouble.here = strcmp(side, "both") == 0 || strcmp(side, role) == 0;
    trouble.after = strtoull(after, NULL, 10);
    trouble.taken = 0;
    trouble.one_way = (options->pattern & (TM_PUBLISH | TM_THROUGHPUT)) && options->role == TM_LEADER;
    return TM_OK;
}

static int32_t probe(const tm_node_options *options, tm_limits *limits, tm_error *error) {
    int32_t status = read_settings(options, error);
    if (status == TM_OK) status = common_probe(options, limits, error);
    if (status == TM_OK && strcmp(trouble.mode, "limits-payload") == 0) limits->max_payload_bytes = UINT64_MAX;
    if (status == TM_OK && strcmp(trouble.mode, "limits-packet") == 0) limits->packet_bytes = UINT64_MAX;
    if (status == TM_OK && strcmp(trouble.mode, "limits-peers") == 0) limits->unauthorized_peers = UINT32_MAX;
    return status == TM_OK ? trouble_at("probe", error) : status;
}

/* Creates the file named by setting `makes`, so that a test sees that a node was opened with it. */
static int32_t make_file(const tm_node_options *options, tm_error *error) {
    char name[512];
    int32_t status = copy_str(name, sizeof name, setting(options, "makes"), error);
    if (status != TM_OK || name[0] == '\0') return status;
    FILE *file = fopen(name, "w");
    if (!file) return tm_fail_errno(error, "making the file of setting makes");
    fclose(file);
    return TM_OK;
}

static int32_t node_open(const tm_node_options *options, tm_node **node, tm_error *error) {
    int32_t status = read_settings(options, error);
    if (status == TM_OK) status = make_file(options, error);
    if (status == TM_OK) status = trouble_at("open", error);
    return status == TM_OK ? common_node_open(options, node, error) : status;
}

static void node_close(tm_node *node) {
    tm_error unheard;
    trouble_at("close", &unheard);
    free(node);
}

static void link_close(tm_link *link) {
    stream_close(&link->socket);
    free(link);
}

static int32_t link_open(tm_node *node, const tm_link_options *options, tm_link **out, tm_error *error) {
    int32_t status = trouble_at("link", error);
    if (status != TM_OK) return status;
    tm_link *link = calloc(1, sizeof *link);
    if (!link) return tm_fail(error, TM_FAILED, "no memory for a link");
    status = stream_open(&link->socket, node, AF_UNIX, options->index, error);
    if (status == TM_OK)
        *out = link;
    else
        link_close(link);
    return status;
}

static int32_t link_address(tm_link *link, uint8_t *buffer, size_t capacity, size_t *length, tm_error *error) {
    return stream_address(&link->socket, buffer, capacity, length, error);
}

static int32_t link_connect(tm_link *link, const tm_bytes *peers, size_t peer_count, uint64_t timeout_ns,
                            tm_error *error) {
    int32_t status = trouble_at("connect", error);
    return status == TM_OK ? stream_connect(&link->socket, peers, peer_count, timeout_ns, error) : status;
}

static int32_t loan(tm_link *link, size_t length, const tm_message *in_reply_to, tm_loan *loan, tm_error *error) {
    (void)in_reply_to;
    int32_t status = trouble.taken >= trouble.after ? trouble_at("loan", error) : TM_OK;
    if (status == TM_OK) status = stream_loan(&link->socket, length, loan, error);
    if (strcmp(trouble.mode, "loan-null") == 0) loan->data = NULL;
    if (strcmp(trouble.mode, "loan-short") == 0) loan->length--;
    if (strcmp(trouble.mode, "loan-misaligned") == 0) loan->data++;
    return status;
}

static int32_t publish(tm_link *link, tm_loan *loan, uint64_t timeout_ns, tm_error *error) {
    int32_t status = trouble.taken >= trouble.after ? trouble_at("publish", error) : TM_OK;
    if (trouble.one_way) trouble.taken++;
    return status == TM_OK ? stream_publish(&link->socket, loan, timeout_ns, error) : status;
}

static void discard(tm_link *link, tm_loan *loan) {
    (void)link;
    (void)loan;
}

static int32_t take(tm_link *link, uint64_t timeout_ns, tm_message *message, tm_error *error) {
    int32_t status = trouble.taken >= trouble.after ? trouble_at("take", error) : TM_OK;
    if (status == TM_OK) status = stream_take(&link->socket, timeout_ns, message, error);
    if (status == TM_OK) trouble.taken++;
    if (status == TM_OK && trouble.here && strcmp(trouble.mode, "take-null") == 0) message->data = NULL;
    if (status == TM_OK && trouble.here && strcmp(trouble.mode, "take-short") == 0) message->length--;
    return status;
}

static void release(tm_link *link, tm_message *message) {
    (void)link;
    stream_release(message);
}

static const tm_variant variants[] = {{
    .name = TM_STR(VARIANT),
    .summary = TM_STR("AF_UNIX stream, with trouble on request"),
    .path = CLAIMED_PATH,
    .flags = FLAGS,
    .patterns = TM_PING | TM_PUBLISH | TM_CALL | TM_THROUGHPUT,
    .waits = TM_POLL | TM_BLOCK,
}};

static const tm_setting settings[] = {
    {.name = TM_STR("mode"),
     .default_value = TM_STR("none"),
     .values = TM_STR("none | (probe | open | link | connect | loan | publish | take | close)-"
                      "(error | mute | garbage | code | odd | again | hang | chatter | crash | exit | throw | junk | broken | flood | noise), "
                      "loan-(null | short | misaligned), take-(null | short), limits-(payload | packet | peers)"),
     .summary = TM_STR("which call makes which trouble"),
     .names = NAMED(TM_NAMES_NOTHING)},
    {.name = TM_STR("side"),
     .default_value = TM_STR("both"),
     .values = TM_STR("leader | follower | both"),
     .summary = TM_STR("where"),
     .names = NAMED(TM_NAMES_NOTHING)},
    {.name = TM_STR("after"),
     .default_value = TM_STR("0"),
     .values = TM_STR("messages taken by this side"),
     .summary = TM_STR("when, for loan, publish and take"),
     .names = NAMED(TM_NAMES_NOTHING)},
    {.name = TM_STR("makes"),
     .default_value = TM_STR(""),
     .values = TM_STR("file"),
     .summary = TM_STR("made by every node that opens"),
     .names = NAMED(TM_NAMES_FILE)},
    {.name = TM_STR("host"),
     .default_value = TM_STR("own"),
     .values = TM_STR("own | address"),
     .summary = TM_STR("stands for an address, and nothing is sent there"),
     .names = NAMED(TM_NAMES_HOST)},
};

static const tm_description description = {
    .struct_size = sizeof(tm_description),
    .system = TM_STR("trouble"),
    .summary = TM_STR("fails on request"),
    .version = TM_STR(VERSION),
    .system_version = TM_STR("none"),
    .variants = LOAD == NULL_VARIANTS ? NULL : variants,
    .variant_count = LOAD == NO_VARIANT ? 0 : 1,
    .settings = settings,
    .setting_count = TM_COUNT(settings),
};

static const struct {
    tm_transport table;
    void (*appended)(void);
} whole = {.table = {
    .abi_version = LOAD == OTHER_ABI ? TM_ABI_VERSION + 1 : TM_ABI_VERSION,
    .struct_size = LOAD == SHORT_TABLE   ? sizeof(tm_transport) / 2
                   : LOAD == LATER_TABLE ? sizeof whole
                                         : sizeof(tm_transport),
    .description = &description,
    .probe = probe,
    .node_open = node_open,
    .node_close = node_close,
    .link_open = link_open,
    .link_address = link_address,
    .link_connect = link_connect,
    .link_close = link_close,
    .loan = loan,
    .publish = publish,
    .discard = discard,
    .take = LOAD == NULL_FUNCTION ? NULL : take,
    .release = release,
}};

#if LOAD == NO_ENTRY
const tm_transport *some_other_entry(void);
const tm_transport *some_other_entry(void) { return &whole.table; }
#else
const tm_transport *tripmeter_transport(void) { return LOAD == NULL_TABLE ? NULL : &whole.table; }
#endif
