#!/usr/bin/env python3
"""Writes the sources of the documentation site into target/site-source: scripts/site.py [--require-all].

docs/SUMMARY.md names the pages; each is a document of this repository, with its links changed to their targets in the site.
Documents in docs/ that SUMMARY.md does not name come in the place of `others`. The page of each transport is made from its
transport.toml, `tripmeter list --json`, docs/results and its section in docs/transports.md. `tripmeter report` makes the
gallery, which is left out if the program has no such command.

A missing plugin cannot be described: its page says so, and with --require-all that is an error.
TRIPMETER names the program (default target/release/tripmeter).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from site_transports import Transport, slug

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TRIPMETER = os.environ.get("TRIPMETER", str(TARGET / "release/tripmeter"))
SOURCE = TARGET / "site-source"
RESULTS = ROOT / "docs/results"
DRIVEN = "docs/transports.md"

ENTRY = re.compile(r"\[[^\]]+\]\(([^)]+)\)")
LINK = re.compile(r"(?<=\]\()[^)\s]+(?=\))")
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


class Site:
    """Places of the repository's documents in the site."""

    def __init__(self, summary: str, systems: list[Transport]):
        self.systems = systems
        self.pages = {path: page_of(path) for path in (os.path.normpath(f"docs/{link}") for link in ENTRY.findall(summary))}
        self.files = {}

    def link(self, target: str, document: str, page: str) -> str:
        """Link of a document as it is on the page. A file that is not a page is copied into the site."""
        if re.match(r"[a-z]+:|#", target):
            return target
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(document), path))
        moved = [one.page for one in self.systems if path == DRIVEN and anchor and anchor == slug(one.heading)]
        if moved:
            return relative(moved[0], page)
        if (ROOT / path).is_dir():
            path += "/README.md"
        if path in self.pages:
            return relative(self.pages[path], page) + ("#" + anchor if anchor else "")
        if not (ROOT / path).is_file():
            sys.exit(f"site: {document} links to '{target}', which is not there")
        place = path.removeprefix("docs/")
        self.files[path] = place if Path(path).suffix else place + ".txt"
        return relative(self.files[path], page)

    def turned(self, text: str, document: str, page: str) -> str:
        """Text of a document with its links as on the page. Code blocks stay unchanged."""
        parts = FENCE.split(text)
        parts[::2] = [LINK.sub(lambda match: self.link(match[0], document, page), part) for part in parts[::2]]
        return "".join(parts)


def page_of(document: str) -> str:
    """The page of a document: README.md is the first."""
    if document == "README.md":
        return "index.md"
    if document.startswith("docs/"):
        return document.removeprefix("docs/")
    return document.removesuffix("/README.md").removesuffix(".md").lower() + ".md"


def relative(target: str, page: str) -> str:
    return os.path.relpath(target, os.path.dirname(page) or ".")


def write(page: str, text: str) -> None:
    (SOURCE / page).parent.mkdir(parents=True, exist_ok=True)
    (SOURCE / page).write_text(text)


def program(*arguments: str) -> str:
    """Output of `tripmeter ARGUMENTS`."""
    made = subprocess.run([TRIPMETER, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
    if made.returncode != 0:
        sys.exit(f"site: `tripmeter {' '.join(arguments)}` failed ({made.returncode}): {made.stderr.strip()}")
    return made.stdout


def script(*command: str) -> str:
    """Output of a Python script of the repository."""
    return subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout


def has_command(name: str) -> bool:
    return subprocess.run([TRIPMETER, name, "--help"], capture_output=True, check=False).returncode == 0


def transports(require_all: bool) -> list[Transport]:
    """Every folder of transports/ that has a transport.toml, in the order of `tripmeter list`."""
    known = {one["system"]: one for one in json.loads(program("list", "--json"))}
    headings = {re.sub(r"\W", "", heading.lower()): heading for heading, _ in sections((ROOT / DRIVEN).read_text())}
    order, found = list(known), []
    for file in (ROOT / "transports").glob("*/transport.toml"):
        about = tomllib.loads(file.read_text())
        name = about["system"]
        if name not in known:
            sys.exit(f"site: `tripmeter list` does not know '{name}'; is '{TRIPMETER}' up to date?")
        if require_all and not known[name]["description"]:
            sys.exit(f"site: '{name}' cannot be described: {known[name]['reason']}")
        one = Transport(name, about, known[name], headings.get(name.replace("-", ""), ""))
        if not one.heading and (ROOT / f"docs/{name}.md").exists():
            one.title = title_of(f"docs/{name}.md").split(",")[0]
        found.append(one)
    return sorted(found, key=lambda one: order.index(one.name))


def results() -> list[dict]:
    """The results folders that are kept in docs/results, `quick` first."""
    found = []
    for file in sorted(RESULTS.glob("*/manifest.json"), key=lambda file: (file.parent.name != "quick", file)):
        folder = file.parent
        lines = [json.loads(line) for line in (folder / "trials.jsonl").read_text().split("\n")[:-1]]
        preset = ROOT / f"presets/{folder.name}.toml"
        found.append({
            "name": folder.name,
            "summary": tomllib.loads(preset.read_text())["summary"] if preset.exists() else "",
            "plan": json.loads(file.read_text())["plan"],
            "machine": script("scripts/render.py", "machine", str(folder)).strip(),
            "report": None,
            "blocks": json.loads(program("export", str(folder), "--tables", "all", "--format", "json"))["blocks"],
            "states": [line for line in lines if line["kind"] == "sub-experiment"],
        })
    return found


def sections(text: str) -> list[tuple[str, str]]:
    """Headings of the second level with the text below them; the text before the first has an empty heading."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]


def title_of(document: str) -> str:
    return (ROOT / document).read_text().split("\n", 1)[0].removeprefix("# ")


def write_transports(site: Site, folders: list[dict]) -> None:
    """A page for each system with its section of docs/transports.md, and a page with the other sections."""
    parts = sections((ROOT / DRIVEN).read_text())
    own = {one.heading: one for one in site.systems if one.heading}
    common = [(heading, text) for heading, text in parts if heading not in own]
    texts = dict(parts)
    compared = sorted(RESULTS.glob("native*.json"), key=lambda file: (len(file.name), file))
    native = [script("bench/native/run.py", "--table", str(file)) for file in compared]
    for one in site.systems:
        also = [f"[{heading}]({relative('transports.md', one.page)}#{slug(heading)})"
                for heading, text in common if heading and re.search(rf"`{re.escape(one.name)}[`/]", text)]
        shown = {document for folder in folders if one.is_in(folder) for document in documents_of(folder["name"])}
        shown |= {f"docs/{one.name}.md"} & site.pages.keys()
        also += [f"[{title_of(document)}]({relative(site.pages[document], one.page)})" for document in sorted(shown - {DRIVEN})]
        notes = site.turned(texts[one.heading], DRIVEN, one.page) if one.heading else ""
        write(one.page, one.text(folders, native, notes, also))
    index = "| transport | is | where |\n| --- | --- | --- |\n" + "".join(one.index_line() for one in site.systems)
    introduction, *rest = [f"## {heading}\n{text}" if heading else text for heading, text in common]
    before, after = (site.turned(text, DRIVEN, "transports.md") for text in (introduction, "".join(rest)))
    write("transports.md", f"{before.rstrip()}\n\n{index}\n{after}")


def documents_of(folder: str) -> list[str]:
    """Documents other than README.md with a table or plot of a results folder."""
    shown = re.compile(rf"<!-- table: .*docs/results/{re.escape(folder)}(?![\w-])")
    return [f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md")) if shown.search(file.read_text())]


def wrong_flags(document: str, helps: dict[tuple, str]) -> list[str]:
    """Commands of tripmeter in a document's shell blocks that use flags which the command does not have."""
    wrong = []
    for block in re.findall(r"^```sh\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            for command in re.findall(r"(?:^|[;&|] *)(?:sudo )?tripmeter ([a-z].*?)(?= [;&|]| #|$)", line):
                words = command.split()
                name = tuple(words[:2] if words[0] == "eprosima" else words[:1])
                if name not in helps:
                    helps[name] = program(*name, "--help")
                flags = [word.split("=")[0] for word in words if word.startswith("--")]
                wrong += [f"{document}: `tripmeter {' '.join(name)}` has no {flag}" for flag in flags
                          if not re.search(rf"(?<![\w-]){flag}(?![\w-])", helps[name])]
    return wrong


def write_gallery(folders: list[dict]) -> bool:
    """Writes a report of each results folder; false if the program cannot make any."""
    if not has_command("report"):
        print("site: this tripmeter has no command `report`: no gallery", file=sys.stderr)
        return False
    text = ("# Gallery\n\nReports by `tripmeter report`, of the results in `docs/results`. Each is one file without requests "
            "to anywhere.\nThe results are kept without samples, so charts of single samples are missing.\n")
    (SOURCE / "gallery").mkdir(parents=True, exist_ok=True)
    for folder in folders:
        name = folder["name"]
        folder["report"] = f"gallery/{name}.html"
        program("report", str(RESULTS / name), "-o", str(SOURCE / folder["report"]))
        text += (f"\n## {name}\n\n{folder['summary']}.\n\n{folder['machine']}\n\n[Open the report]({folder['report']}), or "
                 f"make your own: `tripmeter run {name}`.\n")
    write("gallery.md", text)
    return True


def main() -> int:
    """Writes all sources from scratch."""
    if sys.argv[1:] not in ([], ["--require-all"]):
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 64
    if not Path(TRIPMETER).is_file():
        print(f"site: '{TRIPMETER}' is not there; build it (cargo build --release) or name it in TRIPMETER", file=sys.stderr)
        return 69
    shutil.rmtree(SOURCE, ignore_errors=True)
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    named = {*re.findall(r"\((\w+\.md)\)", summary), "SUMMARY.md"}
    others = [file.name for file in sorted((ROOT / "docs").glob("*.md")) if file.name not in named]
    summary = summary.replace("<!-- others -->\n", "".join(f"- [{title_of(f'docs/{name}')}]({name})\n" for name in others))
    site = Site(summary, transports("--require-all" in sys.argv))
    helps = {}
    wrong = [line for document in site.pages for line in wrong_flags(document, helps)]
    if wrong:
        sys.exit("site: " + "; ".join(wrong))
    folders = results()
    for document, page in site.pages.items():
        if document != DRIVEN:
            write(page, site.turned((ROOT / document).read_text(), document, page))
    gallery = "- [Gallery](gallery.md)" if write_gallery(folders) else ""
    write_transports(site, folders)
    pages = "\n".join(f"  - [{one.title}]({one.page})" for one in site.systems)
    summary = ENTRY.sub(lambda match: match[0].replace(match[1], site.pages[os.path.normpath(f"docs/{match[1]}")]), summary)
    write("SUMMARY.md", summary.replace("  <!-- transports -->", pages).replace("<!-- gallery -->", gallery))
    for path, place in site.files.items():
        (SOURCE / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, SOURCE / place)
    print(f"site: {len(list(SOURCE.rglob('*.md'))) - 1} pages in {SOURCE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
