#!/usr/bin/env bash
# libzmq 4.3.4: a PUSH socket that once met a socket of a wrong type at its endpoint never connects there again.
#
# Guess: a PUSH that met a REP connects to the PULL that is bound at the same endpoint later, as it does if nobody was bound first.
# Seen: nothing reports an error. A few sends succeed at most, later ones would block for ever, and the PULL gets nothing. The
# monitor of the PUSH shows a connection and its end, no retry, and no event that names the cause. A second connect helps.
# Users meet this after a wrong or stale process held the port: the right process, started later, gets nothing. Wait for
# HANDSHAKE_SUCCEEDED in the monitor before a measurement.
# Source: session_base_t::engine_error in src/session_base.cpp of libzmq reconnects after a connection error or a timeout, and
# gives up after a protocol error.
#
# Needs Linux, Python 3.7 to 3.11 with venv, and unshare (util-linux). Installs into a temporary folder only.
set -euo pipefail

# The wheel contains libzmq 4.3.4.
pyzmq=25.1.1
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
cd "$place"
{ python3 -m venv venv && venv/bin/pip install --no-compile --only-binary :all: pyzmq=="$pyzmq"; } >pip.log 2>&1 ||
    { cat pip.log >&2; exit 69; }

cat >meet.py <<'END'
import sys, time
import zmq
from zmq.utils.monitor import parse_monitor_message

ENDPOINT = "tcp://127.0.0.1:5555"


def bind(kind):
    socket = theirs.socket(kind)
    end = time.monotonic() + 30
    while True:
        try:
            socket.bind(ENDPOINT)
            return socket
        except zmq.ZMQError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def wait_for(wanted, seconds):
    seen = set()
    end = time.monotonic() + seconds
    while wanted not in seen and time.monotonic() < end:
        if monitor.poll(100):
            seen.add(zmq.Event(parse_monitor_message(monitor.recv_multipart())["event"]).name)
    return seen


def send_to(pull):
    sent = received = 0
    for _ in range(100):
        try:
            push.send(b"x", zmq.DONTWAIT)
            sent += 1
        except zmq.Again:
            pass
        # The socket learns while it sends that it has lost its connection.
        time.sleep(0.02)
    while received < sent and pull.poll(5000):
        pull.recv()
        received += 1
    return f"sent {'a few at most' if sent < 20 else sent}, received {received}"


case = sys.argv[1]
theirs, mine = zmq.Context(), zmq.Context()
push = mine.socket(zmq.PUSH)
push.linger = 0
monitor = push.get_monitor_socket()
peer = None if case == "nobody" else bind(getattr(zmq, case))
push.connect(ENDPOINT)
wait_for({"nobody": "CONNECT_RETRIED", "PULL": "HANDSHAKE_SUCCEEDED", "REP": "DISCONNECTED"}[case], 30)
while case == "REP" and "CONNECT_RETRIED" in wait_for("CONNECT_RETRIED", 3):
    pass  # a reset connection; the next one meets the REP
if peer is not None:
    peer.close(linger=0)
pull = bind(zmq.PULL)
seen = wait_for("HANDSHAKE_SUCCEEDED", 5 if case == "REP" else 30)
print("later:", next((event for event in ("HANDSHAKE_SUCCEEDED", "CONNECT_RETRIED") if event in seen), "no success, no retry"))
print("100 sends to the PULL:", send_to(pull))
if case == "REP":
    push.connect(ENDPOINT)
    wait_for("HANDSHAKE_SUCCEEDED", 30)
    print("after a second connect:", send_to(pull))
mine.destroy(linger=0)
theirs.destroy(linger=0)
END
# In a network of its own, with its own ports.
run() { timeout 300 unshare --user --map-root-user --net sh -c "ip link set lo up && venv/bin/python meet.py $1"; }
version=$(venv/bin/python -c 'import zmq; print(zmq.zmq_version())')
nobody=$(run nobody)
same=$(run PULL)
wrong=$(run REP)
printf 'libzmq %s, a PUSH meets first, and then a PULL\nnobody:\n%s\na PULL:\n%s\na REP:\n%s\n' \
    "$version" "$nobody" "$same" "$wrong"
right=$'later: HANDSHAKE_SUCCEEDED\n100 sends to the PULL: sent 100, received 100'
dead=$'later: no success, no retry\n100 sends to the PULL: sent a few at most, received 0'
again=$'\nafter a second connect: sent 100, received 100'
if [[ $version != 4.3.4 || $nobody != "$right" || $same != "$right" || $wrong != "$dead$again" ]]; then
    echo 'CHANGED' >&2
    exit 1
fi
