#!/usr/bin/env python3
"""Writes a wheel of a built program and the reader of results: wheel.py PROGRAM OUT.

The platform tag names the oldest glibc that has every symbol that the program needs. A program is refused if it needs a
library that some distributions lack. Equal programs make equal bytes: times are SOURCE_DATE_EPOCH, or 1980.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Source: PEP 600, and auditwheel's list of libraries.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}


def platform_tag(program):
    """Platform tag of the wheel, from the libraries and symbols that the program needs."""
    header = subprocess.run(["readelf", "-dhW", program], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", header))
    if other := {name for name in needed - EVERYWHERE if not name.startswith("ld-linux")}:
        sys.exit(f"wheel: {program} needs {', '.join(sorted(other))}, which is not on every machine")
    symbols = subprocess.run(["readelf", "-VW", program], check=True, capture_output=True, text=True).stdout
    versions = [tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_(\d+\.\d+)", symbols)]
    machine = {"X86-64": "x86_64", "AArch64": "aarch64"}[re.search(r"Machine:.* (\S+)$", header, re.M)[1]]
    return "manylinux_{}_{}_{}".format(*max(versions), machine)


def main(program, out):
    """Writes the wheel and prints its name."""
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    version, tag = workspace["version"], f"py3-none-{platform_tag(program)}"
    info = f"tripmeter-{version}.dist-info"
    files = {f"tripmeter/{file.name}": file.read_bytes() for file in (ROOT / "packaging/python/tripmeter").glob("*.py")}
    files[f"tripmeter-{version}.data/scripts/tripmeter"] = pathlib.Path(program).read_bytes()
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{info}/licenses/{name}"] = (ROOT / name).read_bytes()
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.4\nName: tripmeter\nVersion: {version}\n"
        "Summary: Measures message paths, and reads the results\n"
        f"License-Expression: {workspace['license']}\nLicense-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\n"
        "Requires-Python: >=3.11\nProvides-Extra: pandas\nRequires-Dist: pandas; extra == 'pandas'\n"
        "Requires-Dist: pyarrow; extra == 'pandas'\n"
        "Provides-Extra: polars\nRequires-Dist: polars; extra == 'polars'\n").encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tripmeter\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = f"{info}/RECORD"
    digest = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() for name, data in files.items()}
    rows = [f"{name},sha256={digest[name]},{len(files[name])}" for name in sorted(files)]
    files[record] = "\n".join([*rows, f"{record},,\n"]).encode()
    date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]
    name = pathlib.Path(out) / f"tripmeter-{version}-{tag}.whl"
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for entry in sorted(files, key=lambda entry: (entry == record, entry)):
            member = zipfile.ZipInfo(entry, date)
            member.external_attr = (0o100755 if "/scripts/" in entry else 0o100644) << 16
            wheel.writestr(member, files[entry], zipfile.ZIP_DEFLATED)
    print(name)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: wheel.py PROGRAM OUT")
    main(*sys.argv[1:])
