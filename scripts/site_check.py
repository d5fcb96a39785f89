#!/usr/bin/env python3
"""Checks a built site: scripts/site_check.py DIR.

Every link within the site must lead to an existing file and anchor, every page must be reachable from index.html, and nothing
may be loaded from elsewhere. Links to other sites are not followed. If Chromium is installed, the search is tried from disk.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Elements that load a file, and the attribute that names it.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href"), ("source", "src"), ("object", "data")}


class Page(HTMLParser):
    """Links, loaded files and anchors of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if tag == "a" and name == "href" and value is not None:
                self.links.append(value)
            if (tag, name) in LOADED and value and not value.startswith("data:"):
                self.loaded.append(value)


def check(root: Path) -> list[str]:
    """Faults in the links of a site."""
    pages = {file.relative_to(root).as_posix(): Page(file.read_text()) for file in root.rglob("*.html")}
    wrong, reached, waiting = [], set(), ["index.html"]
    links = {name: [] for name in pages}
    for name, page in pages.items():
        for target in page.links + page.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loaded:
                    wrong.append(f"{name}: loads {target}")
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(name), unquote(parts.path))) if parts.path else name
            if not (root / path).is_file():
                wrong.append(f"{name}: '{target}' is not there")
            elif path in pages:
                links[name].append(path)
                if parts.fragment and unquote(parts.fragment) not in pages[path].anchors:
                    wrong.append(f"{name}: '{target}' has no such anchor")
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += links[name]
    wrong += [f"{name}: no link leads here from index.html" for name in sorted(pages.keys() - reached)]
    print(f"site: {len(pages)} pages, {sum(map(len, links.values()))} links between them")
    return wrong


def search(root: Path, word: str, page: str) -> list[str]:
    """Faults in the search, tried in a browser that opens the site from disk."""
    chromium = shutil.which("chromium")
    if not chromium:
        print("site: no chromium, the search was not tried")
        return []
    with tempfile.TemporaryDirectory() as profile:
        made = subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND",
             f"--user-data-dir={profile}", "--virtual-time-budget=10000", "--dump-dom",
             f"{(root / 'index.html').as_uri()}?search={word}"],
            capture_output=True, text=True, check=False, timeout=120)
    results = re.search(r'<ul id="[^"]*searchresults">(.*?)</ul>\s*</div>', made.stdout, re.DOTALL)
    found = re.findall(r'href="([^"?#]+)', results[1]) if results else []
    if not any(link.endswith(page) for link in found):
        return [f"search for '{word}' finds {', '.join(found) or 'nothing'}, not {page}"]
    print(f"site: search for '{word}' finds {len(found)} places")
    return []


def main() -> int:
    """Checks links, then the search."""
    if len(sys.argv) != 2 or not Path(sys.argv[1], "index.html").is_file():
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    root = Path(sys.argv[1]).resolve()
    wrong = check(root) + search(root, "roudi", "transports/iceoryx.html")
    for line in wrong:
        print(f"site: {line}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
