"""Tests of the campaign's own check, on made-up runs."""

import unittest

import checks
import draw
import kinds

DAMAGE = ("transport 'zeromq/tcp' failed to measure 1024 bytes: the message had 1023 bytes, 1024 expected, and 10 messages in a "
          "row came damaged")
KILLED = "the leader process was ended by signal 9 (kill) in step 'open'"
FULL = "'/tmp/campaign/disk/results/trials.jsonl': No space left on device (os error 28)"


def verdict(fault, moment="messages", code=75, said="", victim="complete", error=None, count=0, fired=True, without=(), **states):
    """Of a run whose three sub-experiments are complete, but for what is said."""
    all_states = {"before": ("complete", None), "victim": (victim, error), "after": ("complete", None), **states}
    found = {name: {"status": status, "error": why} for name, (status, why) in all_states.items() if name not in without}
    payloads = {(name, size): [] for name, state in found.items() if state["status"] == "complete"
                for size in (draw.PAYLOADS if name == "victim" else draw.PAYLOADS[:1])}
    return checks.verdict({"fault": fault, "moment": moment}, fired, code, said, (found, payloads, count))


class Verdict(unittest.TestCase):
    def passes(self, *arguments, **more):
        self.assertEqual(verdict(*arguments, **more), [])

    def fails(self, wanted, *arguments, **more):
        found = verdict(*arguments, **more)
        self.assertEqual(len(found), 1, found)
        self.assertIn(wanted, found[0])

    def test_other_parts_are_measured(self):
        killed = {"said": KILLED, "victim": "failed", "error": KILLED}
        self.passes("kill-leader", "open", **killed)
        self.fails("not measured: after", "kill-leader", "open", **killed, without=("after",))
        self.fails("after is failed", "kill-leader", "open", **killed, after=("failed", KILLED))
        full = {"said": FULL, "victim": "failed", "error": FULL}
        self.passes("disk-full", "payload-1", code=73, **full, without=("after",))
        self.fails("not measured: after", "disk-full", "payload-1", code=73, said="it failed", victim="failed", error=FULL,
                   without=("after",))
        few = "Too many open files (os error 24)"
        self.passes("few-descriptors", "start", said=few, victim="failed", error=few, after=("failed", few))
        self.fails("after is failed", "few-descriptors", "open", said=few, victim="failed", error=few, after=("failed", few))

    def test_a_fault_that_struck_is_noticed(self):
        for fault, kind in kinds.FAULTS.items():
            if kind.may_do_nothing or fault == "kill-supervisor":
                continue
            with self.subTest(fault):
                self.fails("not noticed", fault, code=0)
                self.fails("not noticed", fault, code=75, said="another reason")
                if not kind.counts_damage:
                    self.fails("not noticed", fault, code=0, count=3)
        self.passes("plugin-short", code=0, count=3)
        self.passes("plugin-short", code=75, said=DAMAGE)
        self.passes("few-processes", "start", code=0)

    def test_a_bare_word_is_no_cause(self):
        self.passes("plugin-short", said=DAMAGE, victim="failed", error=DAMAGE)
        for fault, error in (
            ("plugin-short", "failed to measure 1024 bytes: out of luck"),
            ("plugin-length", "failed to measure 1024 bytes: out of luck"),
            ("plugin-outside", "failed to measure 1024 bytes: out of luck"),
            ("plugin-loan", "`loan`: out of luck"),
            ("kill-daemon", "the leader process was ended by signal 9 (kill)"),
            ("kill-daemon", "transport 'mqtt/mosquitto' failed to measure 1024 bytes: the peer closed its link"),
            ("kill-daemon", "the follower of mqtt/mosquitto has gone"),
            ("stop-daemon", "the daemon is not to our liking"),
            ("stop-daemon", "'mqtt/mosquitto' failed: the follower hangs"),
            ("stop-follower", "the follower did not come"),
            ("stop-leader", "no answer to 10 messages in a row"),
            ("shm-full", "/dev/shm/x: permission denied"),
            ("few-processes", "a thread was created twice"),
            ("few-processes", "transport 'x' failed to open: permission denied (this user may have 64 threads and processes; "
                              "raise the limit with `ulimit -u`)"),
        ):
            with self.subTest(fault):
                self.fails("cause is not named", fault, said=error, victim="failed", error=error)

    def test_exit_codes(self):
        few = "Too many open files (os error 24)"
        self.fails("the exit code is 0", "few-descriptors", "open", code=0, said=few, victim="failed", error=few)
        self.fails("the exit code is 0", "kill-supervisor", code=0, victim="running")
        self.assertEqual(verdict("kill-supervisor", code=-9, victim="running"), [])

    def test_a_run_without_results(self):
        few = "Too many open files (os error 24)"
        for moment, code, said, passes in (("start", 65, few, True), ("start", 0, few, False), ("start", 65, "no", False),
                                           ("open", 65, few, False)):
            found = checks.verdict({"fault": "few-descriptors", "moment": moment}, True, code, said, None)
            self.assertEqual(found == [], passes, (moment, code, said))


class Draw(unittest.TestCase):
    def test_a_plugin_strikes_where_it_is_called(self):
        variants = [{"transport": "a/b", "patterns": ["ping", "publish", "call"], "waits": ["block"], "same_process": same,
                     "is_plugin": True, "has_shm": True, "has_daemon": True} for same in (False, True)]
        variants.append({**variants[0], "patterns": ["log"]})
        for index in range(500):
            drawn = draw.trial(1, "a", index, variants)
            call = kinds.FAULTS[drawn["fault"]].call
            if drawn["pattern"] == "publish" and call:
                self.assertEqual(drawn["side"], "leader" if call == "publish" else "follower")
            if drawn["pattern"] == "log":
                self.assertEqual(drawn["side"], "leader")
                self.assertNotEqual(call, "take")


if __name__ == "__main__":
    unittest.main()
