#!/usr/bin/env python3
"""Prints a bill of materials, CycloneDX 1.6 as JSON, of the workspaces whose manifests are named on standard input.

Components are the crates in each Cargo.lock, with the licences that `cargo metadata` finds on this machine; the middleware in
each transport.toml (Debian packages in the installed version, Python packages in the pinned one); and the libraries in
crates/report/assets. Equal sources and packages make equal bytes.
"""

import json
import pathlib
import subprocess
import sys
import tomllib
import uuid
from urllib.parse import quote

ROOT = pathlib.Path(__file__).resolve().parent.parent


def licences(manifest):
    """Licences of the crates that are on this machine, by name and version."""
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1", "--manifest-path", manifest]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {(one["name"], one["version"]): one["license"] for one in json.loads(made.stdout)["packages"]}


def crates(manifest):
    """A component for each crate, with its dependencies."""
    known = licences(manifest)
    packages = tomllib.loads((ROOT / manifest).with_name("Cargo.lock").read_text())["package"]
    versions = {}
    for package in packages:
        versions.setdefault(package["name"], []).append(package["version"])

    def reference(text):
        name, *version = text.split(" ")[:2]
        return purl("cargo", name, version[0] if version else versions[name][0])

    for package in packages:
        name, version = package["name"], package["version"]
        component = library(purl("cargo", name, version), name, version)
        if licence := known.get((name, version)):
            # Old spelling of several licences in a crate.
            component["licenses"] = [{"expression": licence.replace("/", " OR ")}]
        if checksum := package.get("checksum"):
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        yield component, [reference(text) for text in package.get("dependencies", [])]


def purl(kind, name, version):
    return f"pkg:{kind}/{name}" + (f"@{quote(version, safe='')}" if version else "")


def library(reference, name, version, **properties):
    component = {"type": "library", "bom-ref": reference, "name": name, "purl": reference}
    if version:
        component["version"] = version
    if properties:
        component["properties"] = [{"name": f"tripmeter:{key}", "value": value} for key, value in properties.items()]
    return component


def installed(packages):
    """Versions of the Debian packages that are installed here."""
    command = ["dpkg-query", "-W", "-f", "${Package} ${Version}\\n", *packages]
    try:
        # Some may be missing.
        shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return {}
    return dict(line.split(" ", 1) for line in shown.splitlines() if not line.endswith(" "))


def middleware():
    """Components of the plugins that are not crates."""
    for file in sorted(ROOT.glob("transports/*/transport.toml")):
        sidecar = tomllib.loads(file.read_text())
        system = sidecar["system"]
        versions = installed(sidecar["packages"]) if sidecar["packages"] else {}
        for name in sidecar["packages"]:
            version = versions.get(name, "")
            yield library(purl("deb/debian", name, version), name, version, transport=system)
        for pinned in sidecar.get("python_packages", []):
            name, version = pinned.split("==")
            yield library(purl("pypi", name, version), name, version, transport=system)
    locked = json.loads((ROOT / "tools/echarts/package-lock.json").read_text())["packages"]
    for path, package in sorted(locked.items()):
        # Tools that make the file do not belong to it.
        if path and not package.get("dev"):
            name = path.removeprefix("node_modules/")
            yield library(purl("npm", name, package["version"]), name, package["version"], part="report")


def main():
    components, dependencies = {}, {}
    for manifest in sys.stdin.read().split():
        for component, needs in crates(manifest):
            reference = component["bom-ref"]
            components.setdefault(reference, component)
            dependencies.setdefault(reference, set()).update(needs)
    for component in middleware():
        components.setdefault(component["bom-ref"], component)
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    components = [components[reference] for reference in sorted(components)]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components))}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "tripmeter",
                "name": "tripmeter",
                "version": version,
                "licenses": [{"expression": "Apache-2.0 OR MIT"}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": reference, "dependsOn": sorted(needs)} for reference, needs in sorted(dependencies.items())
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
