"""Pages of raw metrics, as `ncu --csv --page raw` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

#: The headings that precede those of the metrics.
HEADS = [
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC"),
]


def write(path: Path, lines: Iterable[list[str]]) -> None:
    """Writes the lines of a page, the headings first: all cells are quoted."""
    path.write_text("".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines))
