"""Runs cases until the time is over, counts outcomes, and keeps what was found."""

from __future__ import annotations

import gc
import json
import os
import pickle
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from pathlib import Path
from pkgutil import walk_packages
from random import Random

import ktrace
from ktrace.errors import KtraceError

from .case import COMMANDS, Case, Order
from .child import Limits, Outcome, removed, run
from .findings import keep
from .samples import samples

#: A case that takes longer is noted, in seconds of CPU time: no sample is longer than 50 kB.
SLOW = 5.0


@dataclass
class Figures:
    """What came of many cases."""

    cases: Counter[str] = field(default_factory=Counter)  # outcome -> cases
    formats: Counter[str] = field(default_factory=Counter)
    damage: Counter[str] = field(default_factory=Counter)
    found: dict[str, list[str]] = field(default_factory=dict)  # cause -> the cases that showed it
    boundary: dict[str, list[str]] = field(default_factory=dict)  # the same of files that one bad value refuses
    texts: dict[str, str] = field(default_factory=dict)  # cause -> the first traceback
    slow: dict[str, float] = field(default_factory=dict)  # case -> seconds
    cpu: float = 0.0
    seconds: float = 0.0

    def add(self, case: Case, outcome: Outcome) -> bool:
        """Counts a case; returns whether it shows a cause for the first time."""
        kind = outcome.kind if not outcome.found else "finding"
        self.cases[kind] += 1
        self.formats[case.sample.format] += 1
        self.damage.update(outcome.damage.split()[1:])
        self.cpu += outcome.seconds
        if outcome.seconds > SLOW and outcome.kind != "hang":
            self.slow[str(case)] = round(outcome.seconds, 1)
        if not outcome.found and outcome.kind != "boundary":
            return False
        known = (self.found if outcome.found else self.boundary).setdefault(outcome.key, [])
        known.append(str(case))
        self.texts.setdefault(outcome.key, outcome.text)
        return len(known) == 1

    def merge(self, other: Figures) -> None:
        """Adds the figures of another process."""
        for name in ("cases", "formats", "damage"):
            getattr(self, name).update(getattr(other, name))
        for mine, theirs in ((self.found, other.found), (self.boundary, other.boundary)):
            for cause, several in theirs.items():
                mine.setdefault(cause, []).extend(several)
        self.texts = other.texts | self.texts
        self.slow |= other.slow
        self.cpu += other.cpu
        self.seconds = max(self.seconds, other.seconds)

    def lines(self) -> Iterator[str]:
        """Yields what there is to say, the most frequent cause first."""
        total = self.cases.total()
        outcomes = ", ".join(f"{self.cases[name]:,} {name}" for name in ("done", "refused", "boundary", "finding"))
        took = f"{self.seconds:,.0f} s ({self.cpu:,.0f} s of CPU)"
        yield f"{total:,} cases of {len(self.formats)} formats in {took}: {outcomes}"
        for what, causes in (("findings", self.found), ("files refused because of a value", self.boundary)):
            yield f"{len(causes)} causes of {what}"
            for cause, several in sorted(causes.items(), key=lambda item: -len(item[1])):
                yield f"  {len(several):>6,} x {cause}"
                yield f"           {several[0]}"
        for case, seconds in sorted(self.slow.items(), key=lambda item: -item[1])[:10]:
            yield f"  slow: {seconds} s of CPU  {case}"


def warm() -> None:
    """Imports all of ktrace and runs each command once, so that no case has to."""
    for module in walk_packages(ktrace.__path__, "ktrace."):
        if not any(part in module.name for part in ("__main__", "_templates", "closed")):
            import_module(module.name)
    for name in ("jsonschema_rs", "h5py", "otf2", "pandas", "fsspec"):
        try:
            import_module(name)
        except ImportError:
            continue
    for number, command in enumerate(COMMANDS):
        sample = samples()[list(samples())[number]][0]
        with tempfile.TemporaryDirectory() as folder, suppress(KtraceError):
            Order(command, {"jobs": 1, "from_": sample.format}).run(sample.copy(Path(folder)), Path(folder))
    gc.collect()
    gc.freeze()  # what is there already isn't copied by a collection in a child


def cases(formats: list[str], seed: int, *, compares: bool = False) -> Iterator[Case]:
    """Yields cases without end: each format in turn, a sample of it, another seed each round."""
    known = samples()
    for number in count(seed * 1_000_000):
        for name in formats:
            yield Case(Random(f"{name} {number}").choice(known[name]), number, compares)


def fuzz(
    formats: list[str],
    *,
    seed: int = 0,
    minutes: float | None = None,
    most: int | None = None,
    home: Path | None = None,
    share: tuple[int, int] = (0, 1),
    limits: Limits | None = None,
    tell: bool = True,
    compares: bool = False,
) -> Figures:
    """Runs cases for some minutes, or a number of them, or until Ctrl-C, and keeps findings below `home`.

    `share` is which of how many processes this is; each takes every n-th case. `compares`: cases compare readers.
    """
    limits = limits or Limits()
    figures, begin, told = Figures(), time.monotonic(), 0.0
    with (
        suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="ktrace-fuzz-", ignore_cleanup_errors=True) as scratch,
    ):
        for number, case in enumerate(cases(formats, seed, compares=compares)):
            figures.seconds = time.monotonic() - begin
            if (minutes is not None and figures.seconds > minutes * 60) or (most is not None and number >= most):
                break
            if number % share[1] != share[0]:
                continue
            folder = Path(scratch) / "case"
            outcome = run(case.lay, case.order(), folder, limits)
            if figures.add(case, outcome):
                if tell:
                    said = outcome.text.strip().splitlines() or [""]
                    line = said[-1] if said[0].startswith("Traceback") else said[0]
                    print(f"{outcome.key}\n    {case}\n    {line[:300]}", flush=True)
                if home is not None:
                    keep(case, outcome, folder / "in", home, limits)
            removed(folder)
            if tell and figures.seconds - told > 60:
                told = figures.seconds
                print(f"-- {next(figures.lines())}", flush=True)
    return figures


def run_case(case: Case, scratch: Path, limits: Limits) -> Outcome:
    """Runs a case in a folder of its own below `scratch`, and removes that."""
    folder = scratch / "case"
    try:
        return run(case.lay, case.order(), folder, limits)
    finally:
        removed(folder)


def fuzz_in_processes(formats: list[str], jobs: int, home: Path | None, **options: object) -> Figures:
    """Runs cases in several processes, and adds up their figures."""
    if jobs == 1:
        return fuzz(formats, home=home, **options)  # type: ignore[arg-type]
    pipes = []
    for number in range(jobs):
        reading, writing = os.pipe()
        if not os.fork():
            code = 1
            try:
                figures = fuzz(formats, home=home, share=(number, jobs), **options)  # type: ignore[arg-type]
                with os.fdopen(writing, "wb") as answer:
                    pickle.dump(figures, answer)
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        pipes.append(reading)
    total = Figures()
    for reading in pipes:
        with os.fdopen(reading, "rb") as answer:
            total.merge(pickle.load(answer))
    return total


def write_figures(figures: Figures, path: Path) -> None:
    """Writes the figures as JSON."""
    fields = {
        "cases": dict(figures.cases),
        "formats": dict(figures.formats),
        "damage": dict(figures.damage),
        "found": figures.found,
        "boundary": figures.boundary,
        "slow": figures.slow,
        "cpu": figures.cpu,
        "seconds": figures.seconds,
    }
    path.write_text(json.dumps(fields, indent=1) + "\n")
