"""What must hold after a trial: findings, each a line."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import check_results  # noqa: E402
import draw  # noqa: E402
import kinds  # noqa: E402

# How long processes that are about to end may take for it, with other trials on the same CPUs.
ENDING_S = 10
# Of a whole user, for all programs that trace: they stay.
FOREIGN = re.compile(r"^/dev/shm/lttng-ust-wait.*$")


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


def left_out(folder):
    """Lines on transports that were asked for by name and could not run when the run was planned."""
    return json.loads((folder / "manifest.json").read_text())["plan"].get("missing", [])


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
    wanted = kinds.FAULTS[fault].cause
    # The name of a transport is no daemon's.
    return wanted is not None and re.search(wanted, re.sub(r"\bmqtt/\w+", "mqtt", error)) is not None


def damaged(folder):
    """Messages of the victim that its figures count as damaged, warm-ups included."""
    of = [one for one in lines(folder) if one.get("sub_experiment") == "victim"]
    return sum(one["streams"].get("all", {}).get("damaged", 0) if one["kind"] == "trial" else one.get("warmup_damaged", 0)
               for one in of if one["kind"] in ("trial", "payload"))


def verdict(drawn, fired, code, said, found):
    """What is wrong with a run after its fault: of its exit code, its standard error, and `states`, `finished` and
    `damaged` of its results, or None where it has none."""
    fault, kind = drawn["fault"], kinds.FAULTS[drawn["fault"]]
    named = cause(fault, said)
    # What takes effect before the run, and what ends it, may leave other sub-experiments out.
    may_miss = drawn["moment"] == "start" or kind.ends_run
    if found is None:
        if code == 0 or not may_miss or not named:
            return [f"nothing was measured, exit code {code}, and the cause is not named: {said.strip()[-300:]}"]
        return []
    states, payloads, count = found
    if fault == "kill-supervisor":
        return [] if code == -signal.SIGKILL else [f"the supervisor was killed, and the exit code is {code}"]
    findings = []
    for name, state in states.items():
        error = state["error"] or ""
        if state["status"] == "failed" and (name == "victim" or may_miss):
            if not cause(fault, error):
                findings.append(f"{name} failed, and the cause is not named: {error}")
        elif state["status"] != "complete" and not (kind.ends_run and named):
            findings.append(f"{name} is {state['status']}: {error}")
    missing = {"before", "victim", "after"} - states.keys()
    if missing and not (may_miss and named and code != 0):
        findings.append(f"not measured: {', '.join(sorted(missing))}: {said.strip()[-300:]}")
    is_whole = not missing and all(state["status"] == "complete" for state in states.values())
    if not is_whole and code == 0:
        findings.append("not all is measured, and the exit code is 0")
    if states.get("victim", {}).get("status") == "complete":
        there = sum(name == "victim" for name, _ in payloads)
        if there != len(draw.PAYLOADS):
            findings.append(f"victim is complete with {there} of {len(draw.PAYLOADS)} payloads")
        was_noticed = (code != 0 and named) or (kind.counts_damage and count > 0)
        if fired and not kind.may_do_nothing and not was_noticed:
            findings.append(f"the fault was not noticed: victim is complete, exit code {code}: {said.strip()[-300:]}")
    return findings


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
    """Findings on processes that are left, and the seconds waited for them; commands with a word of `but` may be there."""
    begin = time.monotonic()
    def found():
        return {pid: line for pid, line in processes().items() if not any(word in line for word in but)}

    while (left := found()) and time.monotonic() < begin + ENDING_S:
        time.sleep(0.02)
    return [f"process {pid} is left: {line[:120]}" for pid, line in left.items()], time.monotonic() - begin


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
