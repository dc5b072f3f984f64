"""What a case does: its name decides the damage, the command that reads the file, and the options."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from ktrace.analysis.answers.summary.compute import summarise
from ktrace.cli import cli
from ktrace.errors import KtraceError, OutputError, StrictFailure
from ktrace.pipeline.convert import convert
from ktrace.pipeline.info import inspect
from ktrace.pipeline.validate import CANONICAL, validate
from ktrace.report import Report

from .checks import check_output, unbalanced
from .compare import difference, ways
from .damage import damaged
from .frames import cause_at_boundary, frames_of, place
from .samples import Sample, pieces, samples

#: Commands and outputs -> how often each is chosen. An output of a rare format is converted to now and then.
COMMANDS = {
    **{"perfetto": 6, "chrome": 3, "parquet": 3, "csv": 3, "jsonl": 3, "arrow": 1, "json": 1},
    **{"speedscope": 1, "folded": 1, "otlp": 1, "nsys-csv": 1, "summary": 3, "page": 1, "info": 4, "validate": 2},
}

#: Sizes of chunks in which a trace is read to compare readers.
CHUNKS = (64, 300, 700, 5000, 1 << 19)

#: Characters by which a name could steer a terminal.
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

#: File names of outputs that ktrace takes for the format.
_SUFFIX = {"perfetto": "perfetto", "chrome": "trace.json", "nsys-csv": "_cuda_gpu_trace.csv"}


@dataclass(frozen=True)
class Case:
    """A case: a sample and a seed."""

    sample: Sample
    seed: int
    compares: bool = False

    def __str__(self) -> str:
        return f"{self.sample.format}/{self.sample.name}/{self.seed}"

    @staticmethod
    def named(name: str, *, compares: bool = False) -> Case:
        """Returns the case of a name. Raises KeyError or ValueError where there is none."""
        fmt, _, rest = name.partition("/")
        sample, _, seed = rest.rpartition("/")
        known = {one.name: one for one in samples()[fmt]}
        return Case(known[sample], int(seed), compares)

    def order(self) -> Order:
        """Returns the command and its options."""
        rng = Random(f"{self} order")
        if self.compares:
            return Order("compare", {"from_": self.sample.format, "chunks": rng.sample(CHUNKS, 2)})
        [command] = rng.choices(list(COMMANDS), list(COMMANDS.values()))
        if command == "validate" and self.sample.format not in CANONICAL:
            command = "validated"
        options: dict[str, Any] = {"jobs": rng.choice((1, 1, 1, 2))}
        if rng.random() < 0.5:
            options["from_"] = self.sample.format
        if command not in ("info", "page", "summary", "validate") and rng.random() < 0.08:
            options |= rng.choice(({"explain": "idle,critical-path"}, {"classify": True}))
        if command not in ("info", "page", "validate", "summary") and rng.random() < 0.05:
            options["strict"] = True
        return Order(command, options)

    def lay(self, folder: Path) -> tuple[Path, list[str]]:
        """Writes the damaged sample into a folder; returns its path, and what was done to which file."""
        rng = Random(f"{self}")
        path = self.sample.copy(folder)
        names = self.sample.files()
        name = rng.choice(names) if self.sample.path.is_dir() or rng.random() < 0.1 else names[0]
        file = folder / name
        data, done = damaged(file.read_bytes(), rng, lambda: rng.choice(pieces()).read_bytes(), file.name)
        file.write_bytes(data)
        return path, [name, *done]


@dataclass(frozen=True)
class Order:
    """A command, which may be the format of an output, and its options."""

    command: str
    options: dict[str, Any]

    def run(self, path: Path, out: Path) -> tuple[str, str, str]:
        """Runs the command; returns an outcome, its place, and what there is to say about it.

        The outcome is "done", "refused" (an error of ktrace that names the file), "boundary" (such an error, but made
        of an exception of a reader; the place is that of the exception) or "finding". Other exceptions aren't caught.
        """
        try:
            fault = self._run(path, out)
            return ("finding", "", fault) if fault else ("done", "", "")
        except OutputError as error:
            return "finding", "", f"an error of the input is told as one of the output: {error}"
        except KtraceError as error:
            if "doesn't add up" in str(error):
                return "finding", "", f"unbalanced: {error}"
            if type(error).__name__ == "InternalError":
                return "finding", "", f"an invariant is broken: {error}"
            if not isinstance(error, StrictFailure) and path.name not in f"{error.path or ''} {error}":
                return "finding", "", f"the error doesn't name the file: {error}"
            if (cause := cause_at_boundary(error)) is not None:
                return "boundary", f"{type(cause).__name__} {place(frames_of(cause))}", str(error)
            return "refused", "", str(error)

    def _run(self, path: Path, out: Path) -> str:
        """Runs the command; returns a fault of what came out, or nothing."""
        match self.command:
            case "info":
                report = inspect(path, from_=self.options.get("from_")).report
                return unbalanced(report) or _printed("info", path, self.options)
            case "summary":
                summary = summarise(path, **self.options)
                assert summary.verdict is not None
                summary.tables()
                return unbalanced(summary.report or Report()) or _printed("summary", path, self.options)
            case "page":
                return _printed("summary", path, self.options, "-o", str(out / "page.html"))
            case "compare":
                return difference(path, self.options["from_"], out, ways(*self.options["chunks"]))
            case "validate":
                validate(path)
                return ""
            case "validated":
                target = out / "out.jsonl"
                report = convert(path, target, **self.options)
                faults = validate(target).faults
                return unbalanced(report) or (f"the output is invalid: {faults[0]}" if faults else "")
            case fmt:
                target = out / f"out.{_SUFFIX.get(fmt, fmt)}"
                report = convert(path, target, to=fmt, **self.options)
                return unbalanced(report) or check_output(fmt, target, report)


def _printed(command: str, path: Path, options: dict[str, Any], *more: str) -> str:
    """Runs a command that prints; returns a fault if what it prints steers the terminal."""
    words = [command, str(path), *more]
    words += ["--from", options["from_"]] if "from_" in options else []
    words += ["--jobs", str(options["jobs"])] if command != "info" else []
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        cli.main(words, prog_name="ktrace", standalone_mode=False)
    text = printed.getvalue()
    if found := _STEERS.search(text):
        return f"prints {found[0]!r}: {text[max(0, found.start() - 40) : found.end() + 20]!r}"
    return ""
