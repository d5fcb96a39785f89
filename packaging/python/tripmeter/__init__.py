"""Reads results of Tripmeter: load(folder) has metrics, trials and samples as data frames of pandas or polars.

The program `tripmeter` comes in the same wheel. docs/formats.md of the project says what each column means.
"""

from __future__ import annotations

import errno
import functools
import importlib
import io
import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["FormatError", "Results", "load"]

#: The major versions of results that this module reads.
SCHEMAS = ("2", "3")
#: Types of columns. A library that guessed them would take a name such as "1" for a number.
TEXT = ("sub_experiment", "offered_load", "load", "stream", "figure", "statistic", "status")
COUNTS = ("round", "payload_bytes", "trial", "sequence")
NUMBERS = ("rate_hz", "value", "low", "high")
#: Times of a sample; an empty one is none.
TIMES = ("intended_ns", "sent_ns", "received_ns", "answered_ns")
#: Columns that the files have.
METRICS = ("sub_experiment", "round", "payload_bytes", "offered_load", "stream", "figure", "statistic", "value", "low",
           "high")
SAMPLES = ("round", "trial", "payload_bytes", "stream", "sequence", "status", *TIMES)
#: From which time to which a figure is the time.
SPANS = {"rtt_half_ns": ("sent_ns", "answered_ns"), "call_ns": ("sent_ns", "answered_ns"),
         "response_ns": ("intended_ns", "received_ns"), "service_ns": ("sent_ns", "received_ns"),
         "response_rtt_ns": ("intended_ns", "answered_ns"), "service_rtt_ns": ("sent_ns", "answered_ns"),
         "one_way_ns": ("sent_ns", "received_ns")}
#: Status of the samples that are in figures.
CAME = ("ok", "reordered", "duplicated")
#: Fields that are read of a line of trials.jsonl, by its kind.
PAYLOAD = {"sub_experiment": str, "round": int, "payload_bytes": int, "attempt": int}
FIELDS = {"payload": PAYLOAD, "trial": PAYLOAD | {"trial": int, "load": dict, "streams": dict},
          "sub-experiment": {"name": str, "round": int, "status": str}}


class FormatError(ValueError):
    """A folder that holds no results, results of another version, or damaged ones; names the file."""


def load(folder: str | Path, frames: str = "pandas") -> Results:
    """Results of a run, as data frames of "pandas" or "polars"; either must be installed.

    Raises FormatError if the folder holds no results that this version reads. Frames raise it if their file is damaged, or
    is not a regular file: links in the folder are not followed.
    """
    if frames not in ("pandas", "polars"):
        raise ValueError(f"frames is {frames!r}; give 'pandas' or 'polars'")
    return Results(Path(folder), importlib.import_module(frames))


class Results:
    """A results folder. Each frame is read when it is first asked for.

    A payload that was being measured when its run was stopped is in no frame: `tripmeter run --resume` measures it again.
    """

    def __init__(self, folder: Path, library: Any) -> None:
        self.folder = folder
        self._library = library
        path = folder / "manifest.json"
        found = self._read("manifest.json")
        if found is None:
            raise FormatError(f"'{folder}' has no manifest.json of tripmeter")
        try:
            #: manifest.json: plan, environment, and state of the whole.
            self.manifest: dict[str, Any] = _json(found)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"'{path}' is not JSON: {error}; it may be cut off") from error
        version = self.manifest.get("schema_version") if isinstance(self.manifest, dict) else None
        if version is None:
            raise FormatError(f"'{path}' has no schema version, so it is not from tripmeter")
        if str(version).split(".")[0] not in SCHEMAS:
            raise FormatError(f"'{folder}' has schema version {version}, this module reads {'.x and '.join(SCHEMAS)}.x")
        try:
            plan, self._results = self.manifest["plan"], int(self.manifest.get("results", 0))
            #: How many of the newest rounds have samples, and whether samples are kept at all.
            self._kept_rounds = int(plan.get("keep_samples") or plan["rounds"])
            self._has_samples = bool({"samples", "parquet"} & set(plan["raw"]))
            #: Passes that look at system calls, which writing samples would be among.
            self._traced = {sub["name"] for sub in plan["sub_experiments"] if sub.get("instrument") == "system-calls"}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"'{path}' is damaged: {error!r}") from error

    @functools.cached_property
    def _lines(self) -> list[dict[str, Any]]:
        """Whole lines of trials.jsonl, each with its number as `line`; what a kill has cut off does not count."""
        path, lines = self.folder / "trials.jsonl", []
        for number, text in enumerate((self._read("trials.jsonl") or b"").split(b"\n")[:-1], 1):
            if text:
                try:
                    line = _json(text)
                    _check(line)
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                    raise FormatError(f"'{path}' line {number} is damaged, or not from tripmeter: {error!r}") from error
                lines.append(line | {"line": number})
        states = self._states(lines)
        if len(states) < self._results:
            raise FormatError(f"'{path}' has {len(states)} sub-experiments, manifest.json says {self._results}; it is "
                              "damaged, or not the one that belongs to the manifest")
        measured = [key[:2] for key in _last(lines)]
        for key, state in states.items():
            found, payloads = measured.count(key), state.get("payloads", 0)
            if state["status"] != "running" and found < payloads:
                raise FormatError(f"'{path}' has {found} payloads of {key[0]} in round {key[1]}, its state says {payloads}; "
                                  "it is damaged")
        return lines

    @staticmethod
    def _states(lines: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
        """The last state of each sub-experiment in each round."""
        return {(line["name"], line["round"]): line for line in lines if line["kind"] == "sub-experiment"}

    @functools.cached_property
    def _finished(self) -> dict[tuple[str, int, int], int]:
        """The last attempt of each payload that was not being measured when its run was stopped: it counts."""
        return {key: line["attempt"] for key, line in _last(self._lines).items() if not line.get("unfinished")}

    def _counted(self) -> list[dict[str, Any]]:
        """Lines of trials that count; a later line of one takes the place of an earlier one."""
        found = {}
        for line in self._lines:
            if line["kind"] == "trial":
                payload = line["sub_experiment"], line["round"], line["payload_bytes"]
                if self._finished.get(payload) == line["attempt"]:
                    found[*payload, line["trial"]] = line
        return list(found.values())

    @functools.cached_property
    def metrics(self) -> Any:
        """Every figure of every finished payload: the rows of metrics.csv that count."""
        data = self._read("metrics.csv")
        if data is None and self._finished and self.manifest.get("status") != "running":
            raise FormatError(f"'{self.folder / 'metrics.csv'}' is not there, and payloads are finished")
        key = ["sub_experiment", "round", "payload_bytes"]
        rows = self._csv(self.folder / "metrics.csv", data or b"", METRICS, key, self._finished)
        if self._is_polars:
            rows = rows.join(self._frame(list(self._finished), key), on=key, how="semi")
        else:
            keys = zip(*(rows[name] for name in key))
            rows = rows.loc[[one in self._finished for one in keys]].reset_index(drop=True)
        # Of a sub-experiment that is not whole, a payload may wait to be measured again, without rows.
        whole = {of for of, state in self._states(self._lines).items() if state["status"] == "complete"}
        columns = (*key, "stream", "figure", "statistic")
        wanted, found = (Counter(zip(*(frame[name] for name in columns))) for frame in (self.trials, rows))
        for figure in wanted - found:
            if figure[:2] in whole:
                raise FormatError(f"'{self.folder / 'metrics.csv'}' has {found[figure]} rows of {' '.join(map(str, figure))}, "
                                  f"trials.jsonl says {wanted[figure]}; the file is cut off or damaged")
        return rows

    @functools.cached_property
    def trials(self) -> Any:
        """A row for each figure of each trial that counts, with `low` and `high` of its interval within the run."""
        rows = []
        for line in self._counted():
            head = (line["sub_experiment"], line["round"], line["payload_bytes"], line["trial"], line["load"]["kind"],
                    line["load"].get("rate_hz"))
            for stream, figures in line["streams"].items():
                for figure, found in figures.items():
                    rows += [(*head, stream, figure, *one) for one in _statistics(found)]
        return self._frame(rows, ["sub_experiment", "round", "payload_bytes", "trial", "load", "rate_hz", "stream",
                                  "figure", "statistic", "value", "low", "high"])

    @functools.cached_property
    def samples(self) -> Any:
        """Every sample of the trials that count, with the name of its sub-experiment; empty without raw samples."""
        trials: dict[tuple[int, str], dict[int, dict[str, Any]]] = {}
        for line in self._counted():
            trials.setdefault((line["round"], line["sub_experiment"]), {})[line["trial"]] = line
        parts = [part for key in sorted(trials) for part in self._samples(*key, trials[key])]
        if not parts:
            return self._frame([], ["sub_experiment", *SAMPLES])
        return self._library.concat(parts) if self._is_polars else self._library.concat(parts, ignore_index=True)

    def _samples(self, number: int, name: str, trials: dict[int, dict[str, Any]]) -> Iterator[Any]:
        """Rows of a sub-experiment in a round, if they are there."""
        # A run that keeps both has the same rows in both.
        places = [(*folder, "samples", f"{name}.{ending}") for ending in ("csv", "parquet")
                  for folder in ((), (f"round-{number:02}",))]
        found = next(((parts, file) for parts in places if (file := self._open(*parts))), None)
        if found is None:
            newest = max(line["round"] for line in self._lines)
            # Older rounds have none, by --keep-samples.
            if self._has_samples and name not in self._traced and number > newest - self._kept_rounds:
                for trial, _, figure, expected in _expected(trials):
                    raise FormatError(f"'{self.folder}' has no samples/{name}.csv of round {number}, and trials.jsonl says "
                                      f"that trial {trial} has {expected} rows with {figure}")
            return
        path, file = self.folder.joinpath(*found[0]), found[1]
        with file:
            if path.suffix == ".csv":
                rows = self._csv(path, file.read(), SAMPLES, ["round", "trial"], {(number, trial) for trial in trials})
            else:
                rows = self._parquet(path, file)
        if self._is_polars:
            known = self._frame([(number, trial) for trial in trials], ["round", "trial"])
            rows = rows.join(known, on=["round", "trial"], how="semi")
            rows = rows.select(self._library.lit(name).alias("sub_experiment"), self._library.all())
        else:
            rows = rows.loc[(rows["round"] == number) & rows["trial"].isin(list(trials))]
            rows.insert(0, "sub_experiment", name)
        self._check_rows(path, rows, trials)
        yield rows

    def _check_rows(self, path: Path, rows: Any, trials: dict[int, dict[str, Any]]) -> None:
        """Compares numbers of rows with the trials' figures."""
        counts: dict[tuple[str, str], dict[tuple[int, str], int]] = {}
        for trial, stream, figure, expected in _expected(trials):
            span = SPANS[figure]
            if span not in counts:
                counts[span] = self._count(rows, *span)
            found = sum(count for (number, of), count in counts[span].items()
                        if number == trial and stream in ("all", "follower=last", of))
            if found != expected:
                raise FormatError(f"'{path}' has {found} rows with {figure} of stream {stream} in trial {trial}, "
                                  f"trials.jsonl says {expected}; the file is cut off or damaged")

    def _count(self, rows: Any, begin: str, end: str) -> dict[tuple[int, str], int]:
        """How many rows of each trial and stream are in a figure from one time to another."""
        if self._is_polars:
            column = self._library.col
            came = column("status").cast(self._library.String).is_in(CAME)
            rows = rows.filter(came & column(begin).is_not_null() & column(end).is_not_null())
            return {(trial, stream): count for trial, stream, count in rows.group_by("trial", "stream").len().iter_rows()}
        came = rows["status"].isin(CAME) & rows[begin].notna() & rows[end].notna()
        return dict(rows.loc[came].groupby(["trial", "stream"], observed=True).size().items())

    def _csv(self, path: Path, data: bytes, columns: tuple[str, ...], key: list[str],
             counted: Iterable[tuple[Any, ...]]) -> Any:
        """Whole lines of a table. A line that a kill has cut off does not count; if it is of what counts, it is an error."""
        end = data.rfind(b"\n") + 1
        cut = data[end:].decode(errors="replace").split(",")
        # The last field may be a part of another.
        if len(cut) > len(key) and tuple(cut[:len(key)]) in {tuple(map(str, one)) for one in counted}:
            number = data.count(b"\n") + 1
            raise FormatError(f"'{path}' line {number} is cut off, and its payload counts")
        if not end:
            if counted and data:
                raise FormatError(f"'{path}' has no whole line")
            return self._frame([], list(columns))
        missing = set(columns) - set(data[:data.find(b"\n")].decode(errors="replace").rstrip("\r").split(","))
        if missing:
            raise FormatError(f"'{path}' has no columns {', '.join(sorted(missing))}")
        whole = io.BytesIO(data[:end])
        types = self._types((*TEXT, *COUNTS, *NUMBERS, *TIMES))
        # "NA" is a name like any other.
        empty = dict.fromkeys((*NUMBERS, *TIMES), [""])
        try:
            if self._is_polars:
                return self._library.read_csv(whole, schema_overrides=types)
            return self._library.read_csv(whole, dtype=types, keep_default_na=False, na_values=empty)
        except self._errors as error:
            raise FormatError(f"'{path}' is damaged: {error}") from error

    def _parquet(self, path: Path, file: BinaryIO) -> Any:
        try:
            rows = self._library.read_parquet(file)
            types = self._types(SAMPLES)
            return rows.cast(types) if self._is_polars else rows.astype(types)
        except (*self._errors, OSError, KeyError) as error:
            raise FormatError(f"'{path}' is damaged, or no table of samples: {error}") from error

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        """What the library raises at a file that is none."""
        return (self._library.exceptions.PolarsError,) if self._is_polars else (ValueError, TypeError, OverflowError)

    def _read(self, name: str) -> bytes | None:
        """All of a file; None if it is not there."""
        file = self._open(name)
        if file is None:
            return None
        with file:
            return file.read()

    def _open(self, *parts: str) -> BinaryIO | None:
        """Opens a regular file in the folder; None if it is not there. Only the folder itself may be a link."""
        path, flags = self.folder.joinpath(*parts), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        wrong = f"'{path}' is not read: it must be a regular file, and no link on the way to it"
        at = None
        try:
            at = os.open(self.folder, flags | os.O_DIRECTORY)
            for part in parts:
                inner = os.open(part, flags | os.O_NOFOLLOW | (0 if part is parts[-1] else os.O_DIRECTORY), dir_fd=at)
                os.close(at)
                at = inner
            if not stat.S_ISREG(os.fstat(at).st_mode):
                raise FormatError(wrong)
            file, at = os.fdopen(at, "rb"), None
            return file
        except FileNotFoundError:
            return None
        except OSError as error:
            is_other = error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)
            raise FormatError(wrong if is_other else f"'{path}' cannot be read: {error.strerror}") from error
        finally:
            if at is not None:
                os.close(at)

    def _types(self, columns: Iterable[str]) -> dict[str, Any]:
        """The type that each of these columns has in the library."""
        if self._is_polars:
            types = self._library.String, self._library.Int64, self._library.Float64, self._library.Int64
        else:
            types = "str", "int64", "float64", "Int64"
        known = {name: one for names, one in zip((TEXT, COUNTS, NUMBERS, TIMES), types) for name in names}
        return {name: known[name] for name in columns}

    @property
    def _is_polars(self) -> bool:
        return self._library.__name__ == "polars"

    def _frame(self, rows: list[tuple[Any, ...]], columns: list[str]) -> Any:
        if self._is_polars:
            return self._library.DataFrame(rows, schema=self._types(columns), orient="row")
        return self._library.DataFrame(rows, columns=columns).astype(self._types(columns))


def _json(text: bytes) -> Any:
    return json.loads(text.decode("utf-8"))


def _check(line: Any) -> None:
    """Raises an error if a line of trials.jsonl has not what is read of it. Kinds of later versions are left alone."""
    for name, kind in FIELDS.get(line["kind"], {}).items():
        if not isinstance(line[name], kind) or isinstance(line[name], bool):
            raise TypeError(f"{name} is {line[name]!r}")
    if not isinstance(line.get("payloads", 0), int):
        raise TypeError(f"payloads is {line['payloads']!r}")
    if not isinstance(line.get("unfinished", False), bool):
        raise TypeError(f"unfinished is {line['unfinished']!r}")
    if "/" in line.get("sub_experiment", ""):
        raise ValueError(f"sub_experiment is {line['sub_experiment']!r}")
    if line["kind"] == "trial":
        numbers = [line["load"].get("rate_hz")]
        if not isinstance(line["load"]["kind"], str):
            raise TypeError(f"load is {line['load']!r}")
        for figures in line["streams"].values():
            for figure, found in figures.items():
                numbers += [number for _, *one in _statistics(found) for number in one]
                if figure in SPANS and not isinstance(found["n"], int):
                    raise TypeError(f"{figure} is {found!r}")
        wrong = [number for number in numbers if number is not None and type(number) not in (int, float)]
        if wrong:
            raise TypeError(f"{wrong[0]!r} is not a number")


def _last(lines: list[dict[str, Any]]) -> dict[tuple[str, int, int], dict[str, Any]]:
    """The line of the last attempt of each payload."""
    of = [line for line in lines if line["kind"] == "payload"]
    return {(line["sub_experiment"], line["round"], line["payload_bytes"]): line for line in of}


def _expected(trials: dict[int, dict[str, Any]]) -> Iterator[tuple[int, str, str, int]]:
    """Trial, stream, figure and number of the samples that have rows of their own."""
    for number, line in trials.items():
        for stream, figures in line["streams"].items():
            # A search keeps no rows, and what came to one of several followers has none of its own.
            if line["load"]["kind"] != "search" and (stream == "follower=last" or not stream.startswith("follower=")):
                yield from ((number, stream, figure, figures[figure]["n"]) for figure in figures.keys() & SPANS.keys())


def _statistics(found: Any) -> list[tuple[str, float, float | None, float | None]]:
    """Statistic, value and both ends of its interval; a number is a figure of one value."""
    if not isinstance(found, dict):
        return [("value", found, None, None)]
    within = found.get("within", {})
    return [(name, value, *within.get(name, (None, None))) for name, value in found.items() if name != "within"]
