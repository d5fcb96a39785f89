"""The faults: for each, when and where it can strike, what an error says after it, and what it may do besides."""

import dataclasses

# Moments at which something is done to a run that measures. `start` is before the program begins.
MEASURING = ["open", "proof", "payload-1", "payload-2", "writing"]

# Where a fault takes something away, what fails for lack of it is named.
NO_DESCRIPTORS = r"[Tt]oo many open files|descriptors|RLIMIT_NOFILE|EMFILE"
NO_THREADS = r"Resource temporarily unavailable|WouldBlock|EAGAIN|\b(cannot|could not|failed|no|not)\b[^;(]* threads?\b|\bfork\b"
NO_MEMORY = (r"[Cc]annot allocate memory|[Oo]ut of memory|bad_alloc|memory allocation|not enough memory|failed to map segment"
             r"|RLIMIT_AS|ddsrt_thread_create failed")
# What is said of every program of this run that ends so; of another failure it says nothing.
ABORTED = r"(panicked|signal \d+|ended at its start|has gone).*this user may have \d+ threads"
STOPPED = r"stopped by a signal"
# Of a plugin that hangs.
SILENT = (r"hangs: no sign of life|made no progress for \d+ s|does not finish its payload"
          r"|the follower.* (did not come|timed out|does not answer|hangs)|no answer to \d+ messages in a row")
DAEMON = r"([Dd]aemon|[Bb]roker|[Rr]ou[Dd]i|mosquitto|rumqttd)"
WRONG_LENGTH = r"had \d+ bytes, \d+ expected|came damaged"


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is known of a fault."""

    moments: list
    cause: str | None  # what the error of a part that is not whole says; None: no part may fail
    may_do_nothing: bool = False  # a run that measures everything with exit code 0 has not missed it
    counts_damage: bool = False  # a run that counts damaged messages has noticed it
    ends_run: bool = False  # what comes after the victim may be missing, with its cause
    call: str | None = None  # of a plugin, the call that it strikes in: `publish` or `take`


FAULTS = {
    "kill-follower": Kind(MEASURING, r"follower.*signal 9 \(kill\)"),
    "kill-leader": Kind(MEASURING, r"leader process was ended by signal 9 \(kill\)"),
    "kill-supervisor": Kind(MEASURING, None),
    "kill-daemon": Kind(MEASURING[1:],
                        DAEMON + r".*(has gone|ended|signal 9|no longer running|not running|closed|does not answer)"),
    "stop-follower": Kind(MEASURING, STOPPED),
    "stop-leader": Kind(MEASURING, STOPPED),
    # It is not in the path of any message.
    "stop-supervisor": Kind(MEASURING, None, may_do_nothing=True),
    # RouDi neither: whoever is connected goes on.
    "stop-daemon": Kind(MEASURING[1:], STOPPED + "|" + DAEMON + r".*(did not answer|does not answer|hangs)",
                        may_do_nothing=True),
    # Of these, what the run needs may be there already, or be left.
    "shm-full": Kind(["start", "open"], r"are free in /dev/shm|full /dev/shm|/dev/shm has \d+ (bytes left|MiB free)|No space left on device", may_do_nothing=True),
    "disk-full": Kind(MEASURING, r"No space left on device", ends_run=True),
    "few-descriptors": Kind(["start", "open"], NO_DESCRIPTORS, may_do_nothing=True),
    "few-processes": Kind(["start"], NO_THREADS + "|" + ABORTED, may_do_nothing=True),
    "little-memory": Kind(["start", "open"], NO_MEMORY, may_do_nothing=True),
    # Times are taken from the monotonic clock.
    "clock-step": Kind(MEASURING, r"date of this machine was set", may_do_nothing=True),
    "plugin-crash": Kind(["messages"], r"signal 11 \(segmentation", call="publish"),
    "plugin-hang": Kind(["messages"], SILENT, call="publish"),
    # 2^40 bytes more.
    "plugin-length": Kind(["messages"], WRONG_LENGTH + r"|10995\d{8} bytes", counts_damage=True, call="take"),
    "plugin-short": Kind(["messages"], WRONG_LENGTH, counts_damage=True, call="take"),
    "plugin-loan": Kind(["messages"], r"`loan` gave \d+ bytes, \d+ were asked for", call="publish"),
    # Memory that is overwritten may do anything, and nothing where the plugin has room behind its loans.
    "plugin-outside": Kind(["messages"], r"signal (6|7|11)\b|corrupt|the transport panicked|message of \d+ bytes, more than|"
                           + WRONG_LENGTH + "|" + SILENT, may_do_nothing=True, counts_damage=True, call="publish"),
}


def sides(fault, pattern):
    """Where a fault can strike: under publish the leader never takes and the follower never publishes; a logger never takes."""
    call = FAULTS[fault].call
    if pattern == "log":
        return ["leader"] if call != "take" else []
    if pattern == "publish" and call is not None:
        return ["leader"] if call == "publish" else ["follower"]
    return ["leader", "follower"]
