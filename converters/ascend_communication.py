"""Collectives of Huawei Ascend's profiler and the links that carried them, of a rank or of all ranks.

communication.json, cluster_communication.json: the collectives of steps as kernels, with transit, wait and idle time.

    {"step1": {"p2p": {}, "collective": {"hcom_allReduce__501_0@6297232067196334501":
      {"Communication Time Info": {"Start Timestamp(us)": 1695054582608213.0, "Elapse Time(ms)": 121.73694384375,
        "Transit Time(ms)": 0.0080599375, "Wait Time(ms)": 115.960641, "Idle Time(ms)": 5.768242375, ...},
       "Communication Bandwidth Info": {"HCCS": {"Transit Size(MB)": 0.063936, "Bandwidth(GB/s)": 2.7012, ...}}},
      "Total Op Info": {...}}}}

    {"(0, 1)": {"step1": {"hcom_allReduce__501_0@6297232067196334501": {"0": {...}, "1": {...}}}}}     of ranks 0, 1

communication_matrix.json, cluster_communication_matrix.json: transit time, size and bandwidth of each link, as metrics.

    {"step1": {"p2p": {}, "collective": {"allreduce-top1@6297232067196334501":
      {"0-1": {"Transport Type": "HCCS", "Transit Size(MB)": 4.194304, "Transit Time(ms)": 0.25,
        "Bandwidth(GB/s)": 16.7772, "Op Name": "hcom_allReduce__501_0_1"}}, "allreduce-total@...": {...}}}}

    {"(0, 1)": {"step1": {"allreduce-total@6297232067196334501": {"0-1": {...}}, "Total Op Info@...": {...}}}}
    {"hcom_allReduce__501_0_1@6297232067196334501": {"0-1": {...}}}                                    of msprof

Fields: torch_npu's communication parser (profiler/analysis), msprof (analysis/analyzer, msparser/cluster) and
msprof-analyze's cluster analysis, 2023 to 2026. MB is 1000**2 bytes there (COMMUNICATION_B_to_MB), GB/s is MB a ms.
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
from ktrace.kit.trace_json.salvage import decode_mended, whole_document
from ktrace.model.batch import Batch
from ktrace.model.json_text import NOT_JSON
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

#: The first members: a step or a group, and in it the kinds or the operators.
_HEAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"[^"]{1,200}"\s*:\s*\{')
_WORDS = ((b'"Communication Time Info"', b'"Elapse Time(ms)"'), (b'"Transport Type"', b'"Transit Size(MB)"'))


def probe(sample: Sample) -> Match | None:
    """DIALECT for an object with the times of collectives, or with their links."""
    if _HEAD.match(sample.head[:4096]):
        for words in _WORDS:
            if all(word in sample.head for word in words):
                return Match(Score.DIALECT, f"has {words[0].decode()} of Ascend's profiler")
    return None


_TIMES, _BANDWIDTH = "Communication Time Info", "Communication Bandwidth Info"
_START, _ELAPSE = "Start Timestamp(us)", "Elapse Time(ms)"

#: The sum of the operators of a step, which are there themselves.
_TOTAL = "Total Op Info"

#: The kinds of operators in the document of one rank.
_KINDS = ("collective", "p2p")

#: Figure of a link -> the metric, its unit, and the factor to it.
_FIGURES = {
    "Transit Time(ms)": ("Transit Time", "ns", 1_000_000),
    "Transit Size(MB)": ("Transit Size", "B", 1_000_000),
    "Bandwidth(GB/s)": ("Bandwidth", "B/s", 1_000_000_000),
}

_RANK = re.compile(r"[0-9]{1,9}")
_LINK = re.compile(r"[0-9]{1,9}-[0-9]{1,9}")
_LIMIT = 1 << 62

#: The levels of a document: group of ranks, step, operator, and its rank or link.
_LEVELS = 4


class _Operator(NamedTuple):
    """An operator of a rank, or one of its links: where it stands in the document, and what the document has of it."""

    place: str
    name: str
    step: str | None
    rank: int | None
    ranks: str | None
    link: str | None
    info: Any


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a kernel for each operator of each rank, or metrics of links. Raises DamagedInput for another document."""
    rows, report = RowBuilder(conversion), conversion.report
    ranks: dict[int, None] = {}
    for operator in _operators(_decoded(source, report)):
        report.record()
        if operator.name.partition("@")[0] == _TOTAL:
            report.used(outcome="structure")
            continue
        problem = _metrics(operator, rows, report) if operator.link else _kernel(operator, rows, conversion)
        if problem:
            report.issue("bad-record", operator.place, problem)
            continue
        report.used()
        if not operator.link:
            ranks[operator.rank or 0] = None
        yield from rows.ready()
    for rank in sorted(ranks):
        rows.fact("device", device=rank, facts={"vendor": "Huawei"})
    if ranks:
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
        remedy="record it again, or copy it in binary mode",
    )


def _operators(value: Any, *path: str) -> Iterator[_Operator]:
    """The operators of a document, and the links of those that have links."""
    is_object = isinstance(value, dict)
    if not is_object or _TIMES in value or len(path) == _LEVELS or (not value and len(path) == _LEVELS - 1):
        yield _operator(path, value, None)
    elif value and all(map(_LINK.fullmatch, value)):
        yield from (_operator((*path, link), info, link) for link, info in value.items())
    else:
        for key, inside in value.items():
            yield from _operators(inside, *path, key)


def _operator(path: tuple[str, ...], info: Any, link: str | None) -> _Operator:
    """The operator at a path: step, kind, operator; or group, step, operator, rank; or the operator."""
    step = ranks = rank = None
    if len(path) < _LEVELS - 1:
        name = path[0] if path else ""
    elif path[1] in _KINDS:
        step, _, name, *_ = path
    else:
        ranks, step, name, *rest = path
        rank = int(rest[0]) if rest and _RANK.fullmatch(rest[0]) else None
    return _Operator(" / ".join(path), name, step, rank, ranks, link, info)


def _metrics(operator: _Operator, rows: RowBuilder, report: Report) -> str | None:
    """Adds a row for each figure of a link; returns why it can't. The first row has the rest of the link's members."""
    if not isinstance(operator.info, dict):
        return "isn't an object"
    stated = {name: _parse_decimal(operator.info.get(name)) for name in _FIGURES}
    figures = {name: number for name, number in stated.items() if number is not None and abs(number) < _LIMIT}
    if not figures:
        return f"has none of {', '.join(_FIGURES)}"
    args = {name: plain_value(value) for name, value in operator.info.items() if name not in figures}
    for heading in args.keys() & _FIGURES.keys():
        report.issue("misfit", operator.place, f"{heading}: {str(args[heading])[:40]}")
    if operator.ranks:
        args["ranks"] = operator.ranks
    scope = [part for part in (operator.step, operator.link) if part]
    name, _, group = operator.name.partition("@")
    for heading, number in figures.items():
        metric, unit, factor = _FIGURES[heading]
        figure: dict[str, Any] = {"metric": metric, "value": float(number * factor), "unit": unit}
        rows.summary("kernel", name, scope=scope, comm=group or None, cat="HCCL", args=args, **figure)
        args = {}
    return None


def _kernel(operator: _Operator, rows: RowBuilder, conversion: Conversion) -> str | None:
    """Adds the row of an operator; returns why it can't."""
    times = operator.info.get(_TIMES) if isinstance(operator.info, dict) else None
    if not isinstance(times, dict):
        return f"has no {_TIMES}"
    start, elapse = _parse_decimal(times.get(_START)), _parse_decimal(times.get(_ELAPSE))
    if start is None or elapse is None or elapse < 0:
        return f"has no {_START} or {_ELAPSE}"
    if abs(start) >= _LIMIT // 1_000 or elapse >= _LIMIT // 1_000_000:
        return f"{_START} is {start}, {_ELAPSE} {elapse}"
    (ts, ts_exact), (dur, dur_exact) = to_ns(start, "us"), to_ns(elapse, "ms")
    stated = {"step": operator.step, "ranks": operator.ranks}
    args: dict[str, Any] = {name: text for name, text in stated.items() if text}
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


def _parse_decimal(value: object) -> Decimal | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return number if number.is_finite() else None


FORMAT = Format(
    "ascend-communication",
    "Huawei Ascend collectives and their links, of a rank or a cluster",
    patterns=(
        *("communication.json", "cluster_communication.json"),
        *("communication_matrix.json", "cluster_communication_matrix.json"),
    ),
    probe=probe,
    read=read,
    words=("communication time info", "transport type"),
    document=True,
    holds="whole",
)
