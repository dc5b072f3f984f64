"""What an input is made of: a sample, copied with the mapping beside it."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from ktrace.input.source import MAPPING_SUFFIX

from .shapes import SHAPES, Record

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


class Source(ABC):
    """A row of a sample that can be written many times over."""

    #: `format/name` of the sample, for one in a folder `format/folder//name of the file`.
    sample: str

    @property
    def format(self) -> str:
        """The name of the format."""
        return self.sample.partition("/")[0]

    @property
    def path(self) -> Path:
        """The sample, a file or a folder."""
        return SAMPLES / self.sample.partition("//")[0]

    @property
    def file(self) -> Path:
        """The file of the sample in which the row is."""
        return SAMPLES / self.sample.replace("//", "/")

    @property
    @abstractmethod
    def fields(self) -> frozenset[str]:
        """What a row has, as shapes ask for it."""

    @abstractmethod
    def write(self, folder: Path, records: Iterator[Record]) -> Path:
        """Writes rows in the place of the sample's one; returns the path of the input."""

    def copy(self, folder: Path) -> Path:
        """Copies the sample into a folder; returns the path of the copy."""
        target = folder / self.path.name
        if self.path.is_dir():
            shutil.copytree(self.path, target)
            return target
        shutil.copy(self.path, target)
        if (mapping := self.path.with_name(self.path.name + MAPPING_SUFFIX)).exists():
            shutil.copy(mapping, folder)
        return target

    def lacks(self, shape: str) -> str:
        """Returns why the shape has no meaning for these rows, or nothing."""
        missing = sorted(SHAPES[shape].fields - self.fields)
        return f"a row has no {' and no '.join(missing)} here" if missing else ""
