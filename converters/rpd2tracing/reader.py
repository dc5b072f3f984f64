"""Reads rpd2tracing's JSON.

Finds the processes in rpd2tracing's JSON that are GPUs, by their names.

The dialect of rpd2tracing: `desc` is the operation's kind for device work, the arguments for calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.trace_json.dialect import Dialect, Rule, Sign
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events
from ktrace.kit.trace_json.phases import mapper
from ktrace.kit.trace_json.places import on_devices
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_DESC = ("desc",)

#: Only flows of category api_op connect calls with the work that they started.
DIALECT = Dialect(
    cats={},
    signs=(
        Sign(_DESC, Rule("kernel", place="device"), re.compile(r"KernelExecution|Task")),
        Sign(_DESC, Rule("memcpy", place="device"), re.compile(r"Copy(Host|Device)To(Host|Device)(2D|3D)?")),
        Sign(_DESC, Rule("memset", place="device"), re.compile(r"FillBuffer")),
        Sign(_DESC, Rule("sync", place="device"), re.compile(r"Barrier|MarkerDispatch")),
    ),
    other=Rule("api", kinds={"UserMarker": "range"}),
    flows={"api_op": "launch"},
    quoted=True,
)


_GPU = re.compile(
    rb'"process_name"\s*,\s*"ph"\s*:\s*"M"\s*,\s*"pid"\s*:\s*"?(\d{1,18})"?\s*,'
    rb'\s*"args"\s*:\s*\{\s*"name"\s*:\s*"GPU'
)

#: The first bytes, which contain the names of processes.
_HEAD = 1 << 20


def gpus_of(source: Source) -> dict[int, int]:
    """Returns pid -> GPU; a GPU has the number of its process."""
    with source.open(quiet=True) as stream:
        head = stream.read(_HEAD)
    return {int(pid): int(pid) for pid in _GPU.findall(head)}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields work, calls, counters and launches. Raises DamagedInput if it isn't Trace Event JSON at all."""
    gpus, rows_of = gpus_of(source), mapper(DIALECT)

    def placed(events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in rows_of(events, conversion):
            yield on_devices(batch, gpus)

    yield from read_document(source, conversion, placed, lambda found, conversion: (), quoted=DIALECT.quoted)
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "rpd2tracing"})
    rows.fact("clock", facts={"kind": "monotonic"})
    yield from rows.rest()
