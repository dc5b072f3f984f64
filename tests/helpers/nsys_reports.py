"""Real reports of Nsight Systems, where they are at hand: in the corpus, or in `reports` beside NVIDIA's programs."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from conftest import SHARED
from nvidia import programs


@functools.cache
def reports() -> list[Path]:
    """The reports, the smallest first."""
    folders = [SHARED / "corpus"]
    if root := os.environ.get("KTRACE_NVIDIA_TOOLS"):
        folders.append(Path(root) / "reports")
    found = [path for folder in folders for ending in ("nsys-rep", "qdrep") for path in folder.rglob(f"*.{ending}")]
    return sorted(found, key=lambda path: path.stat().st_size)


def exported(program: Path, report: Path, made: Path, *options: str) -> bool:
    """Whether an nsys exports a report to `made`, of the type that `options` say."""
    command = [program, "export", "-q", "true", "--force-overwrite=true", *options, "-o", made, report]
    return subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 0


@functools.cache
def readable(most: int = 4) -> list[tuple[Path, Path]]:
    """Programs with a report each that they can read, some of each program."""
    found: list[tuple[Path, Path]] = []
    for program in programs("nsys"):
        mine = [report for report in reports() if exported(program, report, Path(os.devnull), "--type", "info")]
        step = max(1, len(mine) // most)
        found += [(program, report) for report in mine[::step][:most]]
    return found
