#!/usr/bin/env python3
"""Fails if a name stands for two types of our crates: structs, enums, traits and type aliases, private ones too.

Tests and associated types are left out.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

from circles import ROOT, text_of

# Every crate has its own `Error` and `Result`. For `Interval`, neither of `model` and `stats` should depend on the
# other.
EXEMPT = {"Error", "Interval", "Result"}
TYPE = re.compile(r"( *)(?:pub(?:\([^)]*\))? )?(?:unsafe )?(struct|enum|union|trait|type) (\w+)")
OWNER = re.compile(r" *(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:impl|trait)\b")


def is_associated(above: list[str], indent: str) -> bool:
    """True if an alias below these lines belongs to a trait or its implementation."""
    for line in reversed(above):
        if line.strip() not in ("", "where", "{") and not line.startswith(indent):
            return bool(OWNER.match(line))
    return False


def types(code: str) -> list[str]:
    """Names of the types that a text defines."""
    lines = code.splitlines()
    found = []
    for index, line in enumerate(lines):
        match = TYPE.match(line)
        if match and not (match[2] == "type" and is_associated(lines[:index], match[1])):
            found.append(match[3])
    return found


def main() -> int:
    """Checks all crates."""
    files = defaultdict(list)
    for file in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        if not re.search(r"tests[/.]|/fixture\.rs", str(file.relative_to(ROOT))):
            for name in types(text_of(file)):
                files[name].append(str(file.relative_to(ROOT)))
    shared = {name: where for name, where in sorted(files.items()) if len(where) > 1 and name not in EXEMPT}
    for name, where in shared.items():
        print(f"{name}: {', '.join(where)}", file=sys.stderr)
    return int(bool(shared))


if __name__ == "__main__":
    sys.exit(main())
