"""What a trial is: transport, workload, fault and moment, drawn by seed, system and index alone."""

import random

from kinds import FAULTS, sides

# Programs that a run starts, or that were there, besides its workers.
DAEMONS = {"iceoryx", "iceoryx-c", "cyclonedds/iceoryx", "mqtt/mosquitto", "mqtt/embedded"}
PROGRAMS = ("iox-roudi", "mosquitto", "tripmeter_mqtt_broker")
# Of them, what outlives a killed supervisor until the next run, as others may use it.
SHARED = ("roudi", "RouDi")
RATE_HZ, SAMPLES = 500, 200
PAYLOADS = ["1k", "4k", "16k"]


def variants(listed):
    """Variants that can run here, by system, of what `tripmeter list --json` prints; with what matters for a draw."""
    found = {}
    for row in listed:
        here = {one["variant"] for one in row["variants"] if one["available"] or one.get("daemon_missing")}
        for one in (row["description"] or {}).get("variants", []):
            patterns = [pattern for pattern in one["patterns"] if pattern != "throughput"]
            waits = [wait for wait in one["waits"] if wait != "callback"] or one["waits"]
            if one["name"] in here and patterns:
                name = f"{row['system']}/{one['name']}"
                found.setdefault(row["system"], []).append({
                    "transport": name, "patterns": patterns, "waits": waits, "same_process": one["same_process"],
                    "is_plugin": bool(row["file"]), "has_shm": one["path"] == "shared-memory",
                    "has_daemon": bool(DAEMONS & {name, row["system"]}),
                })
    return found


def possible(variant, pattern, wait):
    """Faults that a variant can have."""
    for fault in FAULTS:
        if fault.endswith("-daemon") and not variant["has_daemon"]:
            continue
        if fault.endswith("-follower") and (variant["same_process"] or pattern == "log"):
            continue
        if fault.startswith("plugin-") and (not variant["is_plugin"] or wait == "callback"):
            continue
        # Others have nothing there.
        if fault == "shm-full" and not variant["has_shm"]:
            continue
        if not sides(fault, pattern):
            continue
        yield fault


def trial(seed, system, index, variants_of_system):
    """The trial of that index."""
    chance = random.Random(f"{seed}/{system}/{index}")
    variant = chance.choice(variants_of_system)
    pattern, wait = chance.choice(variant["patterns"]), chance.choice(variant["waits"])
    faults = list(possible(variant, pattern, wait))
    # Each in its turn, from a place that differs from system to system: so that few trials have most faults, too.
    fault = faults[(index + random.Random(f"{seed}/{system}").randrange(len(faults))) % len(faults)]
    moments = [one for one in FAULTS[fault].moments if pattern != "log" or one in ("start", "messages", "open", "payload-2")]
    return {
        "system": system, "index": index, "transport": variant["transport"], "pattern": pattern, "wait": wait,
        "fault": fault, "moment": chance.choice(moments or ["open"]),
        # Of lines, a payload is written in 50 ms.
        "delay_ms": chance.randrange(150) // (1 if pattern != "log" else 5),
        "side": chance.choice(sides(fault, pattern)),
        "message": chance.choice([1, 20, 60, 150, 300]), "amount": chance.random(), "sign": chance.choice([-1, 1]),
    }


def experiment(drawn):
    """The experiment file: a sub-experiment before and one after it that must not suffer."""
    pattern = drawn["pattern"]
    load = [f'rate = "{RATE_HZ}"', f"samples = {SAMPLES}"] if pattern != "log" else ["samples = 20000"]
    if pattern == "call":
        load.append('mode = "fixed-freq"')
    payloads = ",".join(PAYLOADS if pattern != "log" else ["64", "128", "256"])
    beside = ['wait = "block"', 'payloads = "1k"', "samples = 50"]
    parts = [
        ["floor = false", "warmup = 10", "loss_timeout_s = 1.0"],
        ["[[sub_experiment]]", 'name = "before"', f'transport = "{before(drawn)}"', *beside],
        ["[[sub_experiment]]", 'name = "victim"', f'transport = "{drawn["transport"]}"', f'pattern = "{pattern}"',
         f'wait = "{drawn["wait"]}"', f'payloads = "{payloads}"', *load],
        ["[[sub_experiment]]", 'name = "after"', 'transport = "tcp"', *beside[:1], 'payloads = "4k"', "samples = 50"],
    ]
    return "\n".join("\n".join(part) for part in parts) + "\n"


def before(drawn):
    return "pipe" if drawn["system"] == "uds" else "uds/stream"
