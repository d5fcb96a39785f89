#!/usr/bin/env python3
"""What others can reach while a transport is measured: exposure.py TRIPMETER [--attack] [--table FILE] [SYSTEM/VARIANT...].

Measures each variant that is here (or those named; `*` stands for anything) at 1,000 messages a second under `umask 0`,
those in SEVERAL also with two publishers ('udp/loopback --publishers 2'), and looks all the time for files, segments, queues, FIFOs and sockets that were not there before. Fails if another user could reach something
that is not in OPEN below, or if OPEN has something that nobody could reach. With --attack a hostile user (tests/security/attacker.py)
does all it can from before the start to the end: the run must end well, with every message, and nothing of it may be
opened but what is in OPEN. --table writes what was found as Markdown, for docs/security.md.

To be run by scripts/isolated.sh, where nothing else makes names or sockets; `--attack` is refused elsewhere. It needs root,
to become another user: without, nobody attacks, and a line says so.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import attacker  # noqa: E402

ATTACKER = 65534
BECOME = ["setpriv", f"--reuid={ATTACKER}", f"--regid={ATTACKER}", "--clear-groups"]
MESSAGES = 3000
LONGEST_S = 240
ELSEWHERE = "10.255.255.1"
FILTERED = "user of this machine (a filter drops the rest)"
BAIT = pathlib.Path("/dev/shm/exposure-bait")
PATTERNS = ("publish", "ping", "call")
# What others can reach by design of a system: variant, object, why; `once`: only until both sides have opened.
LOOPBACK = "every user of this machine reaches the loopback"
DISCOVERY = "discovery of DDS, of which only the loopback's multicast is asked for"
FILTER = "0.10 has no setting against it; a filter of the kernel drops what comes from elsewhere"
ROUDI = "RouDi gives it to the main group of its user"
OPEN = [
    ("tcp/*", "tcp 127.0.0.1:*", LOOPBACK, "once"),
    ("udp/*", "udp 127.0.0.1:*", LOOPBACK, "once"),
    ("udp/* --publishers 2", "udp 127.0.0.1:*", LOOPBACK + "; a filter of the kernel drops what is of no publisher"),
    ("zeromq/tcp*", "tcp 127.0.0.1:*", LOOPBACK),
    ("http/*", "tcp 127.0.0.1:*", LOOPBACK, "once"),
    ("grpc/*", "tcp 127.0.0.1:*", LOOPBACK, "once"),
    ("mqtt/*", "tcp 127.0.0.1:*", LOOPBACK + "; the broker asks for a password"),
    ("zenoh/tcp", "tcp 127.0.0.1:*", LOOPBACK),
    ("zenoh/shm", "tcp 127.0.0.1:*", LOOPBACK),
    ("zenoh/query", "tcp 127.0.0.1:*", LOOPBACK),
    ("zenoh/udp", "udp 127.0.0.1:*", LOOPBACK),
    ("cyclonedds/*", "udp 127.0.0.1:*", LOOPBACK),
    ("cyclonedds/*", "udp 0.0.0.0:*", FILTER),
    ("cyclonedds/tcp", "tcp 0.0.0.0:*", FILTER),
    ("fastdds/*", "udp 127.0.0.1:*", LOOPBACK),
    ("fastdds/*", "tcp 127.0.0.1:*", LOOPBACK),
    ("fastdds/*", "udp 239.255.0.1:*", DISCOVERY),
    ("fastdds/*", "abstract @tripmeter-fastdds-domain-*", "a claim of a domain's number, which takes no connections"),
    ("ros2/*", "udp 127.0.0.1:*", LOOPBACK),
    ("ros2/*", "udp 239.255.0.1:*", DISCOVERY),
    ("ros2/*", "abstract @tripmeter-fastdds-domain-*", "a claim of a domain's number, which takes no connections"),
    ("ros2/*", "file /dev/shm/lttng-ust-wait-*", "ROS 2's tracing library, for all programs of a user", "once"),
    ("ecal/*", "udp 0.0.0.0:*", "eCAL's discovery and messages; it has no setting for an address"),
    ("ecal/tcp", "tcp6 :::*", "eCAL listens on all addresses"),
    ("iceoryx*/shm", "file /dev/shm/*", ROUDI),
    ("cyclonedds/iceoryx", "file /dev/shm/*", ROUDI),
    ("iceoryx*/shm", "socket /tmp/*", ROUDI),
    ("cyclonedds/iceoryx", "socket /tmp/*", ROUDI),
]
# With several publishers, these have a socket that is connected to none of them: they are measured so as well.
SEVERAL = ["uds/datagram", "udp/loopback"]
# What is given away with write permission; everything else is readable at most, and nothing may be removed.
WRITABLE = ["file /dev/shm/lttng-ust-wait-*"]
# What a hostile user may end, by an error, and never change in silence: eCAL crashes on garbage at its TCP port.
ENDED = ["ecal/tcp"]
# Variants that may lose messages on a busy machine, whoever is there.
LOSSY = ["udp/*", "uds/datagram*", "zenoh/udp", "ecal/*", "fastdds/*", "ros2/*", "iceoryx*", "cyclonedds/iceoryx"]


def run_id(text):
    """The text without what chance or the kernel chose."""
    text = re.sub(r"tripmeter-[0-9a-f]+-\d+-\d+-[0-9a-f]{8}", "RUN", text)
    text = re.sub(r"tripmeter-[0-9a-f]+-\d+-\d+", "PROCESS", text)
    text = re.sub(r"[0-9a-f]{12,}|\d{5,}", "N", text)
    return re.sub(r"\d+", "N", text)


def who(mode, wanted):
    """`everybody`, `group` or nothing: who else may do what the bits say (4 read, 2 write, 1 enter)."""
    return "everybody" if mode & wanted else "group" if mode & (wanted << 3) else ""


def files(place, skipped):
    """Objects below a place: (kind, path, mode, who can reach it)."""
    # Folders that are there for everybody.
    todo = [(place, "everybody")]
    while todo:
        folder, reach = todo.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.path in skipped:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if status.st_uid == ATTACKER:
                continue
            mode = status.st_mode
            is_folder = stat.S_ISDIR(mode)
            kind = (
                "folder"
                if is_folder
                else (
                    "socket"
                    if stat.S_ISSOCK(mode)
                    else "fifo" if stat.S_ISFIFO(mode) else "link" if stat.S_ISLNK(mode) else "file"
                )
            )
            # A socket is connected to by whoever may write, of others reading matters too.
            mine = "" if kind == "link" else who(mode, {"folder": 7, "socket": 2}.get(kind, 6))
            reached = mine if reach == "everybody" else reach if mine else ""
            yield kind, entry.path, mode & 0o7777, reached
            if is_folder:
                inside = who(mode, 1)
                todo.append((entry.path, inside if reach == "everybody" else reach if inside else ""))


def drops(port):
    """Datagrams that the kernel dropped at the sockets of a port."""
    return sum(
        int(line.split()[-1])
        for line in attacker.lines("/proc/net/udp")[1:]
        if line.split()[1].endswith(f":{port:04X}")
    )


def is_dropped(port):
    """Whether the kernel drops datagrams to another address, and not to the loopback: a full socket drops both."""
    agreed = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for _ in range(20):
            seen = [drops(port)]
            for address in ("127.0.0.1", ELSEWHERE):
                one.sendto(b"x", (address, port))
                seen.append(drops(port))
            if seen[1] > seen[0]:
                time.sleep(0.02)
            elif seen[2] == seen[1]:
                return False
            else:
                agreed += 1
                if agreed == 3:
                    return True
    return False


def is_filtered(name, port):
    """Whether the kernel drops what comes to another address than the loopback. Such an address is there only meanwhile."""
    change = ["ip", "address", "add", f"{ELSEWHERE}/32", "dev", "lo"]
    if subprocess.run(change, capture_output=True, check=False).returncode != 0:
        return False
    try:
        if name == "tcp":
            with socket.socket() as one:
                one.settimeout(0.3)
                return one.connect_ex((ELSEWHERE, port)) != 0
        return is_dropped(port)
    finally:
        change[2] = "delete"
        subprocess.run(change, capture_output=True, check=False)


def mounts(places):
    """What is mounted below these folders."""
    paths = [line.split()[4] for line in attacker.lines("/proc/self/mountinfo")]
    paths = [re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path) for path in paths]
    return [path for path in paths if any(path.startswith(f"{place}/") for place in places)]


def objects(places, skipped):
    """Everything that can be met by a name or an address: {(kind, name): (detail, who can reach it)}."""
    found = {}
    for place in places:
        for kind, path, mode, reach in files(place, skipped):
            found[kind, path] = f"{mode:04o}", reach
    for family, name in (
        (socket.AF_INET, "tcp"),
        (socket.AF_INET6, "tcp6"),
        (socket.AF_INET, "udp"),
        (socket.AF_INET6, "udp6"),
    ):
        for address, port, state, user in attacker.addresses(name, family):
            if user == ATTACKER:
                continue
            # Listening, or a UDP socket that takes from everybody.
            if port and state in ("0A", "07"):
                reach = "user of this machine" if address.startswith("127.") or address == "::1" else "machine"
                found[name, f"{address}:{port}"] = "", reach
    for line in attacker.lines("/proc/net/unix")[1:]:
        words = line.split()
        if len(words) == 8 and words[7].startswith("@"):
            found["abstract", words[7]] = "", "everybody"
    for kind in ("msg", "shm", "sem"):
        for line in attacker.lines(f"/proc/sysvipc/{kind}")[1:]:
            words = line.split()
            mode = int(words[2], 8)
            found[f"system v {kind}", words[1]] = f"{mode & 0o777:04o}", who(mode, 6)
    return found


class Measured:
    """What was seen of one variant."""

    def __init__(self, variant):
        self.variant, self.closed, self.once, self.steady = variant, {}, {}, {}
        self.findings, self.used, self.filtered = [], set(), {}
        self.lost = self.ended = None

    def note(self, before, now, is_open):
        """Notes what is there now and was not before; `is_open`: both sides have opened."""
        steady = {}
        for (kind, name), (detail, reach) in now.items():
            if before.get((kind, name)) == (detail, reach):
                continue
            shown = kind, shorten(kind, name)
            if reach == "machine" and is_open and name.startswith("0.0.0.0:"):
                if (kind, name) not in self.filtered:
                    self.filtered[kind, name] = is_filtered(kind, int(name.split(":")[1]))
                reach = FILTERED if self.filtered[kind, name] else reach
            if reach:
                self.once.setdefault(shown, (detail, reach))
                # Of several with one name the most open one is shown.
                if steady.get(shown, ("", ""))[1] != "machine":
                    steady[shown] = detail, reach
            else:
                self.closed[shown] = detail
        if is_open:
            self.steady.update(
                {key: value for key, value in steady.items() if self.steady.get(key, ("", ""))[1] != "machine"}
            )

    def judge(self):
        for when, found in (("all the time", self.steady), ("until both sides have opened", self.once)):
            for (kind, name), (detail, reach) in sorted(found.items()):
                if when != "all the time" and (kind, name) in self.steady:
                    continue
                known = [
                    entry
                    for entry in OPEN
                    if fnmatch.fnmatch(self.variant, entry[0])
                    and fnmatch.fnmatch(f"{kind} {name}", entry[1])
                    and ("once" not in entry[3:] or when != "all the time")
                ]
                self.used.update(OPEN.index(entry) for entry in known)
                if when == "all the time" and reach == "machine" and any(FILTER in entry for entry in known):
                    self.findings.append(f"{kind} {name} has no filter")
                if not known:
                    self.findings.append(f"{kind} {name} {detail} can be reached by any {reach}, {when}")


def shorten(kind, name):
    if kind in ("tcp", "udp", "tcp6", "udp6"):
        address, port = name.rsplit(":", 1)
        return f"{address}:{port if port in ('14000', '14002') else 'N'}"
    return run_id(re.sub(r"/ecal_[0-9a-f]+", "/ecal_N", name))


def variants(tripmeter, wanted):
    """The variants that can run here: name, pattern, wait."""
    listed = subprocess.run([tripmeter, "list", "--json"], capture_output=True, text=True, check=True).stdout
    for system in json.loads(listed):
        described = {one["name"]: one for one in (system["description"] or {}).get("variants", [])}
        for here in system["variants"]:
            name = f"{system['system']}/{here['variant']}"
            names = [name, f"{name} --publishers 2"] if name in SEVERAL else [name]
            names = [name for name in names if not wanted or any(fnmatch.fnmatch(name, one) for one in wanted)]
            if not names:
                continue
            patterns = [one for one in PATTERNS if one in described[here["variant"]]["patterns"]]
            if not patterns or system["system"] == "inmem":
                continue
            if not here["available"]:
                print(f"SKIPPED: {name}: {here['reason']}", file=sys.stderr)
                continue
            waits = described[here["variant"]]["waits"]
            yield from ((name, patterns[0], "block" if "block" in waits else waits[0]) for name in names)


def has_opened(results):
    """Whether the path was proven: both sides have opened, and what they made is closed by then."""
    try:
        lines = (results / "trials.jsonl").read_text().split("\n")
    except OSError:
        return False
    return any('"path_proof":{' in line for line in lines)


def measure(tripmeter, variant, pattern, wait, attacked, mqueue):
    """Runs the variant, and the attacker beside it."""
    measured = Measured(variant)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="exposure-", dir="/tmp"))
    results = folder / "results"
    victim = folder / "victim"
    victim.write_text("not to be changed")
    places = ["/dev/shm", "/tmp"] + ([mqueue] if mqueue else [])
    # A run mounts nothing; scripts/isolated.sh mounts a clone below /tmp there, which other tests change meanwhile.
    skipped = {str(folder), str(mqueue), *mounts(places)}
    hostile = None
    before = objects(places, skipped)
    if attacked:
        stage = pathlib.Path(tempfile.mkdtemp(prefix="stage-", dir="/tmp"))
        skipped.add(str(stage))
        copy, known = stage / "attacker.py", stage / "known"
        shutil.copy(attacker.__file__, copy)
        known.write_text(
            "".join(
                f"{path}\n" for _, path in [*before, *(("", one) for one in skipped), ("", str(copy)), ("", str(known))]
            )
        )
        os.chmod(stage, 0o755)
        # Open to all: an attacker who does not find it tries nothing.
        BAIT.write_text("open to all")
        os.chmod(BAIT, 0o666)
        skipped.add(str(BAIT))
        become = [*as_attacker(), str(copy)]
        subprocess.run([*become, "squat", str(os.getuid()), str(victim)], check=True, cwd="/")
        hostile = subprocess.Popen(
            [*become, "attack", str(os.getuid()), str(known), *([mqueue] if mqueue else [])],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    command = [
        tripmeter,
        pattern,
        *variant.split(" "),
        "-q",
        "--no-floor",
        "--no-spin",
        "--no-report",
        "--raw",
        "none",
        "--wait",
        wait,
        "--rate",
        "1000",
        "-n",
        str(MESSAGES),
        "--payloads",
        "1k",
        "-o",
        str(results),
    ]
    log = (folder / "log").open("w+")
    run = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        # No session of its own: by autogroup Linux shares CPUs between sessions, and 6.18.44 left one without any for 37 s.
        process_group=0,
        preexec_fn=lambda: os.umask(0),
        cwd="/",
    )
    begin, opened = time.monotonic(), None
    while run.poll() is None and time.monotonic() - begin < LONGEST_S:
        if opened is None and has_opened(results):
            opened = time.monotonic()
        # What grows meanwhile is closed once a second.
        is_settled = opened is not None and time.monotonic() - opened > 1.5
        measured.note(before, objects(places, skipped), is_settled)
        time.sleep(0.02)
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGINT)
        measured.findings.append(f"it did not end within {LONGEST_S} s")
    code = run.wait()
    log.seek(0)
    said = log.read()
    may_end = attacked and any(fnmatch.fnmatch(variant, one) for one in ENDED)
    if code != 0 and may_end:
        measured.ended = said.strip()[-600:]
    elif code != 0:
        measured.findings.append(f"exit code {code}: {said.strip()[-600:]}")
    if code == 0:
        count(measured, results)
    measured.judge()
    if attacked:
        reported, _ = hostile.communicate(input="end\n", timeout=60)
        judge_attack(measured, json.loads(reported))
        BAIT.unlink()
        if victim.read_text() != "not to be changed":
            measured.findings.append("a file was changed through a link of the attacker")
        for name in list(pathlib.Path("/tmp").iterdir()) + list(pathlib.Path("/dev/shm").iterdir()):
            if name.lstat().st_uid == ATTACKER:
                shutil.rmtree(name) if name.is_dir() and not name.is_symlink() else name.unlink()
        shutil.rmtree(stage)
    shutil.rmtree(folder)
    return measured


def count(measured, results):
    """Every message must have come as it was sent."""
    lines = map(json.loads, (results / "trials.jsonl").read_text().split("\n")[:-1])
    trials = [line["streams"]["all"] for line in lines if line["kind"] == "trial"]
    # A payload is measured again if the core-to-core probe changed.
    if not trials:
        measured.findings.append("no trial")
    for trial in trials:
        trial.setdefault("lost", trial.get("timed_out", 0) + trial.get("failed", 0))
        measured.lost = (measured.lost or 0) + trial["lost"]
        wrong = {name: trial[name] for name in ("damaged", "duplicated", "reordered") if trial.get(name)}
        if trial["lost"] and not any(fnmatch.fnmatch(measured.variant, one) for one in LOSSY):
            wrong["lost"] = trial["lost"]
        if trial["sent"] < MESSAGES:
            wrong["sent"] = trial["sent"]
        if trial["received"] + trial["lost"] + trial.get("late", 0) != trial["sent"]:
            wrong["received"] = trial["received"]
        if wrong:
            measured.findings.append(f"counts are wrong: {wrong}")


def judge_attack(measured, attempts):
    """All that the attacker could do must be by design."""
    if not any((attempt["did"], attempt["what"]) == ("wrote", str(BAIT)) for attempt in attempts):
        measured.findings.append("the attacker did not find the bait")
    for attempt in attempts:
        did, what = attempt["did"], attempt["what"]
        if what == str(BAIT):
            continue
        kind, _, name = what.partition(" ")
        if kind in ("tcp", "udp", "tcp6", "udp6"):
            shown = f"{kind} {shorten(kind, name)}"
        elif what.startswith("\0"):
            shown = "abstract " + run_id(what.replace("\0", "@", 1))
        else:
            shown = f"file {run_id(what)}"
        is_allowed = (
            did in ("read", "connected to", "sent to")
            or did in ("wrote", "emptied", "marked")
            and any(fnmatch.fnmatch(shown, one) for one in WRITABLE)
        )
        known = is_allowed and [
            entry
            for entry in OPEN
            if fnmatch.fnmatch(measured.variant, entry[0])
            and (fnmatch.fnmatch(shown, entry[1]) or fnmatch.fnmatch(shown.replace("file", "socket", 1), entry[1]))
        ]
        if not known:
            measured.findings.append(f"the attacker {did} {shown}, {attempt['times']} times")


def table(all_measured):
    """Markdown: a row per variant."""

    def cell(found):
        return (
            "<br>".join(
                f"{kind} `{name}`{' ' + detail if detail else ''}: {reach}"
                for (kind, name), (detail, reach) in sorted(found.items())
            )
            or "-"
        )

    yield "| variant | closed | open to others until both sides have opened | open to others |"
    yield "| --- | ---: | --- | --- |"
    for one in all_measured:
        once = {key: value for key, value in one.once.items() if key not in one.steady}
        yield f"| `{one.variant}` | {len(one.closed)} | {cell(once)} | {cell(one.steady)} |"


def as_attacker():
    """What a Python script is started with as the attacker, who may not reach the Python of this user."""
    become = [*BECOME, "--"]
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([*become, python, "-c", ""], capture_output=True, cwd="/", check=False).returncode == 0:
            return [*become, python]
    sys.exit("exposure.py: the attacker can run no Python: install it for everybody (/usr/bin/python3)")


def can_attack():
    """Whether another user can be had: root of a user namespace may be the only one there."""
    tried = [*BECOME, "true"]
    return bool(shutil.which(tried[0])) and subprocess.run(tried, capture_output=True, check=False).returncode == 0


def mount_queues():
    """A folder that shows message queues, if it can be had."""
    folder = tempfile.mkdtemp(prefix="queues-", dir="/tmp")
    if (
        subprocess.run(["mount", "-n", "-t", "mqueue", "none", folder], capture_output=True, check=False).returncode
        == 0
    ):
        return folder
    os.rmdir(folder)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tripmeter")
    parser.add_argument("variants", nargs="*", metavar="SYSTEM/VARIANT")
    parser.add_argument("--attack", action="store_true", help="with a hostile user")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="write what was found as Markdown")
    arguments = parser.parse_intermixed_args()
    if arguments.attack and os.environ.get("TRIPMETER_ISOLATED") != "1":
        print("exposure.py: --attack attacks all that it finds; start it by scripts/isolated.sh", file=sys.stderr)
        return 64
    if arguments.attack and not can_attack():
        print("REDUCED: no other user here: what others can reach is listed, and nobody attacks", file=sys.stderr)
        arguments.attack = False
    mqueue = mount_queues()
    all_measured = []
    try:
        for name, pattern, wait in variants(os.path.abspath(arguments.tripmeter), arguments.variants):
            one = measure(os.path.abspath(arguments.tripmeter), name, pattern, wait, arguments.attack, mqueue)
            lost = (f", {one.lost} lost" if one.lost else "") + (", ended by the attacker" if one.ended else "")
            print(
                f"{name}: {len(one.closed)} closed, {len(one.once)} open{lost}: {'; '.join(one.findings) or 'ok'}",
                flush=True,
            )
            all_measured.append(one)
    finally:
        if mqueue:
            subprocess.run(["umount", "-n", mqueue], check=False)
            os.rmdir(mqueue)
    used = set().union(*(one.used for one in all_measured)) if all_measured else set()
    # What is there for a moment may be missed.
    stale = [
        entry
        for at, entry in enumerate(OPEN)
        if at not in used
        and "once" not in entry[3:]
        and not arguments.variants
        and any(fnmatch.fnmatch(one.variant, entry[0]) for one in all_measured)
    ]
    for entry in stale:
        print(f"stale: nobody could reach {entry[1]} of {entry[0]}", file=sys.stderr)
    if arguments.table:
        arguments.table.write_text("\n".join(table(all_measured)) + "\n")
    if not all_measured:
        print("exposure.py: no such variant is here", file=sys.stderr)
        return 69
    return 1 if stale or any(one.findings for one in all_measured) else 0


if __name__ == "__main__":
    sys.exit(main())
