"""The samples of all formats, found through the registry of formats."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ktrace.input.format import builtin_formats
from ktrace.input.source import MAPPING_SUFFIX

ROOT = Path(__file__).resolve().parent.parent.parent


class Sample(NamedTuple):
    """A sample: its format, its name in the folder of the format, and where it is: a file or a folder."""

    format: str
    name: str
    path: Path

    def files(self) -> list[str]:
        """Returns the files of the sample that can be damaged, relative to the folder in which it is copied."""
        if self.path.is_file():
            mapping = self.path.with_name(self.name + MAPPING_SUFFIX)
            return [self.name, mapping.name] if mapping.exists() else [self.name]
        found = sorted(path.relative_to(self.path.parent) for path in self.path.rglob("*") if path.is_file())
        return [path.as_posix() for path in found]

    def copy(self, folder: Path) -> Path:
        """Copies the sample into a folder; returns the path of the copy."""
        if self.path.is_dir():
            shutil.copytree(self.path, folder / self.name)
        else:
            for name in self.files():
                shutil.copy(self.path.with_name(name), folder / name)
        return folder / self.name


@cache
def samples() -> dict[str, list[Sample]]:
    """Returns the samples of each format that reads and has some."""
    found = {}
    for fmt in builtin_formats():
        paths = sorted((ROOT / "samples" / fmt.name).glob("*")) if fmt.reads else []
        if kept := [Sample(fmt.name, path.name, path) for path in paths if not path.name.endswith(MAPPING_SUFFIX)]:
            found[fmt.name] = kept
    return found


@cache
def pieces() -> list[Path]:
    """Returns the files of all samples, of which one is spliced into another."""
    return [
        one.path.parent / name if one.path.is_dir() else one.path.with_name(name)
        for several in samples().values()
        for one in several
        for name in one.files()
    ]
