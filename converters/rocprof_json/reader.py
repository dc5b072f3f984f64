"""Reads rocprof's JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.gpus import on_devices
from ktrace.kit.trace_json.member import Member
from ktrace.kit.trace_json.phases import mapper
from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded
from ktrace.model.row_builder import RowBuilder

from .dialect import DIALECT
from .exact import ExactTimes

_LABEL = re.compile(
    rb'"args"\s*:\s*\{\s*"name"\s*:\s*"(?:\d+ )?([^"]{1,60})"\s*\}\s*,\s*"ph"\s*:\s*"M"\s*,\s*"pid"\s*:\s*(\d{1,9})'
)
_GPU = re.compile(rb"GPU(?: Barriers)?(\d{1,9})")

#: The first bytes, which contain the names of processes.
_HEAD = 1 << 20


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields kernels, copies, calls, marks and launches. Raises DamagedInput if it isn't Trace Event JSON at all."""
    with source.open(quiet=True) as stream:
        labels = {int(pid): label for label, pid in _LABEL.findall(stream.read(_HEAD))}
    gpus = {pid: int(found[1]) for pid, label in labels.items() if (found := _GPU.fullmatch(label))}
    barriers = [pid for pid, label in labels.items() if label.startswith(b"GPU Barriers")]
    marks = [pid for pid, label in labels.items() if label == b"Markers and Ranges"]
    kinds = dict.fromkeys(marks, "range") | dict.fromkeys(barriers, "sync")
    exact = ExactTimes()  # it knows the slices of all events before: not for the processes that read parts of them
    for batch in read_document(source, conversion, mapper(DIALECT), _member, quoted=DIALECT.quoted):
        yield on_devices(_with_kinds(exact.of(batch), kinds), gpus)
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "rocprof"})
    rows.fact("clock", facts={"kind": "monotonic"})
    yield from rows.rest()


def _with_kinds(batch: Batch, kinds: dict[int, str]) -> Batch:
    """Sets the kind of the events of some processes: `kinds` is pid -> kind."""
    if batch.record != "events" or not kinds or not batch.has("pid"):
        return batch
    pids = pa.array(list(kinds), pa.int64())
    given = pa.array(list(kinds.values())).take(pc.index_in(batch.column("pid"), value_set=pids))
    if given.null_count == len(given):
        return batch
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    columns["kind"] = pc.coalesce(given, encoded(columns["kind"]).dictionary_decode()).dictionary_encode()
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


def _member(found: Member, conversion: Conversion) -> Iterator[Batch]:
    """Yields the output of rocminfo, in otherData, as facts of the source."""
    value = found.value()
    rows = RowBuilder(conversion, first_id=found.byte)
    if value not in (None, "", {}):
        rows.fact("source", facts={found.key: value})
    yield from rows.rest()
