#!/usr/bin/env python3
"""Makes a results folder of every kind: corpus.py PROGRAM FOLDER [NAME...].

Every pattern, followers, rates, bursts, a recording, losses, damage, caps, what was interrupted, failed, resumed, or measured
with another host: over `inmem`, which injects faults, and sockets. Samples are left out. Takes three minutes.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

QUIET = ["--no-spin", "--no-report", "-q"]
SMALL = ["--payloads", "64,4k"]
LONGEST_S = 120

# Words of a command, without its output. Each is made by both sides of alike.py, too.
COMMANDS = {
    "ping": "ping inmem uds -n 300",
    "ping-fanout": "ping inmem -n 300 --followers 3",
    "ping-one-way": "ping inmem uds -n 300 --one-way",
    "ping-rate": "ping inmem uds -n 100 --rate 1000,5000",
    "ping-burst": "ping inmem -n 100 --demand 4 --recovery 2",
    "ping-rounds": "ping inmem uds -n 200 --rounds 3",
    "ping-lossy": "ping inmem?lose=every:50&damage_body=every:70&duplicate=every:90 -n 200 --touch full --loss-timeout 0.05",
    "ping-raw-none": "ping inmem -n 300 --raw none",
    "ping-eprosima": "ping inmem -n 300 --raw samples,eprosima",
    "ping-block": "ping inmem uds -n 300 --wait block",
    "ping-callback": "ping inmem -n 300 --wait callback",
    "ping-damaged": "ping inmem?damage=every:20 -n 100 --loss-timeout 0.05",
    "ping-dead": "ping inmem?lose=every:1 -n 50 --loss-timeout 0.02",
    "ping-cap": "ping inmem?delay=1ms -n 3000 --time-cap 0.5",
    "publish": "publish inmem uds -n 100 --rate 1000",
    "publish-topics": "publish inmem uds -n 100 --rate 1000 --topics 3",
    "publish-publishers": "publish inmem -n 100 --rate 1000 --publishers 3",
    "publish-fanout": "publish inmem -n 100 --rate 1000 --followers 3",
    "publish-burst": "publish inmem -n 100 --demand 5 --recovery 3",
    "publish-missed": "publish inmem?stall_sender=every:7:3ms -n 100 --rate 1000",
    "publish-lossy": "publish inmem?lose=every:9&duplicate=every:13&reorder=every:17&damage=every:23 -n 100 --rate 1000 --loss-timeout 0.2",
    "publish-cap": "publish inmem?delay=2ms -n 1000 --rate 2000 --time-cap 0.5",
    "publish-raw-none": "publish inmem -n 300 --rate 2000 --raw none",
    "call": "call inmem uds -n 100 --clients 1,3",
    "call-rate": "call inmem -n 100 --clients 2 --rate 1000 --one-way",
    "call-failed": "call inmem?lose=every:30&damage_body=every:41&side=follower -n 100 --loss-timeout 0.05",
    "throughput": "throughput inmem uds --duration 0.2",
    "throughput-fanout": "throughput inmem --duration 0.2 --followers 3 --one-way",
    "throughput-rate": "throughput inmem uds --duration 0.2 --rate max,10000",
    "throughput-burst": "throughput inmem --duration 0.2 --demand 5 --recovery 2",
    "throughput-search": "throughput inmem --duration 0.2 --loss-bound 0.5%",
    "throughput-lossy": "throughput inmem?lose=every:9&damage_body=every:13 --duration 0.2",
    "logger": "log inmem/log write -n 500",
    "explain": "explain inmem -n 100 --payload 1k",
    "failed": "ping inmem?lose=every:1&at=all uds -n 50 --loss-timeout 0.02 --attempts 1",
}


def words_of(name, output):
    """The words of one of COMMANDS."""
    sizes = [] if "--payload " in COMMANDS[name] else SMALL
    return [*COMMANDS[name].split(), *sizes, *QUIET, "-o", str(output)]


def run(program, words, timeout_s=LONGEST_S, environment=None):
    """Runs it. Returns exit code, standard output and error."""
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=timeout_s, check=False,
                          stdin=subprocess.DEVNULL, env=environment)
    return done.returncode, done.stdout, done.stderr


def interrupted(program, output, after):
    """A run that is stopped after so many of its payloads."""
    words = ["ping", "inmem?delay=5ms", "--payloads", "64,1k,4k", "-n", "300", "--no-floor", *QUIET, "-o", str(output)]
    running = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL)
    trials, end = output / "trials.jsonl", time.monotonic() + LONGEST_S
    while time.monotonic() < end and not (trials.exists() and trials.read_text().count('"kind":"payload"') >= after):
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    return running.wait(LONGEST_S)


def resumed(program, output):
    """A run that was stopped, and went on."""
    interrupted(program, output, 1)
    return run(program, ["run", "--resume", str(output), *QUIET])[0]


def recorded(program, output):
    """A recording of two topics, played."""
    from mcap.writer import Writer

    with tempfile.TemporaryDirectory() as place:
        file = pathlib.Path(place) / "drive.mcap"
        with file.open("wb") as made:
            writer = Writer(made)
            writer.start("ros2", "corpus.py")
            schema = writer.register_schema("example/msg/Bytes", "ros2msg", b"uint8[] data")
            channels = {name: writer.register_channel(name, "cdr", schema) for name in ("/odom", "/image")}
            sent = [("/odom", n * 5_000_000, 720) for n in range(60)] + [("/image", n * 60_000_000, 50_000) for n in range(5)]
            for sequence, (topic, at, size) in enumerate(sorted(sent, key=lambda one: one[1])):
                writer.add_message(channels[topic], 10**18 + at, bytes(size), 10**18 + at, sequence)
            writer.finish()
        return run(program, ["replay", str(file), "inmem", "uds", *QUIET, "-o", str(output)])[0]


def of_two_programs(program, output):
    """A run whose follower was started by hand."""
    name = f"corpus-{time.time_ns()}"
    follower = subprocess.Popen([program, "follow", "--rendezvous", name], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    words = ["ping", "uds", *SMALL, "-n", "100", f"--rendezvous={name}", *QUIET, "-o", str(output)]
    code = run(program, words)[0]
    follower.wait(LONGEST_S)
    return code


# Takes the place of ssh: the other host is this one.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift 2
PATH=$HOST:/usr/bin:/bin
unset SSH_CONNECTION
exec sh -c "$*"
"""


def of_two_hosts(program, output):
    """A run whose follower is said to be on another host."""
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        ssh = place / "ssh"
        ssh.write_text(SSH)
        ssh.chmod(0o755)
        (place / "tripmeter").symlink_to(program)
        words = ["publish", "tcp", "udp", "-n", "100", "--rate", "1000", *SMALL, *QUIET, "--to", "lab", "--interface", "127.0.0.1",
                 "--to-interface", "127.0.0.1", "-o", str(output)]
        environment = {**os.environ, "TRIPMETER_SSH": str(ssh), "HOST": str(place)}
        return run(program, words, environment=environment)[0]


# What is more than one command.
OTHERS = {
    "interrupted": lambda program, output: interrupted(program, output, 1),
    "resumed": resumed,
    "replay": recorded,
    "by-hand": of_two_programs,
    "two-hosts": of_two_hosts,
}


def make(program, name, output):
    """Makes one of them. Returns the exit code."""
    if name in OTHERS:
        return OTHERS[name](program, output)
    return run(program, words_of(name, output))[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or [*COMMANDS, *OTHERS]:
        output = arguments.folder.resolve() / name
        code = make(str(arguments.program.resolve()), name, output)
        for left in ("samples", "logs", "plots"):
            shutil.rmtree(output / left, ignore_errors=True)
        print(f"{name}: exit code {code}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
