"""Reads results of Tripmeter: load(folder) has metrics, trials and samples as data frames of pandas or polars.

The program `tripmeter` comes in the same wheel. docs/formats.md of the project says what each column means.
"""

from __future__ import annotations

import functools
import importlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["FormatError", "Results", "load"]

#: The major version of results that this module reads.
SCHEMA = "2"
#: Types of columns. A library that guessed them would take a name such as "1" for a number.
TEXT = ("sub_experiment", "offered_load", "load", "stream", "figure", "statistic", "status")
COUNTS = ("round", "payload_bytes", "trial", "sequence")
NUMBERS = ("rate_hz", "value", "low", "high")
#: Times of a sample; an empty one is none.
TIMES = ("intended_ns", "sent_ns", "received_ns", "answered_ns")


class FormatError(ValueError):
    """A folder that holds no results, or results of another version."""


def load(folder: str | Path, frames: str = "pandas") -> Results:
    """Results of a run, as data frames of "pandas" or "polars"; either must be installed.

    Raises FormatError if the folder holds no results that this version reads.
    """
    if frames not in ("pandas", "polars"):
        raise ValueError(f"frames is {frames!r}; give 'pandas' or 'polars'")
    return Results(Path(folder), importlib.import_module(frames))


class Results:
    """A results folder. Each frame is read when it is first asked for."""

    def __init__(self, folder: Path, library: Any) -> None:
        self.folder = folder
        self._library = library
        try:
            #: manifest.json: plan, environment, and state of the whole.
            self.manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            version = str(self.manifest["schema_version"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FormatError(f"'{folder}' has no manifest.json of tripmeter: {error!r}") from error
        if version.split(".")[0] != SCHEMA:
            raise FormatError(f"'{folder}' has schema version {version}, this module reads {SCHEMA}.x")

    @functools.cached_property
    def _lines(self) -> list[dict[str, Any]]:
        """Whole lines of trials.jsonl; what a kill has cut off does not count."""
        return [json.loads(line) for line in (self.folder / "trials.jsonl").read_bytes().split(b"\n")[:-1]]

    @functools.cached_property
    def _finished(self) -> dict[tuple[str, int, int], int]:
        """The last finished attempt of each payload: it counts."""
        lines = [line for line in self._lines if line["kind"] == "payload"]
        return {(line["sub_experiment"], line["round"], line["payload_bytes"]): line["attempt"] for line in lines}

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
        rows = self._read_csv(self.folder / "metrics.csv")
        key = ["sub_experiment", "round", "payload_bytes"]
        if self._is_polars:
            return rows.join(self._frame(list(self._finished), key), on=key, how="semi")
        keys = zip(*(rows[name] for name in key))
        return rows.loc[[one in self._finished for one in keys]].reset_index(drop=True)

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
        counted = {(line["sub_experiment"], line["round"], line["trial"]) for line in self._counted()}
        files = {}
        # A run that keeps both has the same rows in both.
        for pattern in ("samples/*.parquet", "round-*/samples/*.parquet", "samples/*.csv", "round-*/samples/*.csv"):
            files |= {file.with_suffix(""): file for file in self.folder.glob(pattern)}
        parts = [self._samples(files[key], counted) for key in sorted(files)]
        if not parts:
            return self._frame([], ["sub_experiment"])
        return self._library.concat(parts) if self._is_polars else self._library.concat(parts, ignore_index=True)

    def _samples(self, file: Path, counted: set[tuple[str, int, int]]) -> Any:
        name, is_parquet = file.stem, file.suffix == ".parquet"
        trials = [(number, trial) for sub_experiment, number, trial in counted if sub_experiment == name]
        if self._is_polars:
            rows = self._library.read_parquet(file, glob=False) if is_parquet else self._read_csv(file)
            rows = rows.join(self._frame(trials, ["round", "trial"]), on=["round", "trial"], how="semi")
            return rows.select(self._library.lit(name).alias("sub_experiment"), self._library.all())
        rows = self._library.read_parquet(file).astype(self._types(TIMES)) if is_parquet else self._read_csv(file)
        known = set(trials)
        rows = rows.loc[[key in known for key in zip(rows["round"], rows["trial"])]]
        rows.insert(0, "sub_experiment", name)
        return rows

    def _read_csv(self, file: Path) -> Any:
        """Whole lines of a table; what a kill has cut off does not count."""
        data = file.read_bytes()
        whole = io.BytesIO(data[:data.rfind(b"\n") + 1])
        types = self._types((*TEXT, *COUNTS, *NUMBERS, *TIMES))
        if self._is_polars:
            return self._library.read_csv(whole, schema_overrides=types)
        # "NA" is a name like any other.
        empty = dict.fromkeys((*NUMBERS, *TIMES), [""])
        return self._library.read_csv(whole, dtype=types, keep_default_na=False, na_values=empty)

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


def _statistics(found: Any) -> list[tuple[str, float, float | None, float | None]]:
    """Statistic, value and both ends of its interval; a number is a figure of one value."""
    if not isinstance(found, dict):
        return [("value", found, None, None)]
    within = found.get("within", {})
    return [(name, value, *within.get(name, (None, None))) for name, value in found.items() if name != "within"]
