/*
 * A plugin that works like the true one beside it, until the fault in TRIPMETER_FAULT: `WHAT:SIDE:NUMBER`, at the
 * leader or the follower, from message NUMBER on, counted over those that this side publishes or takes. When the fault
 * occurs, it creates the file named by TRIPMETER_FAULT_MARK. Leader and follower may be nodes of one process.
 *
 *   crash     ends by SIGSEGV in publish
 *   hang      does not return from publish
 *   length    take reports a message that is longer than it is
 *   short     take reports a message that is one byte shorter than it is
 *   loan      loan returns less room than requested
 *   outside   publish writes 64 bytes past the loan
 */
#include "around.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define MOST_BYTES_BEHIND 64
#define LONGEST_HANG_S 600 /* so that no test leaves a process behind */
#define MOST_LINKS 64

static struct {
    char what[16];
    int side;
    unsigned long from;
    atomic_ulong published, taken;
    /* Node and links of the faulty side. */
    _Atomic(tm_node *) node;
    _Atomic(tm_link *) links[MOST_LINKS];
} fault;

static void read_fault(void)
{
    char side[16] = "";
    const char *const text = getenv("TRIPMETER_FAULT");
    if (text == NULL || sscanf(text, "%15[a-z]:%15[a-z]:%lu", fault.what, side, &fault.from) != 3) {
        fault.what[0] = '\0';
    }
    fault.side = strcmp(side, "leader") == 0 ? TM_LEADER : TM_FOLLOWER;
}

static bool is_here(const tm_link *link)
{
    for (size_t i = 0; i < MOST_LINKS; i++) {
        if (fault.links[i] == link) {
            return true;
        }
    }
    return false;
}

static bool is_on(const char *what, unsigned long messages)
{
    return messages >= fault.from && strcmp(fault.what, what) == 0;
}

/* Creates the mark file, so that a test sees that the fault occurs. */
static void mark(void)
{
    const char *const file = getenv("TRIPMETER_FAULT_MARK");
    const int opened = file != NULL ? open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0666) : -1;
    if (opened >= 0) {
        close(opened);
    }
}

static int32_t node_open(const tm_node_options *options, tm_node **node, tm_error *error)
{
    const int32_t status = truth->node_open(options, node, error);
    if (status == TM_OK && (int)options->role == fault.side) {
        fault.node = *node;
    }
    return status;
}

static int32_t link_open(tm_node *node, const tm_link_options *options, tm_link **link, tm_error *error)
{
    const int32_t status = truth->link_open(node, options, link, error);
    for (size_t i = 0; status == TM_OK && node == fault.node && i < MOST_LINKS; i++) {
        if (fault.links[i] == NULL) {
            fault.links[i] = *link;
            break;
        }
    }
    return status;
}

static void link_close(tm_link *link)
{
    for (size_t i = 0; i < MOST_LINKS; i++) {
        if (fault.links[i] == link) {
            fault.links[i] = NULL;
        }
    }
    truth->link_close(link);
}

static int32_t loan(tm_link *link, size_t length, const tm_message *in_reply_to, tm_loan *loan, tm_error *error)
{
    const int32_t status = truth->loan(link, length, in_reply_to, loan, error);
    if (status == TM_OK && is_here(link) && is_on("loan", fault.published)) {
        mark();
        loan->length -= 1;
    }
    return status;
}

static int32_t publish(tm_link *link, tm_loan *loan, uint64_t timeout_ns, tm_error *error)
{
    const bool here = is_here(link);
    if (here) {
        fault.published += 1;
    }
    if (here && is_on("crash", fault.published)) {
        mark();
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (here && is_on("hang", fault.published)) {
        mark();
        const struct timespec longest = {.tv_sec = LONGEST_HANG_S};
        nanosleep(&longest, NULL);
        abort();
    }
    if (here && is_on("outside", fault.published)) {
        mark();
        memset(loan->data + loan->length, 0xA5, MOST_BYTES_BEHIND);
    }
    return truth->publish(link, loan, timeout_ns, error);
}

static int32_t take(tm_link *link, uint64_t timeout_ns, tm_message *message, tm_error *error)
{
    const int32_t status = truth->take(link, timeout_ns, message, error);
    if (status == TM_OK && is_here(link)) {
        fault.taken += 1;
        if (is_on("length", fault.taken)) {
            mark();
            message->length += (size_t)1 << 40;
        }
        if (is_on("short", fault.taken) && message->length > 0) {
            mark();
            message->length -= 1;
        }
    }
    return status;
}

const tm_transport *tripmeter_transport(void)
{
    static tm_transport table;
    truth = load();
    if (truth == NULL) {
        return NULL;
    }
    read_fault();
    table = *truth;
    table.node_open = node_open;
    table.link_open = link_open;
    table.link_close = link_close;
    table.loan = loan;
    table.publish = publish;
    table.take = take;
    return &table;
}
