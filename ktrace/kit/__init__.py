"""The kit for formats, ktrace's own and those of other packages: what they import, documented and versioned.

To begin with, of a text with a row in each line:

    Format          a format: what it is called, how it is recognised, what reads it
    begins_with     a probe for files that begin with these bytes
    by_line         a reader for lines: a function gives the rows of each
    RowBuilder      adds rows of the model

For more control, a probe is a function from a Sample to a Match with a Score, and a reader one from a Source and a
Conversion to Batches, which accounts for every record: Lines does for lines. docs/plugins.md shows both.

VERSION is that of this surface. Names in `__all__` keep their meaning within a major version. The folders below, which
ktrace's own formats are made of, may change with each release:

text/                   logs and tables small enough to read whole, line by line: lines and their account, tables in any
                        layout, headings with units, printed numbers
columnar/               millions of rows as columns, without Python objects for values: CSV blocks, conversion of
                        text cells, protobuf messages
sqlite/                 tables of a database as blocks of columns, and joins between them
trace_json/             Trace Event JSON in all dialects
canonical/              ktrace's own records and tables: written, and read back
ncu/                    Nsight Compute: launches with metrics, names, units
rocm/                   ROCm: its CSV tables, dispatches with counters, agents
intel/                  Intel's tracers: names of device work, rows of queues
ascend/                 Huawei Ascend: types of tasks, files of a profile
xla/                    XLA's profiler: lines, details of device work
torch/                  PyTorch's dumps: pickles of plain values, stacks
timelines/              timeline outputs: arguments of an event, names of tracks

line_reader has `begins_with` and `by_line`; stacks has the stacks of samples, and their sums where no times are known;
v8 reads V8's CPU profiles, also those within a trace.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ktrace.errors import InputError
from ktrace.input.format import Format, Match, Score
from ktrace.input.source import Sample, Source

if TYPE_CHECKING:
    from ktrace.conversion import Conversion
    from ktrace.input.capabilities import ByteRange, OpNode, Pushdown
    from ktrace.kit.line_reader import begins_with, by_line
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
    "begins_with": "ktrace.kit.line_reader",
    "by_line": "ktrace.kit.line_reader",
}


def __getattr__(name: str) -> Any:
    """The names that take time to import, each when it is first used: probes run without them."""
    if name not in _HOME:
        raise AttributeError(f"module 'ktrace.kit' has no attribute '{name}'")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
