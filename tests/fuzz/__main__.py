"""The command line: `python -m tests.fuzz --minutes 120`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

from . import __doc__ as about
from .case import Case, Order
from .child import Limits, Outcome
from .compare import FORMATS
from .driver import fuzz_in_processes, run_case, warm, write_figures
from .findings import run_kept
from .samples import samples


def main() -> int:
    """Runs cases, or one of them again; the exit code says whether something was found."""
    known = list(samples())
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=about, formatter_class=_Plain)
    parser.add_argument("--minutes", type=float, help="how long")
    parser.add_argument("--cases", type=int, help="how many")
    parser.add_argument("--format", nargs="+", choices=known, default=known, metavar="NAME", help="by default all")
    parser.add_argument("--compare", action="store_true", help="compare readers of Trace Event JSON instead")
    parser.add_argument("--seed", type=int, default=0, help="other cases for another number")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep findings there, as small as they get")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="write the figures there, as JSON")
    parser.add_argument("--cpu", type=int, default=20, metavar="S", help="seconds of CPU time after which a case hangs")
    parser.add_argument("--replay", nargs="+", metavar="CASE", help="run these cases, or folders of --keep, again")
    asked = parser.parse_args()
    limits = Limits(cpu=asked.cpu, wall=max(90, 5 * asked.cpu))
    if asked.replay:
        return _replay(asked.replay, limits, compares=asked.compare)
    if asked.minutes is None and asked.cases is None:
        parser.error("--minutes or --cases says when to end")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    warm()
    formats = [name for name in asked.format if name in FORMATS or not asked.compare]
    ends = {"minutes": asked.minutes, "most": asked.cases}
    figures = fuzz_in_processes(
        formats, asked.jobs, asked.keep, seed=asked.seed, limits=limits, compares=asked.compare, **ends
    )
    print(*figures.lines(), sep="\n")
    if asked.figures:
        write_figures(figures, asked.figures)
    return int(bool(figures.found))


#: Outcomes that aren't findings.
_RIGHT = ("done", "refused", "boundary")


class _Plain(argparse.RawDescriptionHelpFormatter):
    pass


def _replay(names: list[str], limits: Limits, *, compares: bool) -> int:
    """Runs cases again, by their names or by the folders in which they were kept."""
    warm()
    found = False
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            outcome, allowed = _again(name, Path(scratch), limits, compares=compares)
        bad = outcome.kind not in allowed
        verdict = f", but must be {' or '.join(allowed)}" if bad else ""
        print(f"{name}: {outcome.key}{verdict} ({outcome.damage}; {outcome.seconds:.1f} s of CPU)\n{outcome.text}")
        found |= bad
    return int(found)


def _again(name: str, scratch: Path, limits: Limits, *, compares: bool) -> tuple[Outcome, tuple[str, ...]]:
    """Runs a case again; returns its outcome, and the outcomes that are right.

    What was read once must be read again; what was refused may be read.
    """
    home = Path(name)
    if (home / "finding.json").exists():
        recipe = json.loads((home / "finding.json").read_text("utf-8"))
        allowed = {"done": ("done",), "refused": ("done", "refused")}.get(recipe.get("expected"), _RIGHT)
        return run_kept(home / "in", Order(recipe["command"], recipe["options"]), scratch / "case", limits), allowed
    case = Case.named(name, compares=compares)
    print(case.order())
    return run_case(case, scratch, limits), _RIGHT


if __name__ == "__main__":
    sys.exit(main())
