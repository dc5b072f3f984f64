"""Keeps findings: one folder for each cause, with the smallest input that shows it."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

from .case import Case, Order
from .child import Limits, Outcome, removed, run

#: Runs that reducing an input may take, and those of an input that hangs.
MOST_RUNS, MOST_HANGS = 80, 6


def slug(text: str) -> str:
    """Returns a name for a folder."""
    return re.sub(r"[^\w.]+", "-", text).strip("-")[:100]


def keep(case: Case, outcome: Outcome, laid: Path, folder: Path, limits: Limits) -> Path:
    """Writes a finding into a folder below `folder`: the input as small as it gets, and how to run it again.

    `laid` is the folder with the damaged sample. It isn't damaged anew here: what crashes a child would end the run.
    """
    home = folder / slug(outcome.key)
    if home.exists():
        return home
    home.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        best = shutil.copytree(laid, Path(scratch) / "best")
        _reduce(case.order(), outcome, Path(scratch), best, home / "in", limits)
    order = case.order()
    recipe = {"case": str(case), "command": order.command, "options": order.options, **asdict(outcome)}
    (home / "finding.json").write_text(json.dumps(recipe, indent=1, ensure_ascii=False) + "\n", "utf-8", "replace")
    return home


def run_kept(home: Path, order: Order, folder: Path, limits: Limits) -> Outcome:
    """Runs an order on the input of a finding."""

    def lay(target: Path) -> tuple[Path, list[str]]:
        shutil.copytree(home, target, dirs_exist_ok=True)
        return main_of(target), []

    return run(lay, order, folder, limits)


def main_of(folder: Path) -> Path:
    """Returns the input in a folder: its folder, or its file that isn't the mapping of another one."""
    return min(folder.iterdir(), key=lambda path: len(path.name))


def _reduce(order: Order, outcome: Outcome, scratch: Path, best: Path, home: Path, limits: Limits) -> None:
    """Leaves out of the damaged file whatever isn't needed for the same outcome, and copies the rest."""
    shutil.copytree(best, home)
    file = best / outcome.damage.split(" ")[0]  # names of samples have no blanks
    if not outcome.damage or not file.is_file():
        return
    runs = MOST_HANGS if outcome.kind in ("hang", "memory") else MOST_RUNS
    whole = data = file.read_bytes()
    size = len(data) // 2
    while size and runs > 0:
        at = 0
        while at < len(data) and runs > 0:
            shorter = data[:at] + data[at + size :]
            file.write_bytes(shorter)
            runs -= 1
            found = run_kept(best, order, scratch / "run", limits)
            removed(scratch / "run")
            if found.key == outcome.key:
                data = shorter
            else:
                at += size
        size //= 2
    if len(data) < len(whole):
        (home / file.relative_to(best)).write_bytes(data)
