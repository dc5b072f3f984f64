"""The tables that TAU's `pprof` prints of profiles: functions, MPI calls and kernels of each thread.

NODE 0;CONTEXT 0;THREAD 0:
---------------------------------------------------------------------------------------
%Time    Exclusive    Inclusive       #Call      #Subrs  Inclusive Name
              msec   total msec                          usec/call
---------------------------------------------------------------------------------------
100.0        1,000     1:00.000           1           1   60000000 .TAU application
 50.0       30,000       30,000        1000           0      30000 Kokkos::parallel_for step [type = HIP, device = 0]

utils/pprof.cpp of TAU writes it. Times are in ms with commas between thousands, from a minute on as m:ss.mmm or
h:mm:ss.mmm. Exclusive times add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.device_names import device_work
from ktrace.kit.text.layouts import is_rule
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.titles import likely_lines
from ktrace.kit.text.trees import INCLUSIVE
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_WORDS = ("#subrs  inclusive name",)
_HEADING = re.compile(r"\s*%Time +Exclusive +Inclusive +#Call +#Subrs +Inclusive Name\s*")
_UNITS = re.compile(r"\s*msec +total msec +usec/call\s*")
_TIME = r"(?:\d{1,6}:)?(?:\d{1,6}:\d\d\.\d{3}|[\d,]{1,20}(?:\.\d{1,9})?(?:E[+-]?\d{1,3})?)"
_ROW = re.compile(
    rf"\s*(?P<share>\d{{1,3}}\.\d)\s+(?P<own>{_TIME})\s+(?P<all>{_TIME})\s+(?P<calls>[\d.E+]{{1,20}})"
    r"\s+(?P<subrs>[\d.E+]{1,20})\s+(?P<each>[\d.E+]{1,20})\s(?P<name>.*\S)\s*"
)
_NODE = re.compile(r"NODE (?P<node>\d{1,9});CONTEXT (?P<context>\d{1,9});THREAD (?P<thread>\d{1,9}):")
_SUMMARY = re.compile(r"FUNCTION SUMMARY \((\w+)\):")
_DEVICE = re.compile(r"\[type = (?:HIP|CUDA|SYCL|OpenMPTarget|OpenACC), device = (\d{1,9})\]")
_OF_DEVICE = re.compile(r"\[(?:ROCm|CUDA|GPU|OpenCL|Level Zero|L0) ?(?:Kernel|GPU)?\]|\[type = (?:HIP|CUDA|SYCL)\b")
_MARKS = re.compile(r" ?\[type = [^\[\]]{0,80}\]|\[[\w ]{1,20}Kernel\] ?")
_MPI = re.compile(r"MPI_\w+\(\)")

#: Longer lines aren't rows.
_LONGEST = 1 << 16


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings."""
    for number, line in likely_lines(sample, _WORDS):
        if _HEADING.fullmatch(line):
            return Match(Score.DIALECT, f"contains a profile as TAU's pprof prints it (line {number})")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a row for each function with its exclusive time, and its inclusive time as a metric.

    The tables of several threads come first; those that sum them up are only counted.
    """
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "TAU pprof"})
    table, place, scope, repeats, is_open = -1, {}, [], False, False
    for line in lines:
        text = line.text if len(line.text) <= _LONGEST else ""
        bare = text.strip()
        if node := _NODE.fullmatch(bare):
            place = {"host": f"node {node['node']}", "tid": int(node["thread"])}
            scope, repeats, is_open = [bare.rstrip(":")], False, False
            lines.structure()
        elif summary := _SUMMARY.fullmatch(bare):
            repeats, place, is_open = table >= 0, {}, False
            scope = [f"FUNCTION SUMMARY ({summary[1]})"]
            lines.structure()
        elif _HEADING.fullmatch(text):
            table, is_open = table + 1, True
            lines.structure()
        elif not bare or is_rule(text) or (is_open and _UNITS.fullmatch(text)):
            lines.structure()
        elif is_open and (found := _ROW.fullmatch(text)):
            if repeats:
                lines.became("folded")
            else:
                _add(rows, found, place | {"table": table, "scope": scope})
                lines.used()
        else:
            is_open = False
        yield from rows.ready()
    yield from rows.rest()


def _add(rows: RowBuilder, found: re.Match[str], place: dict[str, Any]) -> None:
    name, place = found["name"], dict(place)
    kind, copy_kind = ("api", None) if _MPI.fullmatch(name) else ("op", None)
    if _OF_DEVICE.search(name):
        kind, copy_kind = device_work(name)
        place |= {"short_name": _MARKS.sub("", name).strip()}
        if device := _DEVICE.search(name):
            place |= {"device": int(device[1])}
    calls = Decimal(found["calls"])
    whole: dict[str, Any] = {"count": int(calls)} if calls == calls.to_integral_value() else {}
    args = {"#Subrs": found["subrs"]} if whole else {"#Call": found["calls"], "#Subrs": found["subrs"]}
    row = rows.summary(kind, name, total=_ns(found["own"]), unit="ns", copy_kind=copy_kind, args=args, **whole, **place)
    place.pop("short_name", None)
    share = float(found["share"])
    rows.summary(
        "metric", name, metric=INCLUSIVE, total=_ns(found["all"]), unit="ns", percent=share, parent=row, **place
    )


def _ns(text: str) -> float:
    """A time in ms, or in minutes and seconds, in ns."""
    parts = text.replace(",", "").split(":")
    if len(parts) == 1:
        return float(Decimal(parts[0]) * 10**6)
    seconds = sum((Decimal(part) * 60**power for power, part in enumerate(reversed(parts))), Decimal(0))
    return float(seconds * 10**9)


FORMAT = Format(
    "tau",
    "TAU's profiles as pprof prints them: functions, MPI, kernels",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=read,
    words=_WORDS,
    prose=True,
)
