"""What all of ROCm's profilers share: work-items, agents, the words for copies, names of kernels, counters.

    Grid_Size_X 1000, Workgroup_Size_X 256      4 blocks of 256 threads; the 1000 is said by neither and stays
    MEMORY_COPY_HOST_TO_DEVICE, CopyHostToDevice, 1     HtoD
    "Agent 4", 4                                4
    matmul(float*, int) [clone .kd]             shown as matmul(float*, int)
    SQ_BUSY_CYCLES, a sum over 32 engines       SQ_BUSY_CYCLES_avr, the mean of one, as the GPU tab asks for it

Columns are Arrow arrays, None where a source hasn't got them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.model.json_text import encoded

from ..columnar.blocks import Block

#: hipMemcpyKind; 4 (default) leaves it to the addresses.
HIP_MEMCPY_KIND = {0: "HtoH", 1: "HtoD", 2: "DtoH", 3: "DtoD"}

#: The end of a direction's name, its letters alone -> the model's word.
_WAYS = {
    "hosttohost": "HtoH",
    "hosttodevice": "HtoD",
    "devicetohost": "DtoH",
    "devicetodevice": "DtoD",
    "peertopeer": "PtoP",
    "htoh": "HtoH",
    "htod": "HtoD",
    "dtoh": "DtoH",
    "dtod": "DtoD",
    "ptop": "PtoP",
}

#: What stands behind the name of a kernel in its code object: a kernel's descriptor.
_DESCRIPTOR = re.compile(r"\s*(?:\[clone \.kd\]|\(\.kd\)|\.kd)\s*$")

#: CopyHostToDevice2D: a copy of rows.
_RECTANGLE = re.compile(r"[_ ]?[23]d$")

#: What an operation of a queue is by a part of its name, the first that is in it: "Task" is a kernel of a HIP graph.
_WORK = (
    ("copy", "memcpy"),
    ("memcpy", "memcpy"),
    ("fill", "memset"),
    ("memset", "memset"),
    ("barrier", "sync"),
    ("marker", "sync"),
    ("kernel", "kernel"),
    ("dispatch", "kernel"),
    ("task", "kernel"),
)

_NUMBER = re.compile(r"(?:agent|gpu|node)?\s*(\d{1,18})", re.IGNORECASE)

#: Counters that the GPU tab of Perfetto's UI asks for as means, and which units of a device rocprof sums them over.
MEANS = {"GRBM_GUI_ACTIVE": "xcc", "SQ_BUSY_CYCLES": "shader_engines"}


class Blocks(NamedTuple):
    """Blocks of a grid, and the work-items of those grids that blocks and threads together don't say (null: said)."""

    blocks: pa.Int64Array
    left: pa.Int64Array


def blocks_of(grid: pa.Array | None, workgroup: pa.Array | None) -> Blocks | None:
    """The blocks of a grid of work-items, the last of which may be partly filled; None without a grid.

    Null where either is null, negative, or the workgroup is zero. `left` has the work-items where they are no whole
    number of blocks or there is no number of blocks: an argument then, since no column holds them.
    """
    if grid is None:
        return None
    if workgroup is None:
        return Blocks(pa.nulls(len(grid), pa.int64()), grid.cast(pa.int64()))
    items, group = grid.cast(pa.int64()), workgroup.cast(pa.int64())
    known = pc.fill_null(pc.and_(pc.greater_equal(items, 0), pc.greater(group, 0)), False).to_numpy(
        zero_copy_only=False
    )
    wide = pc.fill_null(items, 0).to_numpy(zero_copy_only=False)
    divisor = np.where(known, pc.fill_null(group, 1).to_numpy(zero_copy_only=False), 1)
    whole, rest = np.divmod(wide, divisor)
    left = pc.if_else(pa.array(known & (rest == 0)), pa.scalar(None, pa.int64()), items)
    return Blocks(pa.array(whole + (rest > 0), mask=~known), left)


def copy_kind(word: str | int | None) -> str | None:
    """HtoD, DtoH, ... for the direction of a copy in any of ROCm's spellings, None for another word.

    Numbers are those of hipMemcpyKind.
    """
    if word is None:
        return None
    if isinstance(word, int):
        return HIP_MEMCPY_KIND.get(word)
    letters = re.sub(r"[^a-z]", "", _RECTANGLE.sub("", word.casefold()))
    return next((way for ending, way in _WAYS.items() if letters.endswith(ending)), None)


def work_kind(word: str | None) -> str | None:
    """The kind of an operation of a queue by its name, None for one that isn't known.

    KernelExecution, Task, CopyHostToDevice, FillBuffer, Barrier, MarkerDispatch (HIP), COPY, DISPATCH (HSA), Memcpy,
    ConcurrentKernel, MEMORY_COPY_HOST_TO_DEVICE (RPD).
    """
    small = (word or "").casefold()
    return next((kind for part, kind in _WORK if part in small), None)


def copy_kinds(column: pa.Array | None) -> pa.Array | None:
    """`copy_kind` of a column of texts, of a dictionary, or of numbers."""
    if column is None:
        return None
    coded = encoded(column)
    return pa.array([copy_kind(word) for word in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def short_name(name: str | None) -> str | None:
    """The name of a kernel without its descriptor's suffix, None where it has none."""
    cleaned = _DESCRIPTOR.sub("", name or "")
    return cleaned if cleaned and cleaned != name else None


def short_names(column: pa.Array) -> pa.Array:
    """`short_name` of a column of texts or of a dictionary; the whole name where nothing is to be cleaned."""
    coded = encoded(column)
    names = [short_name(name) for name in coded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(coded.indices)


def agent(word: str | int | None) -> int | None:
    """The number of an agent: 4 of "Agent 4", "4", 4. None for another text."""
    if isinstance(word, int):
        return word
    found = _NUMBER.fullmatch((word or "").strip())
    return int(found[1]) if found else None


def agents(column: pa.Array | None) -> pa.Array | None:
    """`agent` of a column of texts, of a dictionary, or of numbers."""
    if column is None or pa.types.is_integer(column.type):
        return column
    coded = encoded(column)
    return pa.array([agent(word) for word in coded.dictionary.to_pylist()], pa.int64()).take(coded.indices)


def mean_counter(name: str, xcc: int | None, shader_engines: int | None) -> tuple[str, int] | None:
    """The mean that the GPU tab shows of a counter that rocprof sums up: its name, and what the sum is divided by.

    `xcc` and `shader_engines` are those of the whole device (agent_info: Num_Xcc, Num_Shader_Banks). None for other
    counters, and where the number is unknown: a sum is never called a mean.
    """
    unit = MEANS.get(name)
    units = xcc if unit == "xcc" else shader_engines
    return (f"{name}_avr", units) if unit and type(units) is int and units > 0 else None


def executed(block: Block, conversion: Conversion, start: str, end: str) -> Block:
    """The rows of work that ran. Those of which begin and end are 0 never did: they are reported."""
    begin, last = block.get(start), block.get(end)
    if begin is None or last is None:
        return block
    idle = pc.fill_null(pc.and_(pc.equal(begin, 0), pc.equal(last, 0)), False)
    if not idle.true_count:
        return block
    for row in np.flatnonzero(idle.to_numpy(zero_copy_only=False)).tolist():
        conversion.report.issue("not-executed", block.where(row), f"{start} and {end} are 0")
    return block.filter(pc.invert(idle))


def launch(block: Block) -> dict[str, pa.Array | None]:
    """Grid in blocks, block and shared memory of dispatches, by the names that rocprofiler-sdk has for them.

    Work-items that are no whole number of blocks stay as they are.
    """
    columns = {"shared_memory": block.take("group_segment_size")}
    for axis in "xyz":
        group = block.take(f"workgroup_size_{axis}")
        found = blocks_of(block.take(f"grid_size_{axis}"), group)
        columns[f"block_{axis}"] = group
        if found:
            columns[f"grid_{axis}"] = found.blocks
            columns[f"args.grid_size_{axis}"] = found.left
    return columns
