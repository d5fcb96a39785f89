#!/usr/bin/env bash
# iceoryx2 0.10.0 loses messages without an error, safe overflow off, until the subscriber has received for the first time.
#
# Guess: where safe overflow is off, a publisher with the default strategy, RetryUntilDelivered, waits while the buffer is full.
# Seen: a subscriber that was created before the publisher does not open the connection until its first receive. Until then send
# fills the buffer, returns 0 without waiting or an error, and the message is lost. After a first receive, send waits.
# Users meet this where a publisher starts after its subscriber, and the subscriber is busy before its first receive. The
# remedies are a first receive that finds nothing, and a look at the count that send returns.
# Source: iceoryx2-cal 0.10.0, src/zero_copy_connection/common.rs: blocking_send waits only while is_connected.
#
# Needs Linux, python3 with venv, and unshare (util-linux). Installs into a temporary folder only.
set -euo pipefail

version=0.10.0
place=$(mktemp -d -p /var/tmp)
trap 'rm -rf -- "$place"' EXIT
cd "$place"
{ python3 -m venv venv && venv/bin/pip install --no-compile iceoryx2=="$version" flatbuffers==25.12.19; } >pip.log 2>&1 ||
    { cat pip.log >&2; exit 69; }

cat >port.py <<'END'
import ctypes, sys
import iceoryx2 as iox2

iox2.set_log_level(iox2.LogLevel.Error)
node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
service = (
    node.service_builder(iox2.ServiceName.new("finding"))
    .publish_subscribe(ctypes.c_uint64)
    .enable_safe_overflow(False)
    .subscriber_max_buffer_size(2)
    .open_or_create()
)
role = sys.argv[1]
port = (service.publisher_builder() if role == "publisher" else service.subscriber_builder()).create()
print(port.backpressure_strategy if role == "publisher" else "created", flush=True)
for line in sys.stdin:
    if role == "publisher":
        print(port.send_copy(ctypes.c_uint64(int(line))), flush=True)
        continue
    sample = port.receive()
    print(sample.payload().contents.value if sample is not None else "nothing", flush=True)
    del sample
END
cat >drive.py <<'END'
import queue, subprocess, sys, threading, time


class Port:
    def __init__(self, role):
        self.process = subprocess.Popen(
            ["venv/bin/python", "port.py", role], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")

    def answer(self, seconds=60):
        return self.lines.get(timeout=seconds)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


def take(subscriber, goal):
    got = []
    end = time.monotonic() + 60
    while len(got) < goal and time.monotonic() < end:
        subscriber.ask("receive")
        answer = subscriber.answer()
        if answer == "nothing":
            time.sleep(0.01)
        else:
            got.append(answer)
    subscriber.ask("receive")
    return [*got, subscriber.answer()]


subscriber = Port("subscriber")
subscriber.answer()
publisher = Port("publisher")
print("strategy:", publisher.answer())
if sys.argv[1] == "first":
    subscriber.ask("receive")
    print("first receive:", subscriber.answer())
for number in range(1, 6):
    publisher.ask(number)
returned = []
try:
    while len(returned) < 5:
        returned.append(publisher.answer(60 if len(returned) < 2 else 10))
except queue.Empty:
    returned.append("waits")
print("sends return:", *returned)
print("received:", *take(subscriber, 5 if "waits" in returned else 2))
publisher.close()
subscriber.close()
END
# With a /dev/shm and a /tmp of its own.
run() {
    unshare --user --map-root-user --mount sh -c \
        "mount -t tmpfs none /dev/shm && mount -t tmpfs none /tmp && timeout 300 venv/bin/python drive.py $1"
}
none=$(run none)
first=$(run first)
printf 'iceoryx2 %s\nno receive before the sends:\n%s\none receive before the sends:\n%s\n' "$version" "$none" "$first"
strategy='strategy: RetryUntilDelivered'
if [[ $none != "$strategy"$'\nsends return: 1 1 0 0 0\nreceived: 1 2 nothing' ]]; then
    echo 'CHANGED: without a first receive' >&2
    exit 1
fi
if [[ $first != "$strategy"$'\nfirst receive: nothing\nsends return: 1 1 waits\nreceived: 1 2 3 4 5 nothing' ]]; then
    echo 'CHANGED: with a first receive' >&2
    exit 1
fi
