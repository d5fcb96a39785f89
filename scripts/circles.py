#!/usr/bin/env python3
"""Fails if modules of the engine or of a transport import each other in a circle: top modules, and the modules of each folder.

An import is what follows `crate::` or `super::` outside of tests; a folder's own `mod.rs` and its parent, which declare
modules, are left out.
"""

import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def text_of(file: Path) -> str:
    """The code of a file without comments and its unit tests."""
    code = file.read_text().split("#[cfg(test)]\nmod tests {", 1)[0]
    return re.sub(r"^\s*//.*$", "", code, flags=re.MULTILINE)


def named(code: str, prefix: str) -> set[str]:
    """First names behind a prefix, alone or in braces."""
    names = set()
    for match in re.finditer(prefix + r"::(?:\{([^;]*)\};|(\w+))", code):
        inner = re.sub(r"\{[^{}]*\}", "", match[1]) if match[1] else match[2]
        names |= {part.split("::")[0].strip() for part in inner.split(",")}
    return names


def modules(folder: Path) -> dict[str, list[Path]]:
    """Files of each module that lives in a folder."""
    found: dict[str, list[Path]] = {}
    for file in sorted(folder.rglob("*.rs")):
        parts = file.relative_to(folder).with_suffix("").parts
        if "tests" in parts or parts[-1] in ("mod", "lib", "main") and len(parts) == 1:
            continue
        found.setdefault(parts[0], []).append(file)
    return found


def circle_in(folder: Path, prefix: str) -> list[str]:
    """Modules of a folder that import each other in a circle; empty if none do."""
    members = modules(folder)
    graph = {
        name: {other for file in files for other in named(text_of(file), prefix) if other in members and other != name}
        for name, files in members.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def main() -> int:
    """Looks at the engine and all transports."""
    circles = []
    for source in sorted([*ROOT.glob("crates/engine/src"), *ROOT.glob("transports/**/src")]):
        circles.append((source, circle_in(source, "crate")))
        for folder in sorted(path for path in source.rglob("*") if path.is_dir() and path.name != "tests"):
            circles.append((folder, circle_in(folder, rf"(?:super|crate::{folder.name})")))
    for folder, circle in circles:
        if circle:
            print(f"{folder.relative_to(ROOT)}: {' -> '.join(circle)}", file=sys.stderr)
    return int(any(circle for _, circle in circles))


if __name__ == "__main__":
    sys.exit(main())
