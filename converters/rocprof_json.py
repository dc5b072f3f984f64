"""rocprof's results.json (ROCm 2 to 6): Trace Event JSON with a process for the calls of each API and for each GPU.

    { "traceEvents":[{}
    ,{"args":{"name":"GPU0"},"ph":"M","pid":6,"name":"process_name","sort_index":2}
    ,{"ph":"X","name":"scale(float*)","pid":"6","tid":"0","ts":"4258451581700","dur":"12", "args":{"KernelName":...}}
    ,{"ts":4258451581680,"ph":"s","cat":"DataFlow","id":0,"pid":2,"tid":4001,"name":"dep"}

Numbers of slices are in quotes, times are whole µs. Kernels have their name in the arguments, HIP's operations the
number of their GPU.

Restores times in ns: slices have whole µs, and their arguments the ns that these were rounded from.

"ts": "7000700", "dur": "12", "args": {"BeginNs": "7000700100", "EndNs": "7000712300"}      from ...700100 for 12,200 ns
"ts": 7000700, "ph": "t"        an arrow's end at the start of the slice in this µs: also 7000700100

Arrows follow the slices in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.rocm.arrow_ends import ArrowEnds
from ktrace.kit.trace_json.dialect import Dialect, Rule, Sign
from ktrace.kit.trace_json.document import read_dialect
from ktrace.kit.trace_json.events import Member
from ktrace.kit.trace_json.phases import on_devices
from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded
from ktrace.model.row_builder import RowBuilder

_BEGIN = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*\}\s*,\s*\{\s*"args"\s*:\s*\{\s*"name"\s*:\s*"(?:\d+ )?'
    rb"(?:Markers and Ranges|CPU|COPY|GPU)"
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a document that begins so."""
    if _BEGIN.match(sample.head):
        return Match(Score.DIALECT, "begins with an empty event and a process name of rocprof")
    return None


_US = 1_000


class ExactTimes:
    """Sets times of slices from their arguments, and times of arrows' ends from the slices that begin in their µs."""

    def __init__(self) -> None:
        self._begins: list[pa.Table] = []

    def of(self, batch: Batch) -> Batch:
        """Returns the batch with exact times."""
        if batch.record == "events" and all(map(batch.has, ("ts", "dur", "args.BeginNs", "args.EndNs"))):
            return self._slices(batch)
        return self._ends(batch) if batch.record == "links" and self._begins and batch.has("ts") else batch

    def _slices(self, batch: Batch) -> Batch:
        """Sets the times of slices whose arguments agree with the µs."""
        begin, end, ts = (
            _to_integers(batch.column("args.BeginNs")),
            _to_integers(batch.column("args.EndNs")),
            batch.column("ts"),
        )
        same = pc.equal(pc.divide(begin, _US), pc.divide(ts, _US))
        good = pc.fill_null(pc.and_(same, pc.greater_equal(end, begin)), False)
        columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
        columns["ts"] = pc.if_else(good, begin, ts)
        columns["dur"] = pc.if_else(good, pc.subtract(end, begin), batch.column("dur"))
        if batch.has("pid") and batch.has("tid"):
            place = {"pid": batch.column("pid"), "tid": batch.column("tid"), "us": pc.divide(ts, _US)}
            self._begins.append(pa.table({**place, "ts": columns["ts"]}).filter(good))
        return Batch(batch.record, pa.RecordBatch.from_pydict(columns))

    def _ends(self, batch: Batch) -> Batch:
        """Moves ends of arrows to the slice that begins first in their µs; others stay."""
        if not (batch.has("pid") and batch.has("tid")):
            return batch
        begins = pa.concat_tables(self._begins).group_by(["pid", "tid", "us"]).aggregate([("ts", "min")])
        ts = batch.column("ts")
        rows = {"pid": batch.column("pid"), "tid": batch.column("tid"), "us": pc.divide(ts, _US)}
        ends = pa.table({**rows, "row": pa.array(np.arange(len(ts)))})
        exact = ends.join(begins, ["pid", "tid", "us"]).sort_by("row")["ts_min"].combine_chunks()
        return batch.replaced({"ts": pc.coalesce(exact, ts)})


def _to_integers(column: pa.Array) -> pa.Int64Array:
    """Texts and numbers as whole numbers; others are null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    texts = column.cast(pa.string()) if not pa.types.is_string(column.type) else column
    plain = pc.utf8_trim(texts, '"')
    digits = pc.fill_null(pc.match_substring_regex(plain, "^[0-9]{1,18}$"), False)
    return pc.if_else(digits, plain, None).cast(pa.int64())


_NAMED = (
    (re.compile(r"(async[-_ ]?)?(mem)?copy", re.IGNORECASE), "memcpy"),
    (re.compile(r"fill|memset", re.IGNORECASE), "memset"),
    (re.compile(r"<?barrier|marker", re.IGNORECASE), "sync"),
)

DIALECT = Dialect(
    cats={},
    signs=(Sign(("KernelName",), Rule("kernel")), Sign(("dev-id",), Rule("kernel", named=_NAMED))),
    other=Rule("api", named=_NAMED),
    flows={"DataFlow": "launch"},
    quoted=True,
)


_LABEL = re.compile(
    rb'"args"\s*:\s*\{\s*"name"\s*:\s*"(?:\d+ )?([^"]{1,60})"\s*\}\s*,\s*"ph"\s*:\s*"M"\s*,\s*"pid"\s*:\s*(\d{1,9})'
)
_GPU = re.compile(rb"GPU(?: Barriers)?(\d{1,9})")

#: The first bytes, which contain the names of processes.
_HEAD = 1 << 20


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields kernels, copies, calls, marks and launches. Raises DamagedInput if it isn't Trace Event JSON at all."""
    labels = {int(pid): label for label, pid in _LABEL.findall(source.beginning(_HEAD))}
    gpus = {pid: int(match[1]) for pid, label in labels.items() if (match := _GPU.fullmatch(label))}
    barriers = [pid for pid, label in labels.items() if label.startswith(b"GPU Barriers")]
    marks = [pid for pid, label in labels.items() if label == b"Markers and Ranges"]
    kinds = dict.fromkeys(marks, "range") | dict.fromkeys(barriers, "sync")
    exact, ends = ExactTimes(), ArrowEnds()  # they know all slices before: not for processes that read parts
    for batch in read_dialect(source, conversion, DIALECT, member=_member):
        yield ends.attach(on_devices(_with_kinds(exact.of(batch), kinds), gpus))
    rows = RowBuilder(conversion, first_id=0)
    rows.tool_and_clock("rocprof", "monotonic")
    yield from rows.rest()


def _with_kinds(batch: Batch, kinds: dict[int, str]) -> Batch:
    """Sets the kind of the events of some processes: `kinds` is pid -> kind."""
    if batch.record != "events" or not kinds or not batch.has("pid"):
        return batch
    pids = pa.array(list(kinds), pa.int64())
    given = pa.array(list(kinds.values())).take(pc.index_in(batch.column("pid"), value_set=pids))
    if given.null_count == len(given):
        return batch
    derived = encoded(batch.column("kind")).dictionary_decode()
    return batch.replaced({"kind": pc.coalesce(given, derived).dictionary_encode()})


def _member(member: Member, conversion: Conversion) -> Iterator[Batch]:
    """Yields the output of rocminfo, in otherData, as facts of the source."""
    value = member.value()
    rows = RowBuilder(conversion, first_id=member.byte)
    if value not in (None, "", {}):
        rows.fact("source", facts={member.key: value})
    yield from rows.rest()


FORMAT = Format(
    "rocprof-json",
    "ROCm rocprof's results.json",
    patterns=("results*.json",),
    probe=probe,
    read=read,
    words=('"traceevents"',),
    document=True,
    holds="blocks",
)
