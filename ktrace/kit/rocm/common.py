"""What all of ROCm's profilers share: work-items, agents, directions of copies, names of kernels, counters.

    Grid_Size_X 1000, Workgroup_Size_X 256      4 blocks of 256 threads; the 1000 follows from neither and is kept
    MEMORY_COPY_HOST_TO_DEVICE, CopyHostToDevice, 1     HtoD
    "Agent 4", 4                                4
    matmul(float*, int) [clone .kd]             shown as matmul(float*, int)
    SQ_BUSY_CYCLES, a sum over 32 engines       SQ_BUSY_CYCLES_avr, the mean of one, as the GPU tab expects it

Columns are Arrow arrays, None if the source doesn't have them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.naming import short_names as shortening

#: hipMemcpyKind; 4 (default) leaves it to the addresses.
HIP_MEMCPY_KIND = {0: "HtoH", 1: "HtoD", 2: "DtoH", 3: "DtoD"}

#: The end of a direction's name, only its letters -> the model's word.
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

#: The suffix of a kernel's name in its code object: it marks the kernel's descriptor.
_DESCRIPTOR = re.compile(r"(?:\[clone \.kd\]|\(\.kd\)|\.kd)\s*$")

#: CopyHostToDevice2D: a copy of rows.
_RECTANGLE = re.compile(r"[_ ]?[23]d$")

#: Part of an operation's name -> its kind; the first match wins. "Task" is a kernel of a HIP graph.
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

_NUMBER = re.compile(r"(?:(?:agent|gpu|node)[\s-]*)?(\d{1,18})", re.IGNORECASE)

#: Counters that the GPU tab of Perfetto's UI shows as means -> the units of a device that rocprof sums them over.
MEANS = {"GRBM_GUI_ACTIVE": "xcc", "SQ_BUSY_CYCLES": "shader_engines"}


#: Calls whose grid is in work-items, also in RPD and in Kineto's traces of roctracer; that of other calls is in blocks.
GRIDS_OF_WORK_ITEMS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})


class Blocks(NamedTuple):
    """The blocks of grids, and the work-items of grids that don't follow from blocks and threads (else null)."""

    blocks: pa.Int64Array
    left: pa.Int64Array


def blocks_of(grid: pa.Array | None, workgroup: pa.Array | None) -> Blocks | None:
    """Returns the blocks of grids of work-items; the last block may be partly filled. Returns None without a grid.

    The number of blocks is null if either number is null or negative, or the workgroup is zero. `left` has the
    work-items if they aren't a whole number of blocks or the number is unknown: no column has them, so that they
    become an argument.
    """
    if grid is None:
        return None
    if workgroup is None:
        return Blocks(pa.nulls(len(grid), pa.int64()), grid.cast(pa.int64()))
    items, group = grid.cast(pa.int64()), workgroup.cast(pa.int64())
    is_known = pc.fill_null(pc.and_(pc.greater_equal(items, 0), pc.greater(group, 0)), False).to_numpy(
        zero_copy_only=False
    )
    wide = pc.fill_null(items, 0).to_numpy(zero_copy_only=False)
    divisor = np.where(is_known, pc.fill_null(group, 1).to_numpy(zero_copy_only=False), 1)
    whole, rest = np.divmod(wide, divisor)
    left = pc.if_else(pa.array(is_known & (rest == 0)), pa.scalar(None, pa.int64()), items)
    return Blocks(pa.array(whole + (rest > 0), mask=~is_known), left)


def copy_kind(word: str | int | None) -> str | None:
    """Returns HtoD, DtoH, ... for the direction of a copy in any of ROCm's spellings, None for another word.

    Numbers are those of hipMemcpyKind.
    """
    if word is None:
        return None
    if isinstance(word, int):
        return HIP_MEMCPY_KIND.get(word)
    letters = re.sub(r"[^a-z]", "", _RECTANGLE.sub("", word.casefold()))
    return next((way for ending, way in _WAYS.items() if letters.endswith(ending)), None)


def work_kind(word: str | None) -> str | None:
    """Returns the kind of an operation of a queue by its name, None for an unknown one.

    KernelExecution, Task, CopyHostToDevice, FillBuffer, Barrier, MarkerDispatch (HIP), COPY, DISPATCH (HSA), Memcpy,
    ConcurrentKernel, MEMORY_COPY_HOST_TO_DEVICE (RPD).
    """
    small = (word or "").casefold()
    return next((kind for part, kind in _WORK if part in small), None)


def copy_kinds(column: pa.Array | None) -> pa.Array | None:
    """`copy_kind` of a column of texts, of a dictionary, or of numbers."""
    if column is None:
        return None
    return by_distinct(column, copy_kind, pa.string())


def short_name(name: str | None) -> str | None:
    """Returns the short name of a kernel with its descriptor's suffix, None if it has no suffix."""
    suffix = _DESCRIPTOR.search(name or "")
    return shortening.short_name(name) if name and suffix and name[: suffix.start()].strip() else None


def short_names(column: pa.Array) -> pa.Array:
    """`short_name` of a column of texts or of a dictionary."""
    return by_distinct(column, short_name, pa.string())


def agent(word: str | int | None) -> int | None:
    """Returns the number of an agent: 4 for "Agent 4", "GPU-4", "4" and 4; None for another text."""
    if isinstance(word, int):
        return word
    match = _NUMBER.fullmatch((word or "").strip())
    return int(match[1]) if match else None


def agents(column: pa.Array | None) -> pa.Array | None:
    """`agent` of a column of texts, of a dictionary, or of numbers."""
    if column is None or pa.types.is_integer(column.type):
        return column
    return by_distinct(column, agent, pa.int64())


def mean_counter(name: str, xcc: int | None, shader_engines: int | None) -> tuple[str, int] | None:
    """Returns the mean that the GPU tab shows for a counter that rocprof sums: its name, and the divisor of the sum.

    `xcc` and `shader_engines` are those of the whole device (agent_info: Num_Xcc, Num_Shader_Banks). Returns None for
    other counters, and if the number is unknown: a sum is never labelled as a mean.
    """
    unit = MEANS.get(name)
    units = xcc if unit == "xcc" else shader_engines
    return (f"{name}_avr", units) if unit and type(units) is int and units > 0 else None


def executed(block: Block, conversion: Conversion, start: str, end: str) -> Block:
    """Returns the rows of work that ran; reports those whose begin and end are 0, because they never ran."""
    begin, last = block.get(start), block.get(end)
    if begin is None or last is None:
        return block
    idle = pc.fill_null(pc.and_(pc.equal(begin, 0), pc.equal(last, 0)), False)
    if not idle.true_count:
        return block
    for row in np.flatnonzero(idle.to_numpy(zero_copy_only=False)).tolist():
        names = f"{block.heading(start)} and {block.heading(end)}"
        conversion.report.issue("not-executed", block.where(row), f"{names} are 0")
    return block.filter(pc.invert(idle))


def launch(block: Block) -> dict[str, pa.Array | None]:
    """Returns grid (in blocks), block and shared memory of dispatches from rocprofiler-sdk's columns.

    Work-items that aren't a whole number of blocks are kept as an argument.
    """
    columns = {"shared_memory": block.take("group_segment_size")}
    for axis in "xyz":
        group = block.take(f"workgroup_size_{axis}")
        blocks = blocks_of(block.take(f"grid_size_{axis}"), group)
        columns[f"block_{axis}"] = group
        if blocks:
            columns[f"grid_{axis}"] = blocks.blocks
            columns[f"args.grid_size_{axis}"] = blocks.left
    return columns
