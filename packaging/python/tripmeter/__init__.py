"""Reads results of Tripmeter: load(folder) has metrics, trials and samples as data frames of pandas or polars.

The program `tripmeter` comes in the same wheel. docs/formats.md of the project says what each column means.
"""

from __future__ import annotations

import functools
import importlib
import json
from pathlib import Path
from typing import Any

__all__ = ["FormatError", "Results", "load"]

#: The major version of results that this module reads.
SCHEMA = "2"
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
        text = (self.folder / "trials.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

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
        file = self.folder / "metrics.csv"
        if self._is_polars:
            keys = [(*key,) for key in self._finished]
            counted = self._frame(keys, ["sub_experiment", "round", "payload_bytes"])
            types = {name: self._library.Float64 for name in ("value", "low", "high")}
            rows = self._library.read_csv(file, schema_overrides=types)
            return rows.join(counted, on=["sub_experiment", "round", "payload_bytes"], how="semi")
        rows = self._library.read_csv(file, keep_default_na=False, na_values={name: [""] for name in ("value", "low", "high")})
        keys = zip(rows["sub_experiment"], rows["round"], rows["payload_bytes"])
        return rows[[key in self._finished for key in keys]].reset_index(drop=True)

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
                                  "figure", "statistic", "value", "low", "high"],
                           numbers=("rate_hz", "value", "low", "high"))

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
            types = {time: self._library.Int64 for time in TIMES}
            read = self._library.read_parquet
            rows = read(file) if is_parquet else self._library.read_csv(file, schema_overrides=types)
            rows = rows.join(self._frame(trials, ["round", "trial"]), on=["round", "trial"], how="semi")
            return rows.select(self._library.lit(name).alias("sub_experiment"), self._library.all())
        types = {time: "Int64" for time in TIMES}
        rows = self._library.read_parquet(file).astype(types) if is_parquet else self._library.read_csv(file, dtype=types)
        known = set(trials)
        rows = rows[[key in known for key in zip(rows["round"], rows["trial"])]]
        rows.insert(0, "sub_experiment", name)
        return rows

    @property
    def _is_polars(self) -> bool:
        return self._library.__name__ == "polars"

    def _frame(self, rows: list[tuple[Any, ...]], columns: list[str], numbers: tuple[str, ...] = ()) -> Any:
        if self._is_polars:
            frame = self._library.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None)
            return frame.with_columns(self._library.col(name).cast(self._library.Float64) for name in numbers)
        return self._library.DataFrame(rows, columns=columns).astype({name: "float64" for name in numbers})


def _statistics(found: Any) -> list[tuple[str, float, float | None, float | None]]:
    """Statistic, value and both ends of its interval; a number is a figure of one value."""
    if not isinstance(found, dict):
        return [("value", found, None, None)]
    within = found.get("within", {})
    return [(name, value, *within.get(name, (None, None))) for name, value in found.items() if name != "within"]
