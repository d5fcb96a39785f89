"""What must hold after a trial: findings, each a line."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import check_results  # noqa: E402

# How long processes that are about to end may take for it.
ENDING_S = 120
# Of a whole user, for all programs that trace: they stay.
FOREIGN = re.compile(r"^/dev/shm/(lttng-ust-wait.*|fill)$")

# What an error says after each fault; a part that is not whole without one of these fails. Where a fault takes something
# away, what fails for lack of it is named.
NO_DESCRIPTORS = r"[Tt]oo many open files|descriptors|RLIMIT_NOFILE|EMFILE"
NO_THREADS = (r"Resource temporarily unavailable|WouldBlock|EAGAIN|threads? .*(create|start|spawn)|(create|start|spawn).* thread"
              r"|\bfork\b")
NO_MEMORY = (r"[Cc]annot allocate memory|[Oo]ut of memory|bad_alloc|memory allocation|not enough memory|failed to map segment"
             r"|RLIMIT_AS|ddsrt_thread_create failed")
# What is said of every program of this run that ends so; of another failure it says nothing.
ABORTED = r"(panicked|signal \d+|ended at its start|has gone).*"
SILENT = (r"hangs: no sign of life|stands still: it has said nothing .*stopped by a signal|has sent nothing for \d+ s"
          r"|the follower.* is stopped by a signal|the (leader|follower) was stopped by a signal|did not answer after \d+ s \(stopped by a signal\)|does not come to the end of its payload|the follower.* (did not come|does not answer|hangs)|no answer to \d+ messages in a row")
CAUSES = {
    "kill-follower": r"follower.*signal 9 \(kill\)",
    "kill-leader": r"leader process was ended by signal 9 \(kill\)",
    "kill-supervisor": None,
    "kill-daemon": r"(daemon|broker|roudi|RouDi|mosquitto).*(gone|ended|signal 9|not running|closed|lost|does not answer)|signal 9",
    "stop-follower": SILENT, "stop-leader": SILENT, "stop-supervisor": None,
    "stop-daemon": SILENT + r"|daemon|broker|RouDi|roudi",
    "shm-full": r"/dev/shm|No space left on device",
    "disk-full": r"No space left on device",
    "few-descriptors": NO_DESCRIPTORS, "few-processes": NO_THREADS + "|" + ABORTED + r"this user may have \d+ threads", "little-memory": NO_MEMORY,
    "clock-step": r"date of this machine was set",
    "plugin-crash": r"signal 11 \(segmentation", "plugin-hang": SILENT,
    "plugin-length": r"longer|length|bytes|damaged", "plugin-short": r"shorter|length|bytes|damaged",
    "plugin-loan": r"loan",
    # Memory that is overwritten may do anything; what is seen of it is named.
    "plugin-outside": r"signal (6|7|11)|damaged|corrupt|bytes|" + SILENT,
}
# These may be without any effect: the transport needed no more of it, or the plugin wrote where nothing was.
HARMLESS = {"shm-full", "few-descriptors", "few-processes", "little-memory", "clock-step", "plugin-outside", "kill-daemon",
            "stop-daemon", "stop-supervisor", "disk-full"}


def lines(folder):
    """Whole lines of trials.jsonl."""
    try:
        text = (folder / "trials.jsonl").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = []
    for line in text.split("\n")[:-1]:
        try:
            found.append(json.loads(line))
        except ValueError:
            pass
    return found


def states(folder):
    """The last state of each sub-experiment."""
    return {one["name"]: one for one in lines(folder) if one["kind"] == "sub-experiment"}


def finished(folder):
    """Trials of each payload that is finished, by sub-experiment and payload; the last attempt counts."""
    pending, payloads = {}, {}
    for one in lines(folder):
        if one["kind"] == "trial":
            pending.setdefault((one["sub_experiment"], one["payload_bytes"], one["attempt"]), []).append(one)
        elif one["kind"] == "payload":
            address = one["sub_experiment"], one["payload_bytes"]
            trials = pending.pop((*address, one["attempt"]), [])
            payloads.pop(address, None)
            if not one.get("unfinished"):
                payloads[address] = trials
    return payloads


def intact(then, now, when):
    """Payloads that were there, and are not as they were."""
    return [f"{when}: {name} at {payload} bytes is not what it was"
            for (name, payload), trials in then.items() if now.get((name, payload)) != trials]


def readable(tripmeter, folder, when):
    """Whether the program and other tools read a results folder."""
    shown = subprocess.run([tripmeter, "show", str(folder), "--wide"], capture_output=True, text=True, timeout=120,
                           stdin=subprocess.DEVNULL)
    findings = [] if shown.returncode == 0 else [f"{when}: show: {shown.stderr.strip()[-300:]}"]
    return findings + [f"{when}: {finding}" for finding in check_results.check(folder)]


def cause(fault, error):
    """Whether an error names its cause."""
    wanted = CAUSES[fault]
    return wanted is not None and re.search(wanted, error) is not None


def processes():
    """Processes in this namespace that are not ours: by id, their command line."""
    own, pid = {1}, os.getpid()
    while pid > 1:
        own.add(pid)
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        pid = int(re.search(r"^PPid:\s*(\d+)", status, re.M).group(1))
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in own:
            continue
        try:
            line = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()
            state = re.search(r"^State:\s*(\S)", pathlib.Path(f"/proc/{entry}/status").read_text(), re.M).group(1)
        except (OSError, AttributeError):
            continue
        # An orphan that has ended, and that process 1, a shell, has not yet waited for.
        if state != "Z":
            found[int(entry)] = line.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def no_processes(but=()):
    """Those that are left after a while, but for those whose command has a word of `but`."""
    end = time.monotonic() + ENDING_S
    def found():
        return {pid: line for pid, line in processes().items() if not any(word in line for word in but)}

    while (left := found()) and time.monotonic() < end:
        time.sleep(0.02)
    return [f"process {pid} is left: {line[:120]}" for pid, line in left.items()]


def names(temporary):
    """Everything with a name that a run could leave: files, shared memory, queues, sockets, ports."""
    found = set()
    for folder in ("/dev/shm", "/dev/mqueue", temporary, "/tmp"):
        if os.path.isdir(folder):
            found |= {f"{folder}/{name}" for name in os.listdir(folder)}
    for kind in ("shm", "sem", "msg"):
        rows = pathlib.Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]
        found |= {f"sysv {kind} {' '.join(row.split()[:2])}" for row in rows}
    for row in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        if len(row.split()) > 7:
            found.add(f"socket {row.split()[7]}")
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for row in pathlib.Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
            if not kind.startswith("tcp") or row.split()[3] == "0A":
                found.add(f"{kind} port {int(row.split()[1].rsplit(':', 1)[1], 16)}")
    return {name for name in found if not FOREIGN.match(name)}
