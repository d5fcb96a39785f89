#!/usr/bin/env python3
"""A hostile user of this machine: attacker.py squat USER VICTIM | attacker.py attack USER KNOWN [MQUEUE].

tests/security/exposure.py starts it as a user without rights.

`squat` takes names that a run of USER could want, before it starts: links to VICTIM, folders, files and FIFOs.

`attack` goes on until its standard input ends. It tries to open, read, change and remove every file, segment, queue, FIFO and
socket of USER; takes names that begin with the identity of each new process; connects to every socket, is silent there or
sends garbage; sends garbage and forged messages to every UDP port, and garbage to the groups of DDS; and tries to signal, read and trace processes. KNOWN is a
file with paths that are not of the run, one a line; MQUEUE is where message queues are mounted. Its load is bounded: a few hundred attempts per round, with a pause after each round.

What it could do is printed as JSON at the end: `[{"did": "read", "what": "/dev/shm/x", "times": 3}, ...]`.
"""

import ctypes
import json
import os
import pathlib
import select
import signal
import socket
import stat
import struct
import sys
import time

PLACES = [pathlib.Path(name) for name in ("/dev/shm", "/tmp")]


def forged(sequence, publisher):
    """A message of 1 KiB as Tripmeter sends it in one packet: its headers have no secret (`packets.rs`, `message.rs`)."""
    length, kind = 1024, 1 | publisher << 8
    mixed = ((sequence ^ length << 32 ^ kind << 20) * 0x9E3779B97F4A7C15) % 2**64
    return struct.pack("=4I", 0, length, 0, 0) + struct.pack("=QII", sequence, mixed >> 32, kind).ljust(length, b"\0")


GARBAGE = [
    b"",
    b"\0",
    b"x" * 100,
    b"RTPS\x02\x03\x01\x0f" + b"\xff" * 200,
    b"\xff" * 1400,
    b"GET / HTTP/1.1\r\n\r\n",
    b'{"Bye":null}\n',
    os.urandom(1000),
    # A farewell, and messages of the proof of the path, of the measurement, and of a number that is never sent.
    struct.pack("=4I", 0, 0, 0, 1),
    *(forged(sequence, publisher) for sequence in (1, 2000, 2**64 - 1) for publisher in (0, 1)),
]
# Discovery of DDS: group, and ports of the first domains.
GROUP = "239.255.0.1"
PAUSE_S = 0.02
MOST_SILENT = 24
MOST_FILES = 300


class Attacker:
    """What was tried on the objects of one user, and what worked."""

    def __init__(self, user, known, mqueue):
        self.user, self.known = user, known
        self.places = PLACES + ([mqueue] if mqueue else [])
        self.done = {}
        self.silent = []
        self.made = []
        self.seen = set()

    def did(self, verb, what):
        self.done[verb, str(what)] = self.done.get((verb, str(what)), 0) + 1

    def files(self):
        """Everything of the user that can be seen in shared places."""
        found = []
        for place in self.places:
            for folder, folders, names in os.walk(place):
                depth = folder.count("/") - str(place).count("/")
                if os.path.ismount(folder) and folder != str(place):
                    names.clear()
                    folders.clear()
                elif depth >= 4:
                    folders.clear()
                for name in folders + names:
                    path = os.path.join(folder, name)
                    try:
                        status = os.lstat(path)
                    except OSError:
                        continue
                    if status.st_uid == self.user and path not in self.known:
                        found.append((path, status))
                if len(found) > MOST_FILES:
                    return found
        return found

    def try_file(self, path, status):
        mode = status.st_mode
        attempts = [
            ("removed", lambda: os.rmdir(path) if stat.S_ISDIR(mode) else os.unlink(path)),
            ("renamed", lambda: os.rename(path, path + ".taken")),
            ("opened to others", lambda: os.chmod(path, 0o777)),
            ("marked", lambda: os.utime(path)),
        ]
        if stat.S_ISREG(mode):
            attempts += [
                ("wrote", lambda: write(path)),
                ("read", lambda: read(path)),
                ("emptied", lambda: os.truncate(path, 0)),
            ]
        elif stat.S_ISFIFO(mode):
            attempts += [("wrote", lambda: write(path)), ("read", lambda: read(path))]
        elif stat.S_ISDIR(mode):
            attempts += [("made a file in", lambda: make_in(path))]
        elif stat.S_ISSOCK(mode):
            self.try_unix(path)
        for verb, attempt in attempts:
            self.attempt(verb, path, attempt)

    def attempt(self, verb, what, attempt):
        try:
            attempt()
        except (OSError, ValueError):
            return
        self.did(verb, what)

    def try_unix(self, address):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            one = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK)
            try:
                one.connect(address)
            except OSError:
                one.close()
                continue
            self.did("connected to", address.decode(errors="replace") if isinstance(address, bytes) else address)
            self.spoil(one)

    def spoil(self, one):
        """Sends garbage into every second connection; all stay open for a while."""
        self.silent.append(one)
        if len(self.silent) % 2:
            for text in GARBAGE:
                try:
                    one.send(text, socket.MSG_NOSIGNAL)
                except OSError:
                    break
        while len(self.silent) > MOST_SILENT:
            self.silent.pop(0).close()

    def try_sockets(self):
        for line in lines("/proc/net/unix"):
            words = line.split()
            # Abstract ones; others are among the files.
            if len(words) == 8 and words[7].startswith("@"):
                self.try_unix(b"\0" + words[7][1:].encode())
        for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
            for address, port, state, user in addresses(name, family):
                if user == self.user and state == "0A":
                    one = socket.socket(family, socket.SOCK_STREAM)
                    one.settimeout(0.2)
                    try:
                        one.connect((reachable(address), port))
                    except OSError:
                        one.close()
                        continue
                    one.setblocking(False)
                    self.did("connected to", f"{name} {address}:{port}")
                    self.spoil(one)
        for family, name in ((socket.AF_INET, "udp"), (socket.AF_INET6, "udp6")):
            with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                for address, port, _, user in addresses(name, family):
                    if user == self.user and port:
                        for text in GARBAGE:
                            self.attempt(
                                "sent to",
                                f"{name} {address}:{port}",
                                lambda: sender.sendto(text, (reachable(address), port)),
                            )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            for port in (7400, 7650, 14000):
                try:
                    sender.sendto(GARBAGE[3], (GROUP, port))
                except OSError:
                    pass

    def try_system_v(self):
        libc = ctypes.CDLL(None, use_errno=True)
        for line in lines("/proc/sysvipc/msg")[1:]:
            number = int(line.split()[1])
            if libc.msgctl(number, 0, None) == 0:
                self.did("removed", f"queue {number}")
        for line in lines("/proc/sysvipc/shm")[1:]:
            number = int(line.split()[1])
            libc.shmat.restype = ctypes.c_void_p
            if libc.shmat(number, None, 0) != ctypes.c_void_p(-1).value:
                self.did("attached", f"segment {number}")

    def try_processes(self):
        boot = int(pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()[:8], 16)
        time = os.stat("/proc/self/ns/time").st_ino
        place = os.stat("/proc/self/ns/pid").st_ino ^ boot ^ (time << 16 | time >> 16) & 0xFFFFFFFF
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                if os.stat(f"/proc/{entry}").st_uid != self.user:
                    continue
                start = pathlib.Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[19]
            except (OSError, IndexError):
                continue
            for file in ("mem", "environ", "maps", "auxv"):
                self.attempt("read", f"/proc/PID/{file}", lambda: read_some(f"/proc/{entry}/{file}"))
            self.attempt("listed", "/proc/PID/fd", lambda: os.listdir(f"/proc/{entry}/fd"))
            self.attempt("stopped", "a process", lambda: os.kill(int(entry), signal.SIGSTOP))
            if (entry, start) not in self.seen:
                self.seen.add((entry, start))
                for folder in PLACES:
                    for suffix in ("", "-1", "-1-0", "-x"):
                        name = folder / f"tripmeter-{place:x}-{entry}-{start}{suffix}"
                        try:
                            name.write_text("taken")
                            self.made.append(name)
                        except OSError:
                            pass

    def round(self):
        for path, status in self.files():
            self.try_file(path, status)
        self.try_sockets()
        self.try_system_v()
        self.try_processes()

    def report(self):
        for path in self.made:
            try:
                path.unlink()
            except OSError:
                pass
        print(
            json.dumps(
                [{"did": verb, "what": what, "times": times} for (verb, what), times in sorted(self.done.items())]
            )
        )


def write(path):
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    os.write(descriptor, b"attacked")
    os.close(descriptor)


def read(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    os.read(descriptor, 100)
    os.close(descriptor)


def read_some(path):
    """Of a process that ends there is nothing to read, and that may be opened."""
    with open(path, "rb", buffering=0) as file:
        if not file.read(10):
            raise ValueError(path)


def make_in(path):
    name = os.path.join(path, "attacker")
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o666))


def lines(file):
    try:
        return pathlib.Path(file).read_text(errors="replace").splitlines()
    except OSError:
        return []


def addresses(name, family):
    """Address, port, state and user of all sockets of a kind in /proc/net."""
    for line in lines(f"/proc/net/{name}")[1:]:
        words = line.split()
        text, port = words[1].split(":")
        numbers = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
        address = socket.inet_ntop(family, struct.pack(f"={len(numbers)}I", *numbers))
        yield address, int(port, 16), words[3], int(words[7])


def reachable(address):
    """Where something bound to that address can be reached from here."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)


def squat(user, victim):
    """Takes names that do not depend on chance."""
    os.umask(0)
    for name in (f"tripmeter-{user}", f"tripmeter-daemons-{user}", f"tripmeter-rendezvous-{user}-default", "tripmeter"):
        os.symlink(victim, f"/tmp/{name}")
    os.mkdir(f"/tmp/tripmeter-{user}-private-guessed", 0o777)
    for name in ("tripmeter", "tripmeter-shm", "tripmeter-0"):
        os.symlink(victim, f"/dev/shm/{name}")


def main():
    if sys.argv[1:2] == ["squat"] and len(sys.argv) == 4:
        return squat(*sys.argv[2:])
    if sys.argv[1:2] != ["attack"] or len(sys.argv) not in (4, 5):
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    os.umask(0)
    mqueue = pathlib.Path(sys.argv[4]) if len(sys.argv) == 5 else None
    attacker = Attacker(int(sys.argv[2]), set(lines(sys.argv[3])), mqueue)
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        attacker.round()
    attacker.report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
