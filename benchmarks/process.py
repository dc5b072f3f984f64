"""Measures the time and memory of a command that runs as a process."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

#: Seconds between two samples of the memory.
STEP = 0.02

Figures = dict[str, float]


def ktrace(*arguments: object, times: int = 3) -> Figures:
    """Returns the figures of `ktrace` with these arguments."""
    return run([sys.executable, "-m", "ktrace", *map(str, arguments)], times=times)


def run(command: Sequence[str], *, times: int = 3, env: dict[str, str] | None = None) -> Figures:
    """Returns wall and CPU seconds, and the peak anonymous memory of the largest process in MB, of the fastest run.

    Files mapped into memory aren't counted, since the system can drop them at any time.
    """
    return min(
        (run_once(command, os.environ | (env or {})) for _ in range(times)), key=lambda figures: figures["wall s"]
    )


def run_once(command: Sequence[str], env: Mapping[str, str], cwd: Path | None = None) -> Figures:
    """Returns the figures of one run in this environment and folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, cwd=cwd, start_new_session=True
    )
    peak = 0.0
    while child.poll() is None:
        peak = largest(child.pid, peak)
        time.sleep(STEP)
    wall = time.perf_counter() - began
    if child.returncode:
        message = child.stderr.read().decode("utf-8", "replace") if child.stderr else ""
        raise SystemExit(f"{' '.join(command)}: exit code {child.returncode}\n{message}")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage.ru_utime + usage.ru_stime - before.ru_utime - before.ru_stime
    return {"wall s": wall, "CPU s": cpu, "peak MB": peak}


def largest(pid: int, peak: float) -> float:
    """Returns the greater of a peak and the anonymous memory of the largest of a process and its descendants, in MB."""
    return max(peak, *(_anonymous(member) for member in _family(pid)), 0.0)


def _family(pid: int) -> list[int]:
    """Returns the ids of a process and of all its descendants."""
    family = [pid]
    for member in family:
        try:
            family += map(int, Path(f"/proc/{member}/task/{member}/children").read_text().split())
        except OSError:
            continue
    return family


def _anonymous(pid: int) -> float:
    """Returns the anonymous memory of a process in MB, 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), 0.0)


def table(results: dict[str, Figures]) -> str:
    """Returns the figures as lines of text."""
    lines = []
    for what, figures in results.items():
        cells = "   ".join(f"{unit} {figure:,.2f}" for unit, figure in figures.items())
        lines.append(f"{what:<48}{cells}")
    return "\n".join(lines)


def run_script(
    measure: Callable[[Path, int, int], dict[str, Figures]], size: str, rows: int, script: str, doc: str | None
) -> None:
    """Runs one benchmark from the command line and writes its results. `rows` is the default of the option `size`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(size, type=int, default=rows, dest="rows")
    parser.add_argument("--times", type=int, default=3, help="number of runs; the fastest counts")
    parser.add_argument("--keep", type=Path, help="folder in which the input and the outputs are kept")
    parser.add_argument("--json", type=Path, default=Path(script).with_suffix(".results.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        results = measure(options.keep or Path(name), options.rows, options.times)
    print(table(results))
    options.json.write_text(json.dumps({size.lstrip("-"): options.rows, "results": results}, indent=1) + "\n")
