"""Compares the CPU time of `ktrace info` with that of a conversion, for a sample and a real file of each format.

python benchmarks/info.py [--times 3] [FILE...]

Commands run by turns in one process each; the least CPU time of a command counts. Without FILE, the largest sample of
each format is measured, and its largest file of the seeds and the corpus, where they are.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import process
from detection import ROOT, inputs

from ktrace.errors import KtraceError
from ktrace.input.detection import choose
from ktrace.input.source import Source

#: What the cheaper conversion may be exceeded by.
_MOST = 1.05


def largest() -> dict[Path, str]:
    """Returns the largest sample and the largest real file of each format -> its format."""
    found: dict[tuple[str, bool], Path] = {}
    for path in inputs():
        try:
            key = (choose(Source(str(path))).name, (ROOT / "samples") in path.parents)
        except KtraceError:
            continue
        if key not in found or path.stat().st_size > found[key].stat().st_size:
            found[key] = path
    return {path: name for (name, _), path in sorted(found.items())}


def measure(path: Path, folder: Path, times: int) -> dict[str, float]:
    """Returns the CPU seconds of each command."""
    commands = {"info": ["info", path]}
    for suffix in ("perfetto", "parquet"):
        commands[suffix] = ["convert", path, "-o", folder / f"x.{suffix}", "--overwrite", "--jobs", "1"]
    took = dict.fromkeys(commands, float("inf"))
    for _ in range(times):
        for name, arguments in commands.items():
            took[name] = min(took[name], process.ktrace(*arguments, times=1)["CPU s"])
    return took


def main() -> None:
    """Prints a line for each file, the dearest first, and how many exceed the conversion."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    files = {path: choose(Source(str(path))).name for path in options.files} or largest()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for path, name in files.items():
            try:
                took = measure(path, Path(folder), options.times)
            except SystemExit as refused:
                print(f"not converted: {path.name}: {str(refused).splitlines()[-1]}")
                continue
            ratio = took["info"] / min(took["perfetto"], took["parquet"])
            figures = ", ".join(f"{command} {seconds:.3f}" for command, seconds in took.items())
            lines.append((ratio, f"{ratio:5.2f}  {name}: {figures} s  {path.name} ({path.stat().st_size:,} bytes)"))
    lines.sort(reverse=True)
    print("\n".join(line for _, line in lines))
    more = sum(ratio > _MOST for ratio, _ in lines)
    least, most = lines[-1][0], lines[0][0]
    print(f"{len(lines)} files: info takes {least:.2f} to {most:.2f} of the cheaper conversion, {more} over {_MOST}")


if __name__ == "__main__":
    main()
