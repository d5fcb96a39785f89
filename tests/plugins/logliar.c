/*
 * Honest loggers, and some that make false claims, named `<claim>-over-<truth>`. The host's proof of the path must
 * detect each false claim, and accept the honest loggers.
 */
#include "common.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIANT(text, claim)                                                                                          \
    {.name = TM_STR(text),                                                                                            \
     .summary = TM_STR("for tests of the proof of the path"),                                                         \
     .path = claim,                                                                                                   \
     .patterns = TM_LOG,                                                                                              \
     .waits = TM_BLOCK}

static const tm_variant variants[] = {
    VARIANT("honest-file", TM_PATH_FILE),          VARIANT("honest-pipe", TM_PATH_PIPE),
    VARIANT("file-over-nothing", TM_PATH_FILE),    VARIANT("file-over-another", TM_PATH_FILE),
    VARIANT("file-over-half", TM_PATH_FILE),       VARIANT("pipe-over-nothing", TM_PATH_PIPE),
    VARIANT("pipe-over-file", TM_PATH_PIPE),
};

struct tm_link {
    int file;
    int drops_half;
    uint64_t count;
    size_t room;
    char *line;
};

static void link_close(tm_link *link) {
    if (link->file >= 0) close(link->file);
    free(link->line);
    free(link);
}

static int open_log(const tm_node *node) {
    char path[600];
    snprintf(path, sizeof path, "%s/log", node->scratch_dir);
    if (strcmp(node->variant, "pipe-over-file") == 0) unlink(path);
    if (strcmp(node->variant, "file-over-another") == 0) snprintf(path, sizeof path, "%s/other", node->scratch_dir);
    if (strstr(node->variant, "over-nothing")) snprintf(path, sizeof path, "/dev/null");
    return open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
}

static int32_t link_open(tm_node *node, const tm_link_options *options, tm_link **out, tm_error *error) {
    (void)options;
    tm_link *link = calloc(1, sizeof *link);
    if (!link) return tm_fail(error, TM_FAILED, "no memory for a link");
    link->room = node->max_payload_bytes;
    link->line = malloc(link->room + 1);
    link->file = open_log(node);
    link->drops_half = strstr(node->variant, "over-half") != NULL;
    if (!link->line || link->file < 0) {
        int32_t status = tm_fail_errno(error, "opening the log");
        link_close(link);
        return status;
    }
    *out = link;
    return TM_OK;
}

static int32_t link_connect(tm_link *link, const tm_bytes *peers, size_t peer_count, uint64_t timeout_ns,
                            tm_error *error) {
    (void)link, (void)peers, (void)peer_count, (void)timeout_ns, (void)error;
    return TM_OK;
}

static int32_t loan(tm_link *link, size_t length, const tm_message *in_reply_to, tm_loan *loan, tm_error *error) {
    (void)in_reply_to;
    if (length > link->room) return tm_fail(error, TM_LIMIT, "a text of %zu bytes, %zu at most", length, link->room);
    *loan = (tm_loan){.data = (uint8_t *)link->line, .length = length};
    return TM_OK;
}

static int32_t publish(tm_link *link, tm_loan *loan, uint64_t timeout_ns, tm_error *error) {
    (void)timeout_ns;
    if (link->count++ % 2 && link->drops_half) return TM_OK;
    link->line[loan->length] = '\n';
    size_t left = loan->length + 1;
    for (const char *rest = link->line; left > 0;) {
        ssize_t written = write(link->file, rest, left);
        if (written < 0) return tm_fail_errno(error, "write");
        rest += written;
        left -= (size_t)written;
    }
    return TM_OK;
}

static void discard(tm_link *link, tm_loan *loan) { (void)link, (void)loan; }

static int32_t take(tm_link *link, uint64_t timeout_ns, tm_message *message, tm_error *error) {
    (void)link, (void)timeout_ns, (void)message;
    return tm_fail(error, TM_INVALID, "a logger receives nothing");
}

static void release(tm_link *link, tm_message *message) { (void)link, (void)message; }

static int32_t probe(const tm_node_options *options, tm_limits *limits, tm_error *error) {
    return common_probe(options, limits, error);
}

static int32_t node_open(const tm_node_options *options, tm_node **node, tm_error *error) {
    return common_node_open(options, node, error);
}

static void node_close(tm_node *node) { free(node); }

static const tm_description description = {
    .struct_size = sizeof(tm_description),
    .system = TM_STR("logliar"),
    .summary = TM_STR("claims one way of logging and takes another"),
    .version = TM_STR("1.0.0"),
    .system_version = TM_STR("none"),
    .variants = variants,
    .variant_count = TM_COUNT(variants),
};

static const tm_transport table = TM_TRANSPORT(&description, tm_no_address, NULL);

const tm_transport *tripmeter_transport(void) { return &table; }
