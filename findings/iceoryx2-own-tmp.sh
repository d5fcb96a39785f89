#!/usr/bin/env bash
# iceoryx2 0.10.0: two processes that share /dev/shm, but have a /tmp each, open one service without an error and never meet.
#
# Guess: the second process gets an error, as the service's memory exists in /dev/shm already.
# Seen: both open the service, create their ports, and see none but their own. Send returns 0, receive finds nothing.
# Users meet this in containers that share the host's IPC namespace (--ipc=host), which shares /dev/shm but not /tmp: share
# /tmp/iceoryx2 too, and wait until both sides see each other.
# Source: iceoryx2 looks services up in files below its root path, /tmp/iceoryx2 (ICEORYX2_ROOT_PATH in
# iceoryx2-pal-configuration 0.10.0, src/lib.rs).
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

iox2.set_log_level(iox2.LogLevel.Info)
node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
service = node.service_builder(iox2.ServiceName.new("finding")).publish_subscribe(ctypes.c_uint64).open_or_create()
role = sys.argv[1]
port = (service.publisher_builder() if role == "publisher" else service.subscriber_builder()).create()
print("created", flush=True)
for line in sys.stdin:
    if line == "count\n":
        seen = service.dynamic_config
        print(f"sees {seen.number_of_publishers} publishers and {seen.number_of_subscribers} subscribers", flush=True)
    elif role == "publisher":
        print(port.send_copy(ctypes.c_uint64(7)), flush=True)
    else:
        sample = port.receive()
        print(sample.payload().contents.value if sample is not None else "nothing", flush=True)
        del sample
END
cat >drive.py <<'END'
import subprocess, sys, time


class Port:
    def __init__(self, role, prefix):
        self.process = subprocess.Popen(
            [*prefix, "venv/bin/python", "port.py", role], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def answer(self):
        return self.process.stdout.readline().strip()

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


own = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /tmp && exec "$@"', "sh"]
subscriber = Port("subscriber", [])
print("subscriber:", subscriber.answer())
publisher = Port("publisher", own if sys.argv[1] == "own" else [])
print("publisher:", publisher.answer())
returned, found = [], []
for _ in range(30):
    returned.append(publisher.ask("send"))
    found.append(subscriber.ask("receive"))
    time.sleep(0.1)
print("30 sends return", *sorted(set(returned)), "and 30 receives find", *sorted(set(found)))
print("subscriber", subscriber.ask("count"))
print("publisher", publisher.ask("count"))
publisher.close()
subscriber.close()
END
# With a /dev/shm and a /tmp that no other program uses.
run() {
    unshare --user --map-root-user --mount sh -c \
        "mount -t tmpfs none /dev/shm && mount -t tmpfs none /tmp && timeout 300 venv/bin/python drive.py $1" 2>&1 |
        grep -v '^No config file was loaded'
}
shared=$(run shared)
own=$(run own)
printf 'iceoryx2 %s\nshared /dev/shm and /tmp:\n%s\nshared /dev/shm, a /tmp each:\n%s\n' "$version" "$shared" "$own"
created=$'subscriber: created\npublisher: created'
expect() { printf '%s\n' "$created" "30 sends return $1 and 30 receives find $2" "subscriber sees $3" "publisher sees $4"; }
if [[ $shared != "$(expect 1 7 '1 publishers and 1 subscribers' '1 publishers and 1 subscribers')" ]]; then
    echo 'CHANGED: with a shared /tmp' >&2
    exit 1
fi
if [[ $own != "$(expect 0 nothing '0 publishers and 1 subscribers' '1 publishers and 0 subscribers')" ]]; then
    echo 'CHANGED: with a /tmp each' >&2
    exit 1
fi
