"""The kit for formats, ktrace's own and those of other packages: what they import, documented and versioned.

To begin with, of a text with a row in each line:

    Format          a format: what it is called, how it is recognised, what reads it
    begins_with     a probe for files that begin with these bytes
    by_line         a reader for lines: a function gives the rows of each
    RowBuilder      adds rows of the model

For more control, a probe is a function from a Sample to a Match with a Score, and a reader one from a Source and a
Conversion to Batches, which accounts for every record: Lines does for lines. docs/plugins.md shows both.

VERSION is that of this surface. Names in `__all__` keep their meaning within a major version. The modules below, which
ktrace's own formats are made of, may change with each release:

text/                   logs and tables small enough to read whole, line by line: lines and their account, tables in any
                        layout, headings with units, printed numbers
columnar/               millions of rows as columns, without Python objects for values: CSV blocks, conversion of
                        text cells, protobuf messages
sqlite/                 tables of a database as blocks of columns, and joins between them
trace_json/             Trace Event JSON in all dialects
canonical/              ktrace's own records and tables: written, and read back
rocm/                   ROCm: its CSV tables, dispatches with counters, agents
ncu_launches            Nsight Compute: kernel launches with their metrics, as rows
ncu_cells               Nsight Compute: many cells of numbers at once, printed units and their base units
ingero                  Ingero: what its events mean, by their names
intel                   Intel's tracers: names of device work, rows of queues
ascend_folder           Huawei Ascend: which files of a folder are read; the others repeat them
ascend_tasks            Huawei Ascend: kernel, copy, synchronisation by the type of a task; tasks that repeat others
xla                     XLA's profiler: lines, details of device work
torch                   PyTorch's dumps: pickles of plain values, stacks
stacks                  stacks of samples, and their sums where no times are known
varint                  a varint of protobuf, for probes
v8                      V8's CPU profiles, also those within a trace
timelines               timeline outputs: arguments of an event, names of tracks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ktrace.errors import InputError
from ktrace.input.format import Format, Match, Score
from ktrace.input.source import Sample, Source

if TYPE_CHECKING:
    from ktrace.conversion import Conversion
    from ktrace.input.capabilities import ByteRange, OpNode, Pushdown
    from ktrace.kit.text.lines import Lines
    from ktrace.model.batch import Batch
    from ktrace.model.row_builder import RowBuilder

#: The version of this surface.
VERSION = "1.0"

__all__ = [
    "VERSION",
    "Batch",
    "ByteRange",
    "Conversion",
    "Format",
    "InputError",
    "Lines",
    "Match",
    "OpNode",
    "Pushdown",
    "RowBuilder",
    "Sample",
    "Score",
    "Source",
    "begins_with",
    "by_line",
]

_HOME = {
    "Batch": "ktrace.model.batch",
    "ByteRange": "ktrace.input.capabilities",
    "Conversion": "ktrace.conversion",
    "Lines": "ktrace.kit.text.lines",
    "OpNode": "ktrace.input.capabilities",
    "Pushdown": "ktrace.input.capabilities",
    "RowBuilder": "ktrace.model.row_builder",
}


def begins_with(magic: bytes) -> Callable[[Sample], Match | None]:
    """A probe that is sure of files that begin with these bytes, and of no others."""

    def probe(sample: Sample) -> Match | None:
        if not sample.head.startswith(magic):
            return None
        return Match(Score.MAGIC, f"begins with {magic.decode('utf-8', 'replace')!r}")

    return probe


def by_line(row: Callable[[str, RowBuilder], bool]) -> Callable[[Source, Conversion], Iterator[Batch]]:
    """A reader that calls `row(line, rows)` for each line, without its end.

    `row` adds rows and returns True, or returns False for a line that isn't part of the format. A line for which it
    raises ValueError, IndexError, KeyError or ArithmeticError is a bad record. Both are reported with their numbers.
    """

    def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
        from ktrace.kit.text.lines import Lines
        from ktrace.model.row_builder import RowBuilder

        lines, rows = Lines(source, conversion), RowBuilder(conversion)
        for line in lines:
            if not line.text.strip():
                lines.structure()
                continue
            try:
                used = row(line.text, rows)
            except (ValueError, LookupError, ArithmeticError) as error:
                lines.skip("bad-record", f"{type(error).__name__}: {error}")
            else:
                if used:
                    lines.used()
            yield from rows.ready()
        yield from rows.rest()

    return read


def __getattr__(name: str) -> Any:
    """The names that take time to import, each when it is first used: probes run without them."""
    if name not in _HOME:
        raise AttributeError(f"module 'ktrace.kit' has no attribute '{name}'")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
