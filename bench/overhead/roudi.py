"""Runs RouDi, the daemon of iceoryx, for the duration of a benchmark."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOCKET = "/tmp/roudi"
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
CHUNKS = 64


def is_running():
    """True if a RouDi accepts messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        try:
            client.connect(SOCKET)
        except OSError:
            return False
    return True


def configuration(payload_bytes):
    """Memory pools for messages up to `payload_bytes`."""
    sizes = [size for size in (256, 4 << 10, 64 << 10, 1 << 20) if size < payload_bytes]
    sizes.append((payload_bytes + 7) // 8 * 8)
    pools = [f"[[segment.mempool]]\nsize = {size}\ncount = {CHUNKS}\n" for size in sizes]
    return "[general]\nversion = 1\n\n[[segment]]\n\n" + "\n".join(pools)


class RouDi:
    """Uses a running RouDi; if there is none, starts one and stops it at the end."""

    def __init__(self, payload_bytes):
        self.payload_bytes = payload_bytes
        self.process = None
        self.scratch = tempfile.TemporaryDirectory(prefix="tripmeter-overhead-roudi-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.scratch.cleanup()

    def ensure(self):
        """Starts RouDi if needed. Called before every run: a RouDi that someone else started may end at any time."""
        if is_running():
            return
        if shutil.which("iox-roudi") is None:
            sys.exit("iox-roudi is not installed; install package iceoryx")
        self.stop()
        config, log_path = Path(self.scratch.name) / "roudi.toml", Path(self.scratch.name) / "log"
        config.write_text(configuration(self.payload_bytes))
        with log_path.open("w") as log:
            self.process = subprocess.Popen(["iox-roudi", "-c", str(config), "-m", "off", "-l", "warning"], stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL, cwd=self.scratch.name)
        deadline = time.monotonic() + START_TIMEOUT_S
        while "ready for clients" not in log_path.read_text() and time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        if not is_running():
            sys.exit(f"iox-roudi did not start within {START_TIMEOUT_S:.0f} s:\n{log_path.read_text()}")

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
