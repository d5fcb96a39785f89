#!/usr/bin/env python3
"""Prints the licences of all crates that are linked into a program or plugin: licences.py MANIFEST...

Each crate has a line with its version and licence. The licence texts in the crates follow, each once, with the crates that
have it. Dependencies of build scripts, macros and tests are left out, because they are not linked.
"""

import json
import pathlib
import re
import subprocess
import sys

PLATFORM = "x86_64-unknown-linux-gnu"


def linked(manifest):
    """Packages from registries that are linked into the crate of a manifest."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", PLATFORM]
    metadata = json.loads(subprocess.run([*command, "--manifest-path", manifest], check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, left = set(), [name for name in nodes if packages[name]["manifest_path"] == str(manifest)]
    while left:
        name = left.pop()
        is_macro = any("proc-macro" in target["kind"] for target in packages[name]["targets"])
        if name not in found and not is_macro:
            found.add(name)
            normal = [one for one in nodes[name]["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"])]
            left += [one["pkg"] for one in normal]
    return [packages[name] for name in found if packages[name]["source"]]


def texts(package):
    """The licence texts in a crate."""
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(file for file in folder.iterdir() if re.match(r"(?i)(licen[cs]e|copying|notice|copyright)", file.name))
    return [file.read_text(errors="replace").strip() for file in files if file.is_file()]


def main(manifests):
    """Prints all licences."""
    packages = {package["id"]: package for manifest in manifests for package in linked(pathlib.Path(manifest).resolve())}
    packages = sorted(packages.values(), key=lambda package: (package["name"], package["version"]))
    who = {}
    for package in packages:
        print(f"{package['name']} {package['version']}: {package['license'] or 'see its text'}")
        for text in texts(package):
            who.setdefault(re.sub(r"\s+", " ", text), (text, []))[1].append(package["name"])
    for text, names in who.values():
        print(f"\n{'-' * 80}\n{', '.join(dict.fromkeys(names))}\n\n{text}")


if __name__ == "__main__":
    main(sys.argv[1:])
