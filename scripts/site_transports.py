"""The page of a transport: its variants and settings, results, and advice for comparisons."""

import re

PATTERNS = {
    "ping": ("round trips", "a-sample"),
    "publish": ("one-way latency at a rate", "publish"),
    "call": ("calls", "call"),
    "throughput": ("messages per second", "throughput"),
    "log": ("calls of a logger", "log"),
}
WAITS = {
    "poll": "`poll` asks again and again, without sleeping",
    "block": "`block` sleeps until a message comes",
    "callback": "`callback` is called in a thread of the library",
}
# Meaning of each flag of a variant for measurements and comparisons.
HOW = {
    "zero_copy": ("Zero copy", "the receiver reads the memory that the sender wrote"),
    "fan_out": ("Several followers", "one message can go to all of them (`--followers`)"),
    "publishers": ("Several publishers", "they can share a topic (`--publishers`)"),
    "secure": ("Security", "a setting secures it; such a run proves that peers without its credentials are refused"),
}
CAVEATS = {
    "lossy": ("Lossy", "messages may be lost without an error; losses are counted and never averaged into latencies"),
    "same_process": ("One process", "leader and follower are two of its threads"),
    "own_threads": ("Threads of its own", "they deliver messages and are not bound to a CPU; `poll` competes with them where "
                    "CPUs are few"),
    "broker": ("Broker", "messages go through a third process, whose CPU time is in no figure"),
    "remote": ("Can cross hosts", "figures here are of one host"),
}
# Columns of the tables of all figures that a page shows, by their ids: headings as on the page.
COLUMNS = {
    "transport": "transport", "logger": "logger", "wait": "wait", "touch": "touch", "topics": "topics", "clients": "clients",
    "offered_rate_hz": "offered [1/s]", "payload_bytes": "payload", "n": "n", "calls": "n", "time": "time",
    "rtt_half_p50_ns": "p50 [µs]", "p50_ns": "p50 [µs]", "call_p50_ns": "p50 [µs]",
    "rtt_half_p99_ns": "p99 [µs]", "p99_ns": "p99 [µs]", "call_p99_ns": "p99 [µs]",
    "rtt_half_max_ns": "max [µs]", "max_ns": "max [µs]", "call_max_ns": "max [µs]",
    "floor_ratio": "from floor", "lost": "lost", "loss": "lost", "timed_out": "timed out", "missing": "missing",
    "path_proof": "path proof",
}
WORDS = {"transport", "logger", "wait", "touch", "time", "path_proof"}
# Columns that are left out if every row has this value.
IF_THEY_DIFFER = {"touch": "none", "topics": 1.0, "clients": 1.0}
LATENCY = {
    "ping": "Half of a round trip.",
    "publish": "One way: `response` counts from when a message was due, `service` from when it was sent.",
    "call": "A whole call: `response` counts from when it was due, `service` from when it was sent.",
    "log": "From the call of the logger to its return.",
}
# Names of patterns in results of schema 2.
OLDER = {"pingpong": "ping", "channel": "publish", "rpc": "call"}
MOST_ROWS = 24
LEGEND = """`p50` and `p99` are the median and the 99th percentile. The 95 % interval is that of the median, over rounds or
within the only one; runs differ by more than one of them shows. `from floor` is the ratio to the median of [shm](shm.md).
`*` marks fewer samples than planned. Compare figures within one table only: presets, waits and machines differ."""


class Transport:
    """A system, from its transport.toml (`about`) and `tripmeter list --json` (`known`).

    `heading` is the heading of its section in docs/transports.md, or empty.
    """

    def __init__(self, name: str, about: dict, known: dict, heading: str):
        self.name, self.about, self.known, self.heading = name, about, known, heading
        self.title = heading or name
        self.page = f"transports/{name}.md"
        self.description = known["description"]
        self.variants = self.description["variants"] if self.description else []
        self.is_built_in = not about["build"]

    def index_line(self) -> str:
        where = "built in" if self.is_built_in else f"plugin,&nbsp;{language(self.about['language'])}"
        return f"| [{self.title}]({self.page}) | {cell(self.about['summary'])} | {where} |\n"

    def is_in(self, folder: dict) -> bool:
        """True if a results folder has figures of this system."""
        return bool(self.variants_in(folder))

    def variants_in(self, folder: dict) -> dict[str, str]:
        """Its sub-experiments in a results folder, with their variants."""
        return {one["name"]: one["transport"]["variant"] for one in folder["plan"]["sub_experiments"]
                if one["transport"]["system"] == self.name}

    def text(self, folders: list[dict], native: list[str], notes: str, also: list[str]) -> str:
        """The page. `native` are tables against systems' own tools, `notes` its section of docs/transports.md, `also` links."""
        folders = [folder for folder in folders if self.is_in(folder)]
        parts = [f"# {self.title}\n\n{self.about['summary']}.", self.facts(folders)]
        for heading, text in [("What is measured", self.measured()), ("How", self.how()),
                              ("Results", self.all_results(folders, native)), ("Caveats", self.caveats()),
                              ("Notes", notes.strip()), ("See also", "\n".join(f"- {link}" for link in also))]:
            if text:
                parts += [f"## {heading}", text]
        return "\n\n".join(parts) + "\n"

    def facts(self, folders: list[dict]) -> str:
        """Origin of the system, what it needs, and how to install it."""
        about = self.about
        systems = sorted({state["system_version"] for folder in folders for state in self.states(folder)})
        needed = [f"`{one}`" for one in about.get("packages", []) + about.get("python_packages", [])]
        packages = ", ".join(needed[:5]) + (f" and {len(needed) - 5} more" if len(needed) > 5 else "")
        facts = [
            ("Names", ", ".join(f"`{one}`" for one in [self.name, *about.get("aliases", [])])),
            ("Is", "built in" if self.is_built_in else f"a plugin, written in {language(about['language'])}"),
            ("Measured here", ", ".join(systems) if not self.is_built_in else ""),
            ("Packages", packages),
            ("Get it", "" if self.is_built_in else f"`tripmeter install {self.name}`"),
            ("Try it", f"`tripmeter {self.command()} '{self.name}/*'`" if self.variants else ""),
        ]
        return "\n".join(f"- {name}: {value}" for name, value in facts if value)

    def command(self) -> str:
        """Command that measures the system with the first pattern that it supports."""
        patterns = {pattern for variant in self.variants for pattern in variant["patterns"]}
        return "log" if patterns == {"log"} else "ping"

    def measured(self) -> str:
        """Variants, with patterns and payload sizes."""
        if not self.variants:
            return (f"The plugin was not there when this page was made, so variants, settings and flags are missing: "
                    f"`tripmeter install {self.name}`,\nthen `tripmeter list {self.name}`.")
        rows = [(f"`{self.name}/{one['name']}`", cell(one["summary"]), f"`{one['path']}`",
                 ", ".join(one["patterns"]), ", ".join(one["waits"])) for one in self.variants]
        lines = [f"- `{name}`: {what}, by `tripmeter {name}`; see [method](../method.md#{anchor})."
                 for name, (what, anchor) in PATTERNS.items() if any(name in one["patterns"] for one in self.variants)]
        return "\n\n".join([table(["variant", "is", "payload goes through", "patterns", "waits"], rows), "The patterns are:",
                            "\n".join(lines),
                            "Every run checks what the payload goes through: see [path proof](../method.md#path-proof)."])

    def how(self) -> str:
        """Waits, flags and settings."""
        waits = [name for name in WAITS if any(name in one["waits"] for one in self.variants)]
        lines = [f"- {WAITS[name]}." for name in waits if self.command() != "log"] + self.flagged(HOW)
        daemon = self.description and self.description["daemon"]
        if daemon:
            named = daemon["name"] if isinstance(daemon, dict) else daemon
            lines.append(f"- It needs the daemon `{named}`, which `tripmeter` starts where none runs (`--daemons`).")
        text = "\n".join(lines)
        settings = self.description["settings"] if self.description else []
        if settings:
            rows = [(f"`{one['name']}`", f"`{one['default']}`" if one["default"] else "none", cell(one["values"]),
                     cell(one["summary"])) for one in settings]
            example = f"{self.name}?{settings[0]['name']}={settings[0]['default'] or '...'}"
            text += (f"\n\nSettings go behind the name, as in `{example}`:\n\n"
                     + table(["setting", "default", "values", "is"], rows))
        return text.strip()

    def flagged(self, flags: dict[str, tuple[str, str]]) -> list[str]:
        """A line for each flag of the variants; it names the variants unless all have the flag."""
        lines = []
        for flag, (name, sentence) in flags.items():
            having = [one["name"] for one in self.variants if one[flag]]
            if having:
                only = "" if len(having) == len(self.variants) else f" ({', '.join(f'`{one}`' for one in having)})"
                lines.append(f"- **{name}**{only}: {sentence}.")
        return lines

    def caveats(self) -> str:
        """Flags that limit the meaning of figures, resources that others can reach, and variables without effect."""
        lines = self.flagged(CAVEATS)
        lines += [f"- **Open to others** while it is measured: {cell(one)}." for one in self.about.get("open_to_others", [])]
        ignored = self.about.get("ignores_environment", [])
        if ignored:
            lines.append(f"- **Without effect**: {', '.join(f'`{one}`' for one in ignored)}.")
        if not lines and self.variants:
            return "None are known beyond what holds for [every transport](../method.md)."
        return "\n".join(lines)

    def states(self, folder: dict) -> list[dict]:
        """Status of its sub-experiments, from the last line on each in a results folder."""
        names = self.variants_in(folder)
        return list({(one["name"], one["round"]): one for one in folder["states"] if one["name"] in names}.values())

    def all_results(self, folders: list[dict], native: list[str]) -> str:
        """Results in docs/results with a legend, or a note that there are none."""
        parts = [self.results(folder) for folder in folders]
        if parts:
            parts = [LEGEND, *parts, self.proofs(folders)]
        own = [kept for kept in (self.against_its_own(text) for text in native) if kept]
        if own:
            parts += ["### Against its own tool", "Half of a round trip, in turns with the system's tool or a minimal loop: "
                      "[how](../transports.md#against-their-own-tools).", *own]
        return "\n\n".join(part for part in parts if part) or "No results are kept in the repository."

    def against_its_own(self, text: str) -> str:
        """Rows of this system in the table that bench/native/run.py prints."""
        head, rule, *lines = text.strip().splitlines()
        rows = [line for line in lines if re.match(rf"\| {re.escape(self.name)}[/?]", line)]
        return "\n".join([head, rule, *rows, "", lines[-1]]) if rows else ""

    def results(self, folder: dict) -> str:
        """Rows of this system in the table of all figures of a results folder, and the notes on them."""
        latencies = sorted({LATENCY.get(OLDER.get(one["pattern"], one["pattern"]), "") for one in folder["plan"]["sub_experiments"]})
        parts = [f"### Preset `{folder['name']}`", f"{folder['summary']}. {' '.join(latencies)}"]
        notes = [f"{one['name']}, round {one['round']}: {one['status']}: {one['error']}" for one in self.states(folder)
                 if one["status"] != "complete"]
        for block in folder["blocks"]:
            if "table" in block:
                parts.append(self.rows(block["table"]))
            notes += [note["text"] for note in block.get("notes", []) if is_about(note["text"], self.variants_in(folder))]
        parts.append(folder["machine"] + (f" [Whole report](../{folder['report']})." if folder["report"] else ""))
        if notes:
            parts.append(f"<details><summary>{len(notes)} note{'s' * (len(notes) > 1)} on these figures</summary>\n\n"
                         + "\n".join(f"- {cell(note)}" for note in notes) + "\n\n</details>")
        return "\n\n".join(part for part in parts if part)

    def rows(self, made: dict) -> str:
        """Rows as Markdown; of many rows, only those of the smallest, a middle and the largest payload."""
        ids = [column["id"] for column in made["columns"] if column["id"] in COLUMNS]
        named = next((name for name in ("transport", "logger") if name in ids), None)
        latency = next((name for name in ids if name.endswith("p50_ns")), None)
        if not named or not latency:
            return ""
        own = [row for row in made["rows"] if re.match(rf"{re.escape(self.name)}[/?]", words(row[named]))
               and (not is_missing(row[latency]) or row[latency]["missing"] != "not of this row")]
        if not own:
            return ""
        sizes = sorted({row["payload_bytes"] for row in own})
        note = ""
        if len(own) > MOST_ROWS and len(sizes) > 3:
            few = {sizes[0], sizes[len(sizes) // 2], sizes[-1]}
            own = [row for row in own if row["payload_bytes"] in few]
            note = f"\n\n3 of {len(sizes)} payloads."
        own.sort(key=lambda row: row["payload_bytes"])
        ids = [name for name in ids if any(not is_missing(row[name]) for row in own)
               and not all(row[name] == IF_THEY_DIFFER.get(name) for row in own)]
        heads = []
        for name in ids:
            heads.append(COLUMNS[name])
            if name == latency and any(interval(row[name]) for row in own):
                heads.append("95 % interval")
        rows = []
        for row in own:
            cells = []
            for name in ids:
                cells.append(value(name, row[name]))
                if name == latency and "95 % interval" in heads:
                    cells.append(interval(row[name]))
            rows.append(cells)
        numbers = {COLUMNS[name] for name in ids if name not in WORDS} | {"95 % interval"}
        return table(heads, rows, numbers) + note

    def proofs(self, folders: list[dict]) -> str:
        """Path proofs in the results shown, one for each variant and verdict."""
        lines = {}
        for folder in folders:
            for state in self.states(folder):
                variant, proof = self.variants_in(folder)[state["name"]], state["path_proof"]
                if proof:
                    lines.setdefault((variant, proof["verdict"]), f"- `{self.name}/{variant}`: "
                                     f"{proof['verdict'].replace('-', ' ')}; {cell(proof['evidence'])}.")
        return "### Path proofs in these results\n\n" + "\n".join(lines.values()) if lines else ""


def is_about(note: str, names: dict[str, str]) -> bool:
    """True if a note names one of the sub-experiments."""
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", note) for name in names)


def is_missing(one: object) -> bool:
    return isinstance(one, dict) and "missing" in one


def words(one: object) -> str:
    """A cell of text."""
    return str(one["value"]) if isinstance(one, dict) else str(one)


def number(one: float) -> str:
    """Number with three digits, or with all digits before the point."""
    return f"{one:#.3g}".rstrip(".") if abs(one) < 999.5 else f"{one:.0f}"


def value(name: str, one: object) -> str:
    """A cell of a table of `tripmeter export --format json` as text; times in µs."""
    if is_missing(one):
        return "-" if one["missing"] in ("not measured", "not of this row") else one["missing"]
    if isinstance(one, dict) and "events" in one:
        return f"{one['events']} of {one['of']}"
    mark = one.get("mark", "") if isinstance(one, dict) else ""
    one = one["value"] if isinstance(one, dict) else one
    if isinstance(one, str):
        text = cell(one)
    elif name == "payload_bytes":
        text = size(one)
    elif name.endswith("_ns"):
        text = number(one / 1e3)
    elif name == "floor_ratio":
        text = f"×{number(one)}"
    else:
        text = f"{one:.0f}"
    return mark.replace("*", "\\*").replace("~", "\\~") + text


def interval(one: object) -> str:
    """Confidence interval of a latency in µs; an unbounded end is left out."""
    if not isinstance(one, dict) or "low" not in one:
        return ""
    low, high = (number(end / 1e3) if end is not None else "" for end in (one["low"], one["high"]))
    return f"{low}..{high}"


def size(payload: float) -> str:
    """A payload as flags name it: k = 1024 bytes."""
    payload = int(payload)
    for unit, power in (("M", 20), ("k", 10)):
        if payload and payload % (1 << power) == 0:
            return f"{payload >> power}{unit}"
    return str(payload)


def language(name: str) -> str:
    return {"c": "C", "c++": "C++", "rust": "Rust"}.get(name, name)


def cell(text: str) -> str:
    """Text for a table or list, escaped so that it does not become markup."""
    return re.sub(r"([|*_<>\[\]~\\])", r"\\\1", text)


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(heads: list[str], rows: list[tuple], numbers: set[str] = frozenset()) -> str:
    """A table in Markdown; columns of numbers are aligned right."""
    lines = [heads, ["---:" if head in numbers else "---" for head in heads], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
