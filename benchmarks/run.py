"""Everything that is measured, in one command.

    python benchmarks/run.py [--rows N] [--json results.json]

Prints a table and keeps a JSON. Times of commands are those of a whole process, imports included: the best of
three. The Doppler log is the real seed 000 where it is at hand, else our sample, repeated to its size.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import order
import validate

ROOT = Path(__file__).parent.parent
SEED_BYTES = 480_000


def doppler_log(folder: Path) -> Path:
    """The log that is converted."""
    seeds = sorted((ROOT.parent / "shared" / "seeds").glob("000_*.txt"))
    if seeds:
        return seeds[0]
    sample = (ROOT / "samples/doppler/prefill-and-three-decodes.log").read_bytes()
    log = folder / "doppler.log"
    log.write_bytes(sample * (SEED_BYTES // len(sample)))
    return log


def command(*arguments: object) -> dict[str, float]:
    """Wall and CPU seconds and peak memory (MB) of `ktrace` with these arguments, the best of three."""
    best: dict[str, float] = {}
    for _ in range(3):
        began = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "ktrace", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"ktrace {arguments}: exit code {child.returncode}")
        if not best or wall < best["wall s"]:
            best = {"wall s": wall, "CPU s": _cpu(usage), "peak MB": usage.ru_maxrss / 1024}
    return best


def _cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measures, prints, keeps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the big inputs")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "results.json")
    options = parser.parse_args()
    results = {f"ktrace {word}": {"CPU s": command(word)["CPU s"]} for word in ("--help", "formats")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = doppler_log(folder)
        for output in ("perfetto", "trace.json", "parquet", "csv", "jsonl"):
            out = folder / f"out.{output}"
            results[f"Doppler log -> .{output}"] = command("convert", log, "-o", out, "--overwrite")
        results["ktrace info, Doppler log"] = command("info", log)
        for file, rate in validate.rates(folder, options.rows).items():
            results[f"validate {file}"] = {"records/s": rate}
    for way in order.WAYS:
        found = order.in_a_process(way, options.rows)
        costs = {f"{part} µs/row": found[part] * 1e6 / options.rows for part in ("take", "give")}
        results[f"order, {way}"] = {**costs, "peak MB": found["peak"]}
    for what, figures in results.items():
        print(f"{what:<32}" + "   ".join(f"{unit} {figure:,.2f}" for unit, figure in figures.items()))
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "rows": options.rows}
    options.json.write_text(json.dumps({"machine": machine, "results": results}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
