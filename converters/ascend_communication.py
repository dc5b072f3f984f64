"""Collectives of Huawei Ascend's profiler: communication.json of a rank, and cluster_communication.json of all ranks.

    {"step1": {"p2p": {}, "collective": {"hcom_allReduce__501_0@6297232067196334501":
      {"Communication Time Info": {"Start Timestamp(us)": 1695054582608213.0, "Elapse Time(ms)": 121.73694384375,
        "Transit Time(ms)": 0.0080599375, "Wait Time(ms)": 115.960641, "Idle Time(ms)": 5.768242375, ...},
       "Communication Bandwidth Info": {"HCCS": {"Transit Size(MB)": 0.063936, "Bandwidth(GB/s)": 2.7012, ...}}},
      "Total Op Info": {...}}}}

    {"(0, 1)": {"step1": {"hcom_allReduce__501_0@6297232067196334501": {"0": {...}, "1": {...}}}}}     of ranks 0, 1

Fields: torch_npu's communication parser (profiler/analysis), msprof-analyze's cluster analysis, 2023 to 2026.

Reads the collectives of steps as kernels: their time on the device, with what of it was transit, wait and idle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.json_items import plain_value
from ktrace.kit.text.numbers import to_ns
from ktrace.kit.trace_json.repair import decode_mended, whole_document
from ktrace.model.batch import Batch
from ktrace.model.json_text import NOT_JSON
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

#: The first members: a step or a group, and in it the kinds or the operators.
_HEAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"[^"]{1,200}"\s*:\s*\{')
_WORDS = (b'"Communication Time Info"', b'"Elapse Time(ms)"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for an object with the times of collectives."""
    if not _HEAD.match(sample.head[:4096]) or not all(word in sample.head for word in _WORDS):
        return None
    return Match(Score.DIALECT, 'has "Communication Time Info" of Ascend\'s profiler')


_TIMES, _BANDWIDTH = "Communication Time Info", "Communication Bandwidth Info"
_START, _ELAPSE = "Start Timestamp(us)", "Elapse Time(ms)"

#: The sum of the operators of a step, which are there themselves.
_TOTAL = "Total Op Info"

#: The kinds of operators in the document of one rank.
_KINDS = ("collective", "p2p")

_RANK = re.compile(r"[0-9]{1,9}")
_LIMIT = 1 << 62


class _Operator(NamedTuple):
    """An operator of a rank: where it stands in the document, and what the document has of it."""

    place: str
    name: str
    step: str
    rank: int | None
    ranks: str | None
    info: Any


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a kernel for each operator of each rank. Raises DamagedInput if the document isn't of this form."""
    rows, report = RowBuilder(conversion), conversion.report
    ranks: dict[int, None] = {}
    for operator in _operators(_decoded(source, report)):
        report.record()
        if operator.name == _TOTAL:
            report.used(outcome="structure")
            continue
        problem = _kernel(operator, rows, conversion)
        if problem:
            report.issue("bad-record", operator.place, problem)
        else:
            report.used()
            ranks[operator.rank or 0] = None
        yield from rows.ready()
    for rank in sorted(ranks):
        rows.fact("device", device=rank, facts={"vendor": "Huawei"})
    rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
    yield from rows.rest()


def _decoded(source: Source, report: Report) -> dict[str, Any]:
    data = whole_document(source, report)
    try:
        document = msgspec.json.Decoder(float_hook=Decimal).decode(data)  # us since 1970 have more digits than a float
    except NOT_JSON:
        try:
            document = decode_mended(data, report)
        except NOT_JSON as error:
            raise _damaged(source, f"can't be read: {error}") from None
    if not isinstance(document, dict):
        raise _damaged(source, "has no steps")
    return document


def _damaged(source: Source, what: str) -> DamagedInput:
    return DamagedInput(
        what,
        path=source.path,
        expected="an object of steps (or groups of ranks) with operators",
        remedy="let the profiler write it again, or copy it again as binary",
    )


def _operators(document: dict[str, Any]) -> Iterator[_Operator]:
    """The operators of a document: step, kind, operator; or group, step, operator, rank."""
    for first, inside in document.items():
        if not isinstance(inside, dict):
            yield _Operator(first, first, first, None, None, inside)
            continue
        for second, operators in inside.items():
            of_rank = second in _KINDS
            for name, info in operators.items() if isinstance(operators, dict) else ((second, operators),):
                place = f"{first} / {second} / {name}"
                if of_rank or not isinstance(info, dict):
                    yield _Operator(place, name, first if of_rank else second, None, None, info)
                    continue
                for rank, own in info.items():
                    number = int(rank) if _RANK.fullmatch(rank) else None
                    yield _Operator(f"{place} / {rank}", name, second, number, first, own)


def _kernel(operator: _Operator, rows: RowBuilder, conversion: Conversion) -> str | None:
    """Adds the row of an operator; returns why it can't."""
    times = operator.info.get(_TIMES) if isinstance(operator.info, dict) else None
    if not isinstance(times, dict):
        return f"has no {_TIMES}"
    start, elapse = _number(times.get(_START)), _number(times.get(_ELAPSE))
    if start is None or elapse is None or elapse < 0:
        return f"has no {_START} or {_ELAPSE}"
    if abs(start) >= _LIMIT // 1_000 or elapse >= _LIMIT // 1_000_000:
        return f"{_START} is {start}, {_ELAPSE} {elapse}"
    (ts, ts_exact), (dur, dur_exact) = to_ns(start, "us"), to_ns(elapse, "ms")
    args: dict[str, Any] = {"step": operator.step} | ({"ranks": operator.ranks} if operator.ranks else {})
    args |= {name: plain_value(value) for name, value in times.items() if name not in (_START, _ELAPSE)}
    args |= {"$ts": str(start)} if not ts_exact else {}
    args |= {"$dur": str(elapse)} if not dur_exact else {}
    if not (ts_exact and dur_exact):
        conversion.report.issue("rounded", operator.place, f"{start} us, {elapse} ms", 1)
    if bandwidth := operator.info.get(_BANDWIDTH):
        args["bandwidth"] = plain_value(bandwidth)
    args |= {name: plain_value(value) for name, value in operator.info.items() if name not in (_TIMES, _BANDWIDTH)}
    name, _, group = operator.name.partition("@")
    rows.event(
        "kernel",
        name,
        ts=ts,
        dur=dur,
        device=operator.rank or 0,
        track="Communication",
        comm=group or None,
        cat="HCCL",
        args=args,
    )
    return None


def _number(value: object) -> Decimal | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return number if number.is_finite() else None


FORMAT = Format(
    "ascend-communication",
    "Huawei Ascend collectives: communication.json, cluster_communication.json",
    patterns=("communication.json", "cluster_communication.json"),
    probe=probe,
    read=read,
    words=("communication time info",),
)
