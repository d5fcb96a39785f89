"""Cyclone DDS: `ddsperf ping` and `ddsperf pong`, over UDP on the loopback interface, in a free domain."""

import os
import re
import shutil
import socket
import statistics
import subprocess
import time

from .common import RunFailed, missing_plugin

# ddsperf's two ways of waiting, and Tripmeter's names for them. ddsperf binds no threads, and their placement by the
# kernel changes the figure more than anything else. So each process is confined to one CPU with all its threads.
CELLS = [
    {"native": "ddsperf, listener", "transport": "cyclonedds/udp", "wait": "callback", "confined": True,
     "mode": "listener", "flags": []},
    {"native": "ddsperf, waitset", "transport": "cyclonedds/udp", "wait": "block", "confined": True,
     "mode": "waitset", "flags": []},
    {"native": "ddsperf -u, listener", "transport": "cyclonedds/udp?reliability=best_effort", "wait": "callback",
     "confined": True, "mode": "listener", "flags": ["-u"]},
]

# Configuration of transport `cyclonedds`: the same buffers, and the same limit of unacknowledged bytes.
CONFIGURATION = """<CycloneDDS><Domain><General><Interfaces><NetworkInterface address="127.0.0.1" multicast="false"/>
</Interfaces><AllowMulticast>false</AllowMulticast></General>
<Discovery><ParticipantIndex>auto</ParticipantIndex><Peers><Peer address="127.0.0.1"/></Peers></Discovery>
<Internal><SocketReceiveBufferSize max="{buffer}B"/><SocketSendBufferSize max="{buffer}B"/>
<Watermarks><WhcHigh>{unacknowledged}B</WhcHigh></Watermarks></Internal>
</Domain></CycloneDDS>"""

# Values of the transport: its default depth, the size of a fragment, and the room beyond `depth` messages for each way
# of waiting.
DEPTH = 16
FRAGMENT_BYTES = 1344
ROOM_BYTES = {"listener": 256 << 20, "waitset": 500 << 10}

LINE = re.compile(r" size (\d+) mean [\d.]+us min [\d.]+us 50% ([\d.]+)us .* cnt (\d+)$")


def missing():
    if not shutil.which("ddsperf"):
        return "ddsperf is not installed; install cyclonedds-tools"
    return missing_plugin("cyclonedds")


def build():
    """There is nothing to build."""


def free_domain():
    """A domain whose first discovery port is free (DDSI-RTPS 2.3, 9.6.1.1)."""
    for domain in range(100, 0, -1):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("127.0.0.1", 7400 + 250 * domain + 10))
            except OSError:
                continue
        return domain
    raise RunFailed("no free DDS domain")


def run(options, cell, payload_bytes):
    buffer = max(1 << 20, 4 * payload_bytes)
    unacknowledged = DEPTH * (payload_bytes + FRAGMENT_BYTES) + ROOM_BYTES[cell["mode"]]
    configuration = CONFIGURATION.format(buffer=buffer, unacknowledged=unacknowledged).replace("\n", "")
    environment = {**os.environ, "CYCLONEDDS_URI": configuration}
    common = ["ddsperf", "-i", str(free_domain()), *cell["flags"], "-D"]
    pong = subprocess.Popen(["taskset", "-c", str(options.follower_cpu), *common, str(options.seconds + 2), "pong",
                             cell["mode"]], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.3)
        command = ["taskset", "-c", str(options.leader_cpu), *common, str(options.seconds + 1), "ping", "size",
                   str(payload_bytes), cell["mode"]]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.seconds + 30)
    except subprocess.TimeoutExpired:
        raise RunFailed("ddsperf ping does not end") from None
    finally:
        pong.kill()
        pong.wait()
    seconds = [LINE.search(line) for line in done.stdout.splitlines()]
    medians = [float(found[2]) for found in seconds if found and int(found[1]) == payload_bytes and int(found[3]) > 1]
    # The first second includes discovery and warm-up.
    if len(medians) < 2:
        raise RunFailed(f"ddsperf gave no figures for {payload_bytes} bytes: {(done.stdout + done.stderr)[-300:]}")
    return statistics.median(medians[1:]) * 1000
