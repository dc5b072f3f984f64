"""Reads roctracer's texts: calls, work of queues, copies, ranges and marks.

1000:2000 4242:4243 hipLaunchKernel(..., stream=0) kernel=f(int*) :7     api, correlation 7
2500:4000 0:1 KernelExecution:7:4242                                     kernel f(int*), device 0, stream 1
2500:4000 0:0 CopyHostToDevice:5:4242                                    memcpy
2500:4000 async-copy:9:4242                                              memcpy, correlation 9 if that call is there
1000 4242:4243 1:0:"step"    1500 4242:4243 2:0:""                       range: pushed and popped
1000 4242:4243 3:4:"load"    1700 4242:4243 4:4:""                       range: started and stopped, by its number
1000 4242:4243 0:0:"mark"                                                instant

Calls of ROCm 2 and 3 state no correlation id: nothing is joined with them.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source, file_in
from ktrace.kit.rocm.common import copy_kind, work_kind
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import own_files

_TIMED = re.compile(r"(?P<begin>\d{1,20}):(?P<end>\d{1,20}) (?P<rest>.*)", re.DOTALL)
_CALL = re.compile(r"(?P<pid>\d{1,18}):(?P<tid>\d{1,18}) (?P<name>\w+)(?P<args>\(.*)", re.DOTALL)
_WORK = re.compile(r"(?P<device>-?\d{1,18}):(?P<queue>\d{1,18}) (?P<name>[^ ].*)", re.DOTALL)
#: The end of a line of work; after a blank, it is that of a call.
_IDS = re.compile(r"(?<! ):(?P<id>\d{1,18})(?::(?P<pid>\d{1,18}))?$")
_COPY = re.compile(r"async-copy:?(?P<id>\d{1,18})(?::(?P<pid>\d{1,18}))?")
_MARK = re.compile(
    r'(?P<at>\d{1,20}) (?P<pid>\d{1,18}):(?P<tid>\d{1,18}) (?P<what>[0-4])(?::(?P<id>\d{1,18}))?:"(?P<text>.*)"',
    re.DOTALL,
)
_ID = re.compile(r" :(\d{1,18})$")
_KERNEL = re.compile(r" kernel=(.*)$", re.DOTALL)
_OLD_KERNEL = re.compile(r"\(kernel\((.*)\) stream\(.*", re.DOTALL)

#: Times, agents and messages of roctracer that make no rows.
_OTHER = re.compile(
    r"\s*|0x[0-9a-f]+ agent (?:cpu|gpu)|\d{6,20}|ROC[Tt]racer\b.*|\s*(?:rocTX|HSA|HIP|KFD|PCS|HSA-activity)-trace\(.*"
)

#: Names of work that aren't names of kernels.
_LABEL = re.compile(r"(?:hc(?:Command)?)?(?:(?:Kernel|Copy|Mem|Fill|Barrier|Marker)\w*|Task)")

_PUSH, _POP, _START, _STOP = "1", "2", "3", "4"
_LATEST = 1 << 63

#: Calls that copy without HIP: the work of their correlation id is an async-copy.
_HSA_COPY = "hsa_amd_memory_async_copy"


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of a text, or of the texts of a run in a folder."""
    reading = _Reading(conversion)
    if not source.is_folder:
        yield from reading.text(Lines(source, conversion))
    else:
        bad = BadFiles(conversion.report)
        listing = source.sample().listing or ()
        files = own_files(listing)
        for path in sorted({*listing} - {*files}):
            conversion.report.record()
            conversion.report.issue("unrecognised", path, "not a text of roctracer")
        for path in files:
            file = file_in(source, path)
            yield from bad.left_out(file.path, reading.text(Lines(file, conversion, place=f"{path}: ")))
        bad.end()
    yield from reading.rest()


class _Open(NamedTuple):
    """A range that was begun: when, and its message."""

    at: int
    text: str


class _Reading:
    """What is known of a run while its lines are read."""

    def __init__(self, conversion: Conversion) -> None:
        self._rows = RowBuilder(conversion)
        self._kernels: dict[tuple[int | None, int], str] = {}
        self._copying: set[tuple[int | None, int]] = set()
        self._stacks: dict[tuple[int, int], list[_Open]] = defaultdict(list)
        self._started: dict[tuple[int, str], list[tuple[int, _Open]]] = defaultdict(list)
        self._gpus: set[int] = set()

    def text(self, lines: Lines) -> Iterator[Batch]:
        """Yields the rows of the lines."""
        for line in lines:
            text = line.text
            if _OTHER.fullmatch(text):
                lines.structure()
            elif timed := _TIMED.fullmatch(text):
                problem = self._timed(int(timed["begin"]), int(timed["end"]), timed["rest"])
                if problem:
                    lines.skip(*problem)
                else:
                    lines.used()
            elif mark := _MARK.fullmatch(text):
                self._mark(mark, int(mark["at"]), lines)
            yield from self._rows.ready()

    def rest(self) -> Iterator[Batch]:
        """Yields ranges without an end, and what is known of devices."""
        for (pid, tid), stack in self._stacks.items():
            for one in stack:
                self._rows.event("range", one.text, ts=one.at, pid=pid, tid=tid, cat="roctx")
        for (pid, _), started in self._started.items():
            for tid, one in started:
                self._rows.event("range", one.text, ts=one.at, pid=pid, tid=tid, cat="roctx")
        for device in sorted(self._gpus):
            self._rows.fact("device", device=device, facts={"api": "hip", "vendor": "AMD"})
        self._rows.fact("clock", facts={"kind": "monotonic"})
        yield from self._rows.rest()

    def _timed(self, begin: int, end: int, rest: str) -> tuple[str, str] | None:
        """Adds the row of a line with begin and end; returns why it can't."""
        if end < begin:
            return "negative-duration", f"{end - begin} ns"
        if end >= _LATEST:
            return "time-range", f"{end} ns"
        times = {"ts": begin, "dur": end - begin}
        ids = _IDS.search(rest)
        if copy := _COPY.fullmatch(rest):
            self._copy(copy, times)
        elif ids and (work := _WORK.fullmatch(rest[: ids.start()])):
            self._work(work, ids, times)
        elif call := _CALL.fullmatch(rest):
            self._call(call, times)
        else:
            return "bad-record", "neither a call nor work of a queue"
        return None

    def _call(self, match: re.Match[str], times: dict[str, int]) -> None:
        name, args = match["name"], match["args"]
        pid = int(match["pid"])
        stated = _ID.search(args)
        args = _ID.sub("", args)
        correlation = int(stated[1]) if stated else None
        kernel = _KERNEL.search(args) or _OLD_KERNEL.fullmatch(args)
        if kernel and correlation is not None:
            self._kernels[pid, correlation] = sys.intern(kernel[1])
        if correlation is not None and name.startswith(_HSA_COPY):
            self._copying.add((pid, correlation))
        more = {"kernel": kernel[1]} if kernel else {}
        text = _KERNEL.sub("", args).strip()
        texts = {"args": text} if text != "()" else {}
        cat = "hip" if name.startswith("hip") else "hsa" if name.startswith("hsa_") else "kfd"
        self._rows.event(
            "api",
            name,
            ts=times["ts"],
            dur=times["dur"],
            pid=pid,
            tid=int(match["tid"]),
            cat=cat,
            correlation=correlation,
            args=texts | more,
        )

    def _work(self, match: re.Match[str], ids: re.Match[str], times: dict[str, int]) -> None:
        label, number = match["name"], int(ids["id"])
        pid = int(ids["pid"]) if ids["pid"] else None
        kernel = self._kernels.get((pid, number))
        is_label = _LABEL.fullmatch(label) is not None
        kind = "kernel" if kernel is not None or not is_label else work_kind(label) or "kernel"
        name = kernel if kernel is not None else label
        device = int(match["device"])
        self._gpus.add(device)
        self._rows.event(
            kind,
            name,
            ts=times["ts"],
            dur=times["dur"],
            pid=pid,
            device=device,
            stream=int(match["queue"]),
            correlation=number,
            copy_kind=copy_kind(label) if kind == "memcpy" else None,
            args={"name": label} if name != label else {},
        )

    def _copy(self, match: re.Match[str], times: dict[str, int]) -> None:
        number = int(match["id"])
        pid = int(match["pid"]) if match["pid"] else None
        is_copying = (pid, number) in self._copying
        correlation, args = (number, {}) if is_copying else (None, {"Index": number})
        place: dict[str, Any] = {"pid": pid, "track": "async copies", **times}
        self._rows.event("memcpy", "async-copy", correlation=correlation, args=args, **place)

    def _started_as(self, pid: int, number: str) -> list[tuple[int, _Open]]:
        """The open ranges of a number. Some versions write 0 for the number of every start: the only open one is it."""
        started, unnumbered = (self._started.get((pid, one), []) for one in (number, "0"))
        return started or (unnumbered if len(unnumbered) == 1 else [])

    def _mark(self, match: re.Match[str], at: int, lines: Lines) -> None:
        what, pid, tid = match["what"], int(match["pid"]), int(match["tid"])
        place: dict[str, Any] = {"pid": pid, "tid": tid, "cat": "roctx"}
        one = _Open(at, match["text"])
        stack = self._stacks[pid, tid]
        begun: _Open | None = None
        if at >= _LATEST:
            lines.skip("time-range", f"{at} ns")
            return
        if what == _PUSH:
            stack.append(one)
        elif what == _START:
            self._started[pid, match["id"] or ""].append((tid, one))
        elif what in (_POP, _STOP):
            if what == _POP:
                begun = stack.pop() if stack else None
            elif started := self._started_as(pid, match["id"] or ""):
                place["tid"], begun = started.pop()
            if begun is None or begun.at > at:
                lines.skip("end-without-begin")
                return
            self._rows.event("range", begun.text, ts=begun.at, dur=at - begun.at, **place)
        else:
            self._rows.event("instant", one.text, ts=at, **place)
        lines.used()
