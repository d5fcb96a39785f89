/*
 * A plugin that works as the true one beside it until TRIPMETER_FAULT says otherwise: `WHAT:SIDE:NUMBER`, at the leader or
 * the follower, from that message on, of those that it publishes or takes.
 *
 *   crash     ends by SIGSEGV in publish
 *   hang      does not come back from publish
 *   length    take says that a message is longer than it is
 *   short     take says that a message is one byte shorter than it is
 *   loan      loan says that there is less room than was asked for
 *   outside   publish writes 64 bytes behind the loan
 */
#include "around.h"

#include <signal.h>
#include <time.h>

#define MOST_BYTES_BEHIND 64
#define LONGEST_HANG_S 600 /* so that no test leaves a process for ever */

static struct {
    char what[16];
    int side;
    unsigned long from;
    unsigned long published, taken;
    bool here;
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

static bool is_on(const char *what, unsigned long messages)
{
    return fault.here && messages >= fault.from && strcmp(fault.what, what) == 0;
}

static int32_t node_open(const tm_node_options *options, tm_node **node, tm_error *error)
{
    fault.here = (int)options->role == fault.side;
    return truth->node_open(options, node, error);
}

static int32_t loan(tm_link *link, size_t length, const tm_message *in_reply_to, tm_loan *loan, tm_error *error)
{
    const int32_t status = truth->loan(link, length, in_reply_to, loan, error);
    if (status == TM_OK && is_on("loan", fault.published)) {
        loan->length -= 1;
    }
    return status;
}

static int32_t publish(tm_link *link, tm_loan *loan, uint64_t timeout_ns, tm_error *error)
{
    fault.published += 1;
    if (is_on("crash", fault.published)) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (is_on("hang", fault.published)) {
        const struct timespec longest = {.tv_sec = LONGEST_HANG_S};
        nanosleep(&longest, NULL);
        abort();
    }
    if (is_on("outside", fault.published)) {
        memset(loan->data + loan->length, 0xA5, MOST_BYTES_BEHIND);
    }
    return truth->publish(link, loan, timeout_ns, error);
}

static int32_t take(tm_link *link, uint64_t timeout_ns, tm_message *message, tm_error *error)
{
    const int32_t status = truth->take(link, timeout_ns, message, error);
    if (status == TM_OK) {
        fault.taken += 1;
        if (is_on("length", fault.taken)) {
            message->length += (size_t)1 << 40;
        }
        if (is_on("short", fault.taken) && message->length > 0) {
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
    table.loan = loan;
    table.publish = publish;
    table.take = take;
    return &table;
}
