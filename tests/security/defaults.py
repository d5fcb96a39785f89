#!/usr/bin/env python3
"""Which files with settings the measured systems look for: defaults.py TRIPMETER [--table FILE | --check FILE] [SYSTEM...].

Measures each system that is here (or those named) under strace, with all its variants, and with its security, from a
working directory that everybody may write to, with a home of its own, and with the variables in VARIABLES set to files
that are not there. Notes the paths that its processes, and the daemons that they start, look for; not those of libraries, of the
locale, of names and of certificates (IGNORED). Fails if a process looks for a file in that working directory.
--table writes what was found as Markdown, for docs/security.md; --check fails if the file has something else. Rows of
systems that are not named, or not here, stay.

To be run by scripts/isolated.sh.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LONGEST_S = 600
PARTIAL = 75
HEAD = [
    "| system | in its working directory | in the home | of the machine | named by a variable |",
    "| --- | --- | --- | --- | --- |",
]
PATTERNS = ("ping", "publish", "call", "log")
SECURITY = {"security": "on", "tls": "on"}
# Variables that name a file or folder, by the systems' documentation and the strings in their libraries.
VARIABLES = [
    "CYCLONEDDS_URI",
    "ECAL_CONFIG_DIR",
    "ECAL_DATA",
    "FASTDDS_DEFAULT_PROFILES_FILE",
    "FASTDDS_ENVIRONMENT_FILE",
    "FASTRTPS_DEFAULT_PROFILES_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "GRPC_XDS_BOOTSTRAP",
    "OPENSSL_CONF",
    "ROS_SECURITY_KEYSTORE",
    "SSLKEYLOGFILE",
    "ZENOH_CONFIG",
    "ZENOH_HOME",
]
# What no system is configured by: libraries and their search, names of users and hosts, locales, certificates, programs.
IGNORED = re.compile(
    r"/(proc|sys|dev|bin|sbin|lib|lib64)(/.*)?"
    r"|/usr(/(?!lib/ssl/openssl).*)?"
    r"|/etc/(ld\.so\..*|nsswitch\.conf|passwd|group|hosts?|host\.conf|resolv\.conf|gai\.conf|services|protocols|localtime"
    r"|locale\.alias|timezone|machine-id|os-release|ssl/certs.*)"
    r"|/(opt|run|var|etc|tmp|home)?|/run/(systemd|nscd|user).*|/var/run/nscd.*|/etc/ssl"
)
# Lists of the contract with transports, which the program looks for.
LISTS = ("queues", "shared-memory", "sysv-queues")
CALL = re.compile(r"(\d+) +(?:(\w+)\(|<\.\.\. (\w+) resumed>)(.*)")
STRING = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
MAKING = ("mkdir", "mkdirat", "rename", "renameat", "renameat2", "bind", "symlink", "link", "linkat", "mknod", "mknodat")
FORKS = ("clone", "clone3", "fork", "vfork")


class Trace:
    """The paths that processes look for, absolute, and what they made."""

    def __init__(self, file, folder):
        self.looked, self.made, self.parents, self.folders = set(), set(), {}, {}
        self.begin = str(folder)
        begun, looks = {}, []
        for line in file.read_text(errors="replace").splitlines():
            match = CALL.match(line)
            if not match:
                continue
            pid, name, resumed, rest = match.groups()
            if name and rest.endswith("<unfinished ...>"):
                begun[pid] = rest.removesuffix("<unfinished ...>")
                continue
            if resumed:
                name, rest = resumed, begun.pop(pid, "") + rest
            arguments, _, result = rest.rpartition(" = ")
            has_failed = result.startswith(("-", "?"))
            if name in FORKS:
                if not has_failed:
                    self.parents[result.split()[0]] = pid
                continue
            paths = STRING.findall(arguments)
            if name.startswith("readlink"):
                # What follows is what it found.
                paths = paths[:1]
            if name == "chdir":
                if not has_failed:
                    self.folders[pid] = paths[0][1]
            elif name in ("execve", "execveat", "getcwd"):
                # Looked for by the path variable, or an answer.
                continue
            else:
                is_made = not has_failed and (name in MAKING or "O_CREAT" in arguments)
                looks.extend((pid, base, path, is_made) for base, path in paths)
        for pid, base, path, is_made in looks:
            whole = os.path.normpath(os.path.join(base or self.folder_of(pid), path))
            (self.made if is_made else self.looked).add(whole)

    def folder_of(self, pid):
        """The working directory: a process changes it before it becomes another program, and never afterwards."""
        while pid not in self.folders and pid in self.parents:
            pid = self.parents[pid]
        return self.folders.get(pid, self.begin)


class Places:
    """The folders of one measurement, and how the table names paths in them."""

    def __init__(self, root, tripmeter, data):
        self.root, self.ours = pathlib.Path(root), [tripmeter.parent.parent, data]
        self.open, self.home, self.named, self.temporary, self.results = (
            self.root / name for name in ("open", "home", "named", "temporary", "results")
        )
        for folder in (self.open, self.home, self.named, self.temporary):
            folder.mkdir()
        self.open.chmod(0o1777)
        self.data = data

    def kind(self, path):
        """Where a path is, and its name there; nothing of ours, or of what is ignored."""
        of = lambda folder: path.startswith(f"{folder}/") and path[len(str(folder)) + 1 :]
        scratch = re.fullmatch(rf"{re.escape(str(self.temporary))}/tripmeter-[^/]*/\d+/(.*)", path)
        if scratch:
            return None if scratch[1].split("/")[-1] in LISTS else ("private", scratch[1])
        if name := of(self.open):
            return "open", name
        if name := of(self.home):
            return "home", name
        if name := of(self.named):
            return "variable", name
        # The program's and its plugins', and the folders that these are in.
        if any(path == str(one) or of(one) or str(one).startswith(f"{path}/") for one in (self.root, *self.ours)):
            return None
        # A library's search for what stands beside it, a program's for itself.
        if re.search(r"\.so(\.\d+)*$", path) or IGNORED.fullmatch(path):
            return None
        return "machine", path


def run_id(text):
    """The text without what chance or the kernel chose."""
    text = re.sub(r"tripmeter-[0-9a-f]+-\d+-\d+(-[0-9a-f]{8})?", "RUN", text)
    return re.sub(r"[0-9a-f]{12,}|\d{4,}", "N", text)


def commands(system):
    """The commands that measure each variant once, with and without security: a list of arguments each."""
    description = system["description"]
    settings = {setting["name"] for setting in description["settings"]}
    here = {one["variant"] for one in system["variants"] if one["available"]}
    for pattern in PATTERNS:
        first = lambda variant: next((one for one in PATTERNS if one in variant["patterns"]), None)
        meant = [one for one in description["variants"] if one["name"] in here and first(one) == pattern]
        # Who polls competes with strace.
        for wait in ("block", "callback", "poll"):
            names = [one["name"] for one in meant if wait in one["waits"]]
            meant = [one for one in meant if wait not in one["waits"]]
            if names:
                more = ["--wait", wait] if pattern != "log" else []
                yield [pattern, *more, *(f"{system['system']}/{name}" for name in names)]
                for setting in sorted(settings & set(SECURITY)):
                    yield [pattern, *more, f"{system['system']}/{names[0]}?{setting}={SECURITY[setting]}"]


def traced(tripmeter, arguments, places, trace):
    """Measures, and returns what was said if that failed."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("RUST_LOG", "SSL_CERT", "PYTHON"))},
        **{name: str(places.named / name) for name in VARIABLES},
        "HOME": str(places.home),
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "XDG_DATA_HOME": str(places.data),
        "TMPDIR": str(places.temporary),
        "XDG_RUNTIME_DIR": "",
    }
    for name in ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "4096", "-e", "signal=none"]
    strace += ["-e", f"trace=%file,?{',?'.join(FORKS)},bind", "-o", str(trace), "--"]
    words = [arguments[0], "--no-floor", "--no-spin", "--no-report", "--raw", "none", "-n", "20"]
    words += [*arguments[1:], "-o", str(places.results)]
    words += [] if arguments[0] == "log" else ["--payloads", "64", "--warmup", "10", "--attempts", "1"]
    done = subprocess.run(
        [*strace, tripmeter, *words], cwd=places.open, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=LONGEST_S, check=False,
    )
    # Proofs of paths may see strace.
    if done.returncode in (0, PARTIAL) and "failed" not in done.stderr:
        return ""
    return f"{' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()[-600:]}"


def looks(tripmeter, system, data):
    """What the processes of a system look for: {kind: names}, and findings."""
    found, findings = {}, []
    for arguments in commands(system):
        with tempfile.TemporaryDirectory(prefix="defaults-", dir="/tmp") as root:
            places, trace = Places(root, pathlib.Path(tripmeter), data), pathlib.Path(root) / "trace"
            why = traced(tripmeter, arguments, places, trace)
            if why:
                findings.append(why)
            seen = Trace(trace, places.open)
            inside = {parent for one in seen.made for parent in pathlib.PurePath(one).parents}
            for path in seen.looked - seen.made:
                kind = places.kind(path)
                # A name of a transport may be a file with an experiment.
                if kind and kind[1] not in arguments and pathlib.PurePath(path) not in inside:
                    found.setdefault(kind[0], set()).add(run_id(kind[1]))
    return found, findings


def cell(names):
    return "<br>".join(f"`{name}`" for name in sorted(names)) or "-"


def line(name, found):
    cells = [cell(found.get(kind, ())) for kind in ("private", "home", "machine", "variable")]
    return f"| `{name}` | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tripmeter", type=os.path.abspath)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="write what was found as Markdown")
    parser.add_argument("--check", type=pathlib.Path, metavar="FILE", help="fail if this is not what was found")
    arguments = parser.parse_intermixed_args()
    data = pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share")
    listed = subprocess.run([arguments.tripmeter, "list", "--json"], capture_output=True, text=True, check=True).stdout
    systems = {one["system"]: one for one in json.loads(listed)}
    # What the program itself looks for, it does so with every system.
    itself, findings = looks(arguments.tripmeter, systems["pipe"], data)
    findings += [f"{one} is looked for in the working directory of the user" for one in itself.get("open", ())]
    rows = {"the program": itself}
    for name, system in systems.items():
        if arguments.systems and name not in arguments.systems or name == "pipe":
            continue
        if not any(one["available"] for one in system["variants"]):
            print(f"SKIPPED: {name}: nothing of it is here", file=sys.stderr)
            continue
        found, problems = looks(arguments.tripmeter, system, data)
        rows[name] = {kind: names - itself.get(kind, set()) for kind, names in found.items()}
        problems += [f"{one} is looked for in the working directory of the user" for one in rows[name].get("open", ())]
        print(f"{name}: {'; '.join(problems) or 'ok'}", file=sys.stderr, flush=True)
        findings += problems
    lines = {name: line(name, found) for name, found in rows.items()}
    file = arguments.table or arguments.check
    kept = dict(re.findall(r"^(\| `(.*?)` .*)$", file.read_text(), re.M)) if file and file.exists() else {}
    kept = {name: row for row, name in kept.items()}
    # Rows of systems that were not meant, or are not here, stay.
    order = ["the program", *systems]
    table = [*HEAD, *(row for _, row in sorted({**kept, **lines}.items(), key=lambda one: order.index(one[0])))]
    if arguments.table:
        arguments.table.write_text("\n".join(table) + "\n")
    elif arguments.check:
        stale = [name for name, row in lines.items() if kept.get(name) != row]
        for name in stale:
            print(f"defaults.py: {file} has\n- {kept.get(name)}\n+ {lines[name]}", file=sys.stderr)
        findings += stale
    else:
        print("\n".join(table))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
