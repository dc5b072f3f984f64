"""Measures answers about a big trace: each question of `ktrace summary`, SQL, and answers as tracks of a timeline.

    python benchmarks/answers.py [--events 3000000] [--json answers.json]

The input is one Parquet file of Kineto events, generated as by working.py.
"""

from __future__ import annotations

from pathlib import Path

from kineto import MAKER
from process import Figures, ktrace, run_script
from working import parquet

from ktrace.analysis.answers.summary import QUESTIONS

_SQL = {
    "by kernel": "select name, count(*), sum(dur) from kernels group by 1 order by 3 desc limit 10",
    "launches": "select call, count(*), median(queue) from launches group by 1 order by 2 desc",
}


def measure(folder: Path, events: int, times: int) -> dict[str, Figures]:
    """Runs all measurements of this script: name -> seconds, memory."""
    if not MAKER.exists():
        print(f"no {MAKER}: these benchmarks are left out")
        return {}
    trace, out = parquet(folder, events), folder / "explained.perfetto"
    results = {
        "summary --by operation,kernel": ktrace("summary", trace, "--by", "operation,kernel", times=times),
        "summary": ktrace("summary", trace, times=times),
    }
    results |= {f"summary --by {name}": ktrace("summary", trace, "--by", name, times=times) for name in QUESTIONS}
    results |= {f"query: {name}": ktrace("query", trace, sql, times=times) for name, sql in _SQL.items()}
    for explained in ([], ["--explain", "idle"], ["--explain", "critical-path"]):
        command = ["convert", trace, "-o", out, "--overwrite", *explained]
        results[" ".join(["convert -> .perfetto", *explained])] = ktrace(*command, times=min(times, 2))
    out.unlink()
    return results


if __name__ == "__main__":
    run_script(measure, "--events", 3_000_000, __file__, __doc__)
