"""Runs all benchmarks.

    python benchmarks/run.py [--rows N] [--events N] [--keep FOLDER] [--json results.json]

Prints a table and writes the results as JSON. The time of a command is that of the whole process, including imports;
the best of three runs. The Doppler log is the real seed 000 if available, otherwise our sample repeated to its size.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from pathlib import Path

import detection
import kineto
import mapped
import nsys
import order
import validate
from process import Figures, ktrace, table

ROOT = Path(__file__).parent.parent
SEED_BYTES = 480_000


def doppler_log(folder: Path) -> Path:
    """Returns the log to convert."""
    seeds = sorted((ROOT.parent / "shared" / "seeds").glob("000_*.txt"))
    if seeds:
        return seeds[0]
    sample = (ROOT / "samples/doppler/prefill-and-three-decodes.log").read_bytes()
    log = folder / "doppler.log"
    log.write_bytes(sample * (SEED_BYTES // len(sample)))
    return log


def main() -> None:
    """Measures, prints a table and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large inputs")
    parser.add_argument("--events", type=int, default=1_000_000, help="events of the Kineto input")
    parser.add_argument("--keep", type=Path, help="folder in which the Kineto input and its outputs are kept")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "results.json")
    options = parser.parse_args()
    results: dict[str, Figures] = {f"ktrace {word}": {"CPU s": ktrace(word)["CPU s"]} for word in ("--help", "formats")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = doppler_log(folder)
        for output in ("perfetto", "trace.json", "parquet", "csv", "jsonl"):
            out = folder / f"out.{output}"
            results[f"Doppler log -> .{output}"] = ktrace("convert", log, "-o", out, "--overwrite")
        results["ktrace info, Doppler log"] = ktrace("info", log)
        for file, rate in validate.rates(folder, options.rows).items():
            results[f"validate {file}"] = {"records/s": rate}
        results |= detection.measure(detection.inputs())
        results |= kineto.measure(options.keep or folder, options.events, 3)
        results |= nsys.measure(options.keep or folder, 2 * options.rows, 3)
        results |= mapped.measure(folder, options.rows, 3)
    for way in order.WAYS:
        found = order.measure_in_process(way, options.rows)
        costs = {f"{part} µs/row": found[part] * 1e6 / options.rows for part in ("take", "give")}
        results[f"order, {way}"] = {**costs, "peak MB": found["peak"]}
    print(table(results))
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "rows": options.rows}
    options.json.write_text(json.dumps({"machine": machine, "results": results}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
