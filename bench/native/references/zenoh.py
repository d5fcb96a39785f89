"""zenoh: a minimal ping-pong of two processes on its crate (transports/zenoh/examples/pingpong.rs)."""

import shutil
import subprocess
import sys

from .common import Loop, missing_plugin

CELLS = [
    {"native": f"loop on the crate, {over}", "transport": f"zenoh/{over}", "wait": "block", "confined": False,
     "over": over, "joins": False}
    for over in ("tcp", "unix", "shm")
] + [
    {"native": f"loop on the crate, {over}, joins pieces", "transport": f"zenoh/{over}", "wait": "block",
     "confined": False, "over": over, "joins": True}
    for over in ("tcp", "unix")
]


class Example(Loop):
    """Loop that is an example of the plugin's crate, so that zenoh, which takes minutes, is built only once."""

    def __init__(self):
        super().__init__("zenoh")
        self.folder = self.folder.parent.parent.parent / "transports" / "zenoh"
        self.target = self.target.parent / "plugins"
        self.program = self.target / "release" / "examples" / "pingpong"

    def build(self):
        command = ["cargo", "build", "--release", "--locked", "--example", "pingpong", "--manifest-path",
                   str(self.folder / "Cargo.toml"), "--target-dir", str(self.target)]
        if subprocess.run(command, stdout=sys.stderr).returncode != 0:
            sys.exit("zenoh: its loop does not build; see above")


LOOP = Example()


def missing():
    return missing_plugin("zenoh") if shutil.which("cargo") else "cargo is not installed"


def build():
    LOOP.build()


def run(options, cell, payload_bytes):
    return LOOP.run(options, payload_bytes, "--over", cell["over"], "--joins", str(cell["joins"]).lower())
