"""Counts the instructions of three small runs, which callgrind repeats to a few thousandths whatever the machine does.

    python benchmarks/instructions.py            compares them with instructions.json, exits 1 beyond 2 %
    python benchmarks/instructions.py --write    keeps those of this tree, to be committed with their reason

Counts depend on Python, on the packages and on the C library: where these aren't those of the file, the commit that
wrote it is counted, too. It needs valgrind.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from paired import build, built

ROOT = Path(__file__).parent.parent
KEPT = Path(__file__).with_suffix(".json")

STEP = ROOT / "samples/kineto/one-step-of-training.pt.trace.json"
REAL = ROOT / "samples/real/corpus/pytorch_kineto/graph_execution.json.gz"

#: What is counted: arguments of `ktrace`. One process: children would have counts of their own.
RUNS = {
    "convert, 24 kB": ["convert", str(STEP), "-o", "{out}", "--jobs", "1"],
    "summary, 24 kB": ["summary", str(STEP), "--jobs", "1"],
    "convert, 5 MB": ["convert", str(REAL), "-o", "{out}", "--jobs", "1"],
}

#: The part by which a count may differ.
APART = 0.02

_COLLECTED = re.compile(r"Collected : (\d+)")


def surroundings() -> dict[str, str]:
    """What counts depend on beside the code."""
    packages = {name: version(name) for name in ("numpy", "pyarrow", "msgspec", "click")}
    libc = " ".join(platform.libc_ver())
    return {"python": f"{platform.python_version()} {platform.python_compiler()}", "libc": libc, **packages}


def counted(tree: Path) -> dict[str, int]:
    """The instructions of each run of a tree that was built."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for what, arguments in RUNS.items():
            given = [word.format(out=f"{name}/{len(found)}.perfetto") for word in arguments]
            command = [sys.executable, "-m", "ktrace", *given]
            done = subprocess.run(
                ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
                env=os.environ | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"},
                cwd=name,
                check=True,
                capture_output=True,
                text=True,
            )
            collected = _COLLECTED.search(done.stderr)
            assert collected is not None, done.stderr
            found[what] = int(collected[1])
    return found


def before() -> dict[str, int]:
    """The counts to compare with: those of the file, or of the commit that wrote it, counted here."""
    kept = json.loads(KEPT.read_text())
    if kept["surroundings"] == surroundings():
        counts: dict[str, int] = kept["counts"]
        return counts
    log = ["git", "-C", str(ROOT), "log", "-1", "--format=%H", "--", str(KEPT)]
    commit = subprocess.run(log, check=True, capture_output=True, text=True).stdout.strip()
    print(f"the file's counts are of other versions: {commit} is counted")
    with built(commit) as tree:
        return counted(tree)


def main() -> None:
    """Counts, and keeps or compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the counts of this tree")
    options = parser.parse_args()
    build(ROOT)
    now = counted(ROOT)
    if options.write:
        KEPT.write_text(json.dumps({"surroundings": surroundings(), "counts": now}, indent=1) + "\n")
        return
    then, apart = before(), False
    for what, count in now.items():
        change = count / then[what] - 1
        apart |= abs(change) > APART
        print(f"{what:<20}{count:>16,}{then[what]:>16,}{100 * change:>+8.2f} %")
    if apart:
        raise SystemExit(f"more than {100 * APART:.0f} % apart: find out why, then --write")


if __name__ == "__main__":
    main()
