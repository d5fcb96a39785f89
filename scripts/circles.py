#!/usr/bin/env python3
"""Fails if files of a crate import each other in a circle.

A file imports the files that its `use` declarations and paths lead to, also by names that other files import or
re-export. Declarations and re-exports in `mod.rs`, `lib.rs` and `main.rs` do not count as imports. Tests are left out.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("crates/*/src", "transports/**/src", "bench/**/src")
DECLARING = {"mod.rs", "lib.rs", "main.rs"}
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])\w+(?:::\w+)+")
ITEM = re.compile(r"\b(?:fn|struct|enum|union|trait|type|const|static|mod|macro_rules!)\s+(\w+)")
REEXPORT = re.compile(r"\bpub(?:\([\w ]+\))? use [^;]+;")
TEST = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\(\w+\))? )?(?:use [^;]*|mod (\w+));")
# Longest chain of re-exports that is followed.
MOST_STEPS = 8

Module = tuple[str, ...]


def text_of(file: Path) -> str:
    """Code of a file without comments and unit tests."""
    code = re.split(r"#\[cfg\(test\)\]\n(?:pub(?:\(\w+\))? )?mod tests \{", file.read_text(), maxsplit=1)[0]
    return re.sub(r"^\s*//.*$", "", code, flags=re.MULTILINE)


def expanded(tree: str, prefix: Module = ()) -> Iterator[tuple[str, Module]]:
    """Names that a `use` tree brings into scope, each with its path."""
    head, brace, body = tree.partition("{")
    head, _, alias = head.partition(" as ")
    path = (*prefix, *(part.strip() for part in head.split("::") if part.strip()))
    if not brace:
        path = path[:-1] if path[-1:] == ("self",) and len(path) > 1 else path
        if path:
            yield alias.strip() or path[-1], path
        return
    depth, branch = 0, ""
    for letter in body.rstrip()[:-1] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            yield from expanded(branch, path)
            branch = ""
        else:
            branch += letter


class Crate:
    """Modules of a crate: code, names in scope and items."""

    def __init__(self, source: Path) -> None:
        self.files: dict[Module, Path] = {}
        for file in sorted(source.rglob("*.rs")):
            parts = file.relative_to(source).with_suffix("").parts
            if "tests" not in parts and parts[0] != "bin":
                self.files[parts[:-1] if file.name in DECLARING else parts] = file
        code = {module: text_of(file) for module, file in self.files.items()}
        for module, text in code.items():
            for test in TEST.findall(text):
                within = (*module, test)
                self.files = {other: file for other, file in self.files.items() if other[: len(within)] != within}
        self.code = {module: TEST.sub("", code[module]) for module in self.files}
        self.names = {
            module: [name for tree in USE.findall(text) for name in expanded(" ".join(tree.split()))]
            for module, text in self.code.items()
        }
        self.items = {module: set(ITEM.findall(text)) for module, text in self.code.items()}

    def resolved(self, module: Module, path: Module, is_start: bool = True, steps: int = MOST_STEPS) -> list[Module]:
        """Modules of this crate that a path in a module leads through, and the module of its item."""
        if path in ((), ("*",)) or not steps:
            return [module]
        first, rest = path[0], path[1:]
        if is_start and first in ("crate", "self", "super"):
            base = {"crate": (), "self": module, "super": module[:-1]}[first]
            return self.resolved(base, rest, rest[:1] == ("super",), steps)
        if (*module, first) in self.files:
            return self.resolved((*module, first), rest, False, steps)
        for name, target in self.names.get(module, ()):
            if name == first and target != path:
                return (found := self.resolved(module, target + rest, True, steps - 1)) and [module, *found]
        if first in self.items.get(module, ()):
            return [module]
        for name, target in self.names.get(module, ()):
            if name == "*":
                everything = self.resolved(module, target, True, steps - 1)
                found = self.resolved(module, target[:-1] + path, True, steps - 1)
                if found != everything:
                    return [module, *found]
        return [] if is_start else [module]

    def graph(self) -> dict[Module, set[Module]]:
        """Files that each file imports."""
        is_declaring = {module for module, file in self.files.items() if file.name in DECLARING}
        graph = {}
        for module in self.files:
            code = REEXPORT.sub("", self.code[module]) if module in is_declaring else self.code[module]
            paths = [path for tree in USE.findall(code) for _, path in expanded(" ".join(tree.split()))]
            paths += [tuple(path.split("::")) for path in PATH.findall(USE.sub("", code))]
            for path in [path for path in paths if path[-1] == "*"]:
                names = {name for other in self.resolved(module, path) for name, _ in self.names[other]}
                paths += [(*path[:-1], name) for name in names]
            imported = set()
            for path in set(paths):
                led = self.resolved(module, path)
                imported |= {*(other for other in led if other not in is_declaring), *led[-1:]}
            graph[module] = imported - {module}
        return graph


def circles(graph: dict[Module, set[Module]]) -> set[frozenset[Module]]:
    """Groups of files that all import each other, directly or indirectly."""
    reached: dict[Module, set[Module]] = {}
    for module in graph:
        reached[module], waiting = set(), [module]
        while waiting:
            new = graph[waiting.pop()] - reached[module]
            reached[module] |= new
            waiting += new
    return {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }


def main() -> int:
    """Checks all crates."""
    has_circle = False
    for source in sorted(source for pattern in SOURCES for source in ROOT.glob(pattern)):
        for circle in sorted(sorted("::".join(module) for module in group) for group in circles(Crate(source).graph())):
            print(f"{source.relative_to(ROOT)}: import each other: {', '.join(circle)}", file=sys.stderr)
            has_circle = True
    return int(has_circle)


if __name__ == "__main__":
    sys.exit(main())
