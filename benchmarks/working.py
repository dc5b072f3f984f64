"""Working with a trace that is big: crop, summary and diff of one Parquet file; merge of eight ranks beside convert.

    python benchmarks/working.py [--events 10000000] [--json working.json]

The inputs are made by ../shared/tools/make_kineto.py and kept with --keep FOLDER; each rank has a tenth of the events.
Others: DuckDB and pandas group the same Parquet file by kernel, which is a part of what the summary says.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from kineto import MAKER, made
from process import Figures, alone, ktrace, run

#: Ranks that are merged.
RANKS = 8

_DUCKDB = """
import duckdb, sys
print(duckdb.sql(f"select name, count(*), sum(dur), median(dur), quantile_cont(dur, 0.95) from '{sys.argv[1]}' "
                 "where kind in ('kernel', 'memcpy', 'memset', 'graph') group by name order by 3 desc"))
"""
_PANDAS = """
import pandas, sys
events = pandas.read_parquet(sys.argv[1])
work = events[events.kind.isin(['kernel', 'memcpy', 'memset', 'graph'])]
print(work.groupby('name').dur.agg(['count', 'sum', 'median']))
"""


def parquet(folder: Path, events: int) -> Path:
    """The Parquet file of that many events; one that is there already is taken as it is."""
    path = folder / f"k{events}.parquet"
    if not path.exists():
        ktrace("convert", made(folder, events), "-o", path, times=1)
    return path


def parts(trace: Path, folder: Path, times: int) -> dict[str, Figures]:
    """Crops of the file: what -> seconds, memory."""
    results: dict[str, Figures] = {}
    for suffix in ("parquet", "perfetto"):
        for part in ("1s..1.5s", "1s..1.01s"):
            out = folder / f"part.{suffix}"
            results[f"crop --time {part} -> .{suffix}"] = ktrace(
                "convert", trace, "-o", out, "--time", part, "--overwrite", times=times
            )
            out.unlink()
    return results


def others(trace: Path, times: int) -> dict[str, Figures]:
    """What others need to group the kernels of the same file; those that aren't installed are left out."""
    scripts = {"duckdb": _DUCKDB, "pandas": _PANDAS}
    return {
        f"{module} groups by kernel": run([sys.executable, "-c", script, str(trace)], times=times)
        for module, script in scripts.items()
        if importlib.util.find_spec(module)
    }


def merging(folder: Path, events: int, times: int) -> dict[str, Figures]:
    """Eight ranks in one timeline, by `merge` and by `convert`, which aligns nothing."""
    ranks = []
    for rank in range(RANKS):
        ranks.append(folder / f"rank{rank}.{events}.json")
        if not ranks[-1].exists():
            subprocess.run([sys.executable, str(MAKER), str(events), str(ranks[-1]), str(rank)], check=True)
    out = folder / "run.perfetto"
    commands: dict[str, list[object]] = {
        f"{RANKS} ranks, convert": ["convert", *ranks],
        f"{RANKS} ranks, merge": ["merge", *ranks],
        f"{RANKS} ranks, merge --align collective": ["merge", *ranks, "--align", "collective"],
    }
    results = {what: ktrace(*command, "-o", out, "--overwrite", times=times) for what, command in commands.items()}
    out.unlink()
    return results


def measure(folder: Path, events: int, times: int) -> dict[str, Figures]:
    """What -> seconds, memory."""
    if not MAKER.exists():
        print(f"no {MAKER}: these benchmarks are left out")
        return {}
    trace = parquet(folder, events)
    return (
        parts(trace, folder, times)
        | {"summary": ktrace("summary", trace, times=times), "diff": ktrace("diff", trace, trace, times=times)}
        | others(trace, times)
        | merging(folder, events // 10, min(times, 2))
    )


if __name__ == "__main__":
    alone(measure, "--events", 10_000_000, __file__, __doc__)
