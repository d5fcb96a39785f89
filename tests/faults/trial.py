#!/usr/bin/env python3
"""One trial, in namespaces of its own: scripts/isolated.sh tests/faults/trial.py SPECIFICATION, and prints its line of JSON.

A run of three sub-experiments, the fault in the middle one, the checks of checks.py, then `tripmeter run --resume` without
the fault, and the same checks.
"""

import glob
import json
import os
import pathlib
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import time

import checks
import draw

# Whoever takes longer hangs: a trial takes seconds, with a time-out of the program half a minute.
LONGEST_S = 300
WORK = pathlib.Path("/tmp/work")
RESULTS = WORK / "disk" / "results"
TEMPORARY = WORK / "temporary"
FILE = WORK / "experiment.toml"
CLOCK = WORK / "clock"
MARK = WORK / "mark"
# Of file systems that can be full, with what a transport has in them.
SHM_BYTES, DISK_BYTES = 192 << 20, 64 << 20
LOOK_S = 0.001
# Most times that a file system is made smaller.
REMOUNTS = 100


def mount(folder, size, *more):
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-n", "-t", "tmpfs", "-o", ",".join([f"size={size}", "mode=1777", *more]), "none", str(folder)], check=True)


def fill(folder):
    """Writes until no byte is left; what has room already keeps it."""
    with open(f"{folder}/fill", "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                pass


def leave_nothing(folder):
    """Makes a file system as small as what is in it: at once, where writing takes longer than a worker takes to open."""
    # Refused where a transport takes more meanwhile.
    for _ in range(REMOUNTS):
        size = os.statvfs(folder)
        used = max((size.f_blocks - size.f_bfree) * size.f_frsize, size.f_frsize)
        tried = subprocess.run(["mount", "-n", "-o", f"remount,size={used}", str(folder)], capture_output=True, text=True)
        if tried.returncode == 0:
            return
    raise RuntimeError(f"'{folder}' cannot be made smaller, {REMOUNTS} times: {tried.stderr.strip()[-200:]}")


def children(pid):
    found = []
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            found += [int(child) for child in pathlib.Path(task).read_text().split()]
        except OSError:
            pass
    return found


def link(file):
    try:
        return os.readlink(file)
    except OSError:
        # It was closed meanwhile.
        return ""


def workers(pid):
    """The leader, which has the files of results open, and the follower."""
    leader, follower = None, None
    for child in children(pid):
        try:
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        files = [link(file) for file in glob.glob(f"/proc/{child}/fd/*")]
        if b"worker" not in words[1:2]:
            continue
        if any(part in file for file in files for part in ("/samples/", "/histograms/")):
            leader = child
        else:
            follower = child
    return leader, follower


class Trial:
    def __init__(self, specification):
        self.drawn = specification["drawn"]
        self.tripmeter = specification["tripmeter"]
        self.transports = specification["transports"]
        self.faulty = specification["faulty"]
        self.fault, self.moment = self.drawn["fault"], self.drawn["moment"]
        self.fired = self.moment == "start"
        # Trials at the same time have other process namespaces, and the same users.
        self.user = 200_000 + secrets.randbelow(1_000_000)
        self.then, self.findings, self.run, self.stopped = {}, [], None, []
        self.waited_s = 0.0

    def other_user(self):
        """What makes a command one of a user who has no process but this run's: root has no limit of them."""
        user, capabilities = str(self.user), "+dac_override,+dac_read_search,+fowner,+net_raw,+net_admin,+ipc_lock,+sys_nice,+sys_ptrace"
        return ["setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", f"--inh-caps={capabilities}",
                f"--ambient-caps={capabilities}"]

    def skipped(self):
        """Why this fault cannot be made here, if so."""
        if self.fault != "few-processes":
            return None
        tried = subprocess.run([*self.other_user(), "true"], capture_output=True, text=True)
        return f"no other user can be had here: {tried.stderr.strip()[-200:]}" if tried.returncode != 0 else None

    def least_memory(self):
        """Bytes of memory with which the program starts, to a MiB."""
        low, high = 0, 4096
        while high - low > 1:
            middle = (low + high) // 2
            words = ["prlimit", f"--as={middle << 20}", self.tripmeter, "--version"]
            is_enough = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
            low, high = (low, middle) if is_enough else (middle, high)
        return high << 20

    def command(self):
        """The program, under limits: most are small, so that light transports feel them, and a few leave room for others."""
        words, amount = [], self.drawn["amount"]
        if self.moment == "start" and self.fault == "few-descriptors":
            words = ["prlimit", f"--nofile={4 + int(26 * amount**2)}"]
        if self.moment == "start" and self.fault == "little-memory":
            words = ["prlimit", f"--as={self.least_memory() + int((200 << 20) * amount**4)}"]
        if self.fault == "few-processes":
            words = [*self.other_user(), "prlimit", f"--nproc={3 + int(27 * amount**3)}"]
        return [*words, self.tripmeter, "run", str(FILE), "-q", "--no-report", "--no-spin", "--attempts", "1", "-o", str(RESULTS)]

    def environment(self):
        plugins = self.faulty if self.fault.startswith("plugin-") else self.transports
        own = {"TMPDIR": str(TEMPORARY), "TRIPMETER_TRANSPORTS": plugins}
        if self.fault == "clock-step":
            CLOCK.write_text("+0\n")
            library = sorted(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1"))[0]
            own |= {"LD_PRELOAD": f"{self.faulty}/true/true_clocks.so:{library}", "FAKETIME_TIMESTAMP_FILE": str(CLOCK), "FAKETIME_NO_CACHE": "1",
                    "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
        if self.fault.startswith("plugin-"):
            what = self.fault.removeprefix("plugin-")
            own["TRIPMETER_FAULT"] = f"{what}:{self.drawn['side']}:{self.drawn['message']}"
            own["TRIPMETER_FAULT_MARK"] = str(MARK)
        return {**os.environ, **own}

    def is_due(self):
        """Whether the moment has come, of what is in the results folder."""
        victim = checks.states(RESULTS).get("victim")
        if victim is None:
            return False
        leader, follower = workers(self.run.pid)
        if leader is None or (follower is None and self.drawn["pattern"] != "log" and "follower" in self.fault):
            return False
        payloads = sum(name == "victim" for name, _ in checks.finished(RESULTS))
        if self.moment == "open":
            return True
        if self.moment in ("proof", "payload-1"):
            return victim["path_proof"] is not None or payloads > 0
        return payloads > 0

    def await_moment(self):
        """Waits for the moment; false if the run ended before."""
        end = time.monotonic() + LONGEST_S
        while not self.is_due():
            if self.run.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(LOOK_S)
        if self.moment.startswith("payload-"):
            time.sleep(self.drawn["delay_ms"] / 1000)
        if self.moment == "writing":
            # The next rows are being written: of the second payload.
            files = [*RESULTS.glob("samples/victim.csv"), *RESULTS.glob("histograms/victim.hlog")][:1]
            size = files and files[0].stat().st_size
            while files and files[0].stat().st_size == size and self.run.poll() is None and time.monotonic() < end:
                pass
        return self.run.poll() is None

    def strike(self):
        """Does it; false if there is nothing that it could be done to."""
        leader, follower = workers(self.run.pid)
        self.then = checks.finished(RESULTS)
        kind, _, whom = self.fault.partition("-")
        if kind in ("kill", "stop"):
            # The program itself, and not the shell that starts it.
            daemons = [pid for pid, line in checks.processes().items()
                       if line.split(" ")[0].rsplit("/", 1)[-1] in draw.PROGRAMS]
            pid = {"leader": leader, "follower": follower, "supervisor": self.run.pid,
                   "daemon": daemons[0] if daemons else None}[whom]
            if pid is None:
                return False
            try:
                os.kill(pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
            except ProcessLookupError:
                return False
            if self.fault == "stop-supervisor":
                time.sleep(1.5)
                os.kill(pid, signal.SIGCONT)
            elif kind == "stop":
                self.stopped.append(pid)
            return True
        if self.fault == "shm-full":
            leave_nothing("/dev/shm")
        elif self.fault == "disk-full":
            fill(WORK / "disk")
        elif self.fault == "clock-step":
            # Renamed into place: a reader must not see half of it.
            (WORK / "clock.new").write_text(f"{'+' if self.drawn['sign'] > 0 else '-'}{int(1 + 7200 * self.drawn['amount'])}\n")
            os.replace(WORK / "clock.new", CLOCK)
        else:
            return self.limit(leader if self.drawn["side"] == "leader" or follower is None else follower)
        return True

    def limit(self, pid):
        """Leaves a worker hardly more than what it has."""
        try:
            if self.fault == "few-descriptors":
                most = len(os.listdir(f"/proc/{pid}/fd")) + int(3 * self.drawn["amount"])
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
            else:
                pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[0])
                most = pages * 4096 + int((2 << 20) * self.drawn["amount"])
                resource.prlimit(pid, resource.RLIMIT_AS, (most, most))
        except (OSError, ProcessLookupError):
            return False
        return True

    def measure(self):
        """The run with its fault. Returns exit code and standard error."""
        with (WORK / "stderr").open("w+") as errors:
            self.run = subprocess.Popen(self.command(), env=self.environment(), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=errors)
            if self.moment not in ("start", "messages") and self.await_moment():
                self.fired = self.strike()
            try:
                self.run.wait(LONGEST_S)
            except subprocess.TimeoutExpired:
                self.findings.append(f"the run does not end within {LONGEST_S} s")
                self.run.kill()
                self.run.wait()
            errors.seek(0)
            said = errors.read()
        if self.moment == "messages":
            # The plugin has made it when it struck.
            self.fired = MARK.exists()
        # A daemon that stands still cannot end; that is not the program's.
        for pid in self.stopped:
            try:
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                if self.fault == "stop-daemon" and command:
                    os.kill(pid, signal.SIGKILL)
            except (OSError, ProcessLookupError):
                pass
        return self.run.returncode, said

    def judge(self, code, said):
        """What is wrong after the fault. Returns state and error of the victim, and its damaged messages."""
        found = self.findings
        # A library that panics in a call of its plugin is caught, and its error must name the cause; we do not panic.
        logs = "".join(file.read_text(errors="replace") for file in RESULTS.glob("logs/*.log"))
        for panic in re.findall(r"panicked at (?!.*/(?:registry|git|rustc)/).*", said + logs):
            found.append(f"a panic: {panic[:300]}")
        there = (RESULTS / "manifest.json").exists()
        states, now, damaged = checks.states(RESULTS), checks.finished(RESULTS), checks.damaged(RESULTS)
        found += checks.verdict(self.drawn, self.fired, code, said, (states, now, damaged) if there else None)
        if not there:
            return "none", said.strip()[-300:], 0
        victim = states.get("victim", {"status": "none", "error": None})
        found += checks.intact(self.then, now, "after the fault") + checks.readable(self.tripmeter, RESULTS, "after the fault")
        return victim["status"], victim["error"], damaged

    def go_on(self, words):
        """Runs the program without the fault."""
        environment = {**os.environ, "TMPDIR": str(TEMPORARY), "TRIPMETER_TRANSPORTS": self.transports}
        # The files of RouDi are of the user who ran it.
        words = [*(self.other_user() if self.fault == "few-processes" else []), self.tripmeter, *words]
        return subprocess.run([*words, "-q", "--no-report"], env=environment, capture_output=True, text=True,
                              timeout=LONGEST_S, stdin=subprocess.DEVNULL)

    def resume(self):
        """The rest, without the fault; findings."""
        (WORK / "disk" / "fill").unlink(missing_ok=True)
        if self.fault == "shm-full":
            subprocess.run(["mount", "-n", "-o", f"remount,size={SHM_BYTES}", "/dev/shm"], check=True)
        then = checks.finished(RESULTS)
        is_begun = (RESULTS / "manifest.json").exists()
        if is_begun and checks.left_out(RESULTS):
            # What could not run when the run was planned is not of it: resuming says so, and a new run measures it.
            done = self.go_on(["run", "--resume", str(RESULTS)])
            if done.returncode != 75 or f"not in these results: transport '{self.drawn['transport']}'" not in done.stderr:
                self.findings.append(f"resume of what was left out ended with {done.returncode}: {done.stderr.strip()[-300:]}")
            shutil.rmtree(RESULTS)
            is_begun, then = False, {}
        words = ["run", "--resume", str(RESULTS)] if is_begun else ["run", str(FILE), "-o", str(RESULTS), "--attempts", "1"]
        if not is_begun and RESULTS.exists():
            shutil.rmtree(RESULTS)
        # What was measured over another path than it says, or while its daemon was gone, is measured again.
        unreliable = {name for name, state in checks.states(RESULTS).items() if state.get("unreliable")
                      or (state["status"] != "complete" and (state["path_proof"] or {}).get("verdict") == "failed")}
        done = self.go_on(words)
        if done.returncode not in (0, 75) or not (RESULTS / "manifest.json").exists():
            self.findings.append(f"resume ended with {done.returncode}: {done.stderr.strip()[-300:]}")
            return
        now, states = checks.finished(RESULTS), checks.states(RESULTS)
        then = {address: trials for address, trials in then.items() if address[0] not in unreliable}
        self.findings += checks.intact(then, now, "after resuming") + checks.readable(self.tripmeter, RESULTS, "after resuming")
        for name, payloads in (("before", 1), ("victim", 3), ("after", 1)):
            there, state = sum(of == name for of, _ in now), states.get(name, {"status": "none", "error": None})
            if state["status"] != "complete" or there != payloads:
                self.findings.append(f"after resuming, {name} is {state['status']} with {there} of {payloads} payloads: {state['error']}")

    def no_processes(self, but=()):
        """Checks that none is left; notes how long that took."""
        found, waited_s = checks.no_processes(but)
        self.findings += found
        self.waited_s = max(self.waited_s, waited_s)

    def line(self):
        if why := self.skipped():
            return {**self.drawn, "skipped": why}
        WORK.mkdir()
        TEMPORARY.mkdir(mode=0o777)
        mount(WORK / "disk", DISK_BYTES)
        mount(pathlib.Path("/dev/shm"), SHM_BYTES)
        if self.fault == "few-processes":
            for folder in (WORK, TEMPORARY):
                folder.chmod(0o777)
            # iceoryx needs a user that has a name.
            users = pathlib.Path("/etc/passwd").read_text() + f"trial:x:{self.user}:65534::/:/bin/sh\n"
            (WORK / "passwd").write_text(users)
            subprocess.run(["mount", "-n", "--bind", str(WORK / "passwd"), "/etc/passwd"], check=True)
        FILE.write_text(draw.experiment(self.drawn))
        named = checks.names(TEMPORARY)
        if self.moment == "start" and self.fault == "shm-full":
            leave_nothing("/dev/shm")
        begin = time.monotonic()
        code, said = self.measure()
        if not self.fired:
            self.findings.append("the moment did not come")
        # A daemon may be shared: of a supervisor that was killed, the next run stops it.
        self.no_processes(draw.SHARED if self.fault == "kill-supervisor" else ())
        status, error, damaged = self.judge(code, said)
        if self.fault != "kill-supervisor":
            self.findings += [f"left after the run: {name}" for name in sorted(checks.names(TEMPORARY) - named)]
        self.resume()
        self.no_processes()
        self.findings += [f"left after resuming: {name}" for name in sorted(checks.names(TEMPORARY) - named)]
        return {**self.drawn, "fired": self.fired, "code": code, "status": status, "error": error and error[:400],
                "damaged": damaged, "waited_s": round(self.waited_s, 2),
                "exceptions": self.findings[:8], "seconds": round(time.monotonic() - begin, 1)}


if __name__ == "__main__":
    print(json.dumps(Trial(json.loads(sys.argv[1])).line()))
