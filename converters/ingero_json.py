"""The lines that `ingero trace --json` prints: an event of Ingero's eBPF agent each.

{"timestamp": "2026-03-24T13:48:44.688205635Z", "pid": 70, "tid": 71, "process_name": "python3", "source": "cuda",
 "op": "cudaMemcpyAsync", "duration_ns": 30000, "duration": "30us", "gpu_id": 0, "args": [4096, 1], "return_code": 0,
 "cgroup_id": 44, "anomaly": false, "stack": [{"symbol": "cudaMemcpyAsync", "file": "libcudart.so.12"}]}

Facts: runJSONMode in internal/cli/trace.go. What its times mean: `ktrace.kit.ingero`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.ingero import BYTES, CALLS, COPIES, WAYS, frames
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import unix_ns
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_LINE = re.compile(rb'\s*\{"timestamp":"[^"]{1,60}","pid":\d{1,10},"tid":\d{1,10},')
_OWN = (b'"source":"', b'"op":"', b'"duration_ns":', b'"return_code":')
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line of the agent."""
    first = sample.head[:4096]
    if _LINE.match(first) and all(key in first for key in _OWN):
        return Match(Score.DIALECT, "has lines of ingero trace --json")
    return None


class _Event(msgspec.Struct):
    """A line, as far as it is used."""

    timestamp: str
    pid: int
    tid: int
    source: str
    op: str
    duration_ns: int
    args: tuple[int, int] = (0, 0)
    process_name: str = ""
    gpu_id: int = 0
    return_code: int = 0
    cgroup_id: int = 0
    anomaly: bool = False
    stack: list[dict[str, Any]] | None = None


_DECODER = msgspec.json.Decoder(_Event)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an event for each line."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    stacks: dict[str, str] = {}
    names: dict[int, str] = {}
    for line in lines:
        text = line.text.strip()
        if not text:
            lines.structure()
            continue
        try:
            event = _DECODER.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            is_cut = lines.peek() is None and text.startswith("{") and not text.endswith("}")
            lines.skip("cut" if is_cut else "bad-record", str(error))
        else:
            if problem := _add(event, rows, stacks):
                lines.skip("bad-record", problem)
            else:
                lines.used()
                names[event.pid] = event.process_name or names.get(event.pid, "")
        yield from rows.ready()
    for pid, name in names.items():
        if name:
            rows.fact("process", pid=pid, name=name)
    rows.tool_and_clock("Ingero", "unix")
    yield from rows.rest()


def _add(event: _Event, rows: RowBuilder, stacks: dict[str, str]) -> str | None:
    """Adds the event of a line; returns what is wrong with it."""
    stamp, dur, cat = _ns(event.timestamp), event.duration_ns, event.source.upper()
    if stamp is None or dur < 0 or not event.op:
        return "no time" if stamp is None else "no op" if not event.op else "a negative duration"
    is_call = cat in CALLS
    ended = not is_call and dur > 0
    at, args = BYTES.get(event.op), {f"arg{place}": value for place, value in enumerate(event.args)}
    columns: dict[str, Any] = {"bytes": args.pop(f"arg{at}")} if at is not None else {}
    if event.op in COPIES and 0 <= event.args[1] < len(WAYS):
        columns["copy_kind"] = WAYS[args.pop("arg1")]
    more = {
        "gpu_id": event.gpu_id,
        "ret_code": event.return_code,
        "cgroup_id": event.cgroup_id if event.cgroup_id > 1 else 0,
    }
    columns["args"] = {key: value for key, value in (args | more).items() if value}
    if event.anomaly:
        columns["args"]["anomaly"] = True
    if event.stack:
        columns["args"]["stack"] = _stack(event.stack, rows, stacks)
    rows.event(
        "api" if is_call else "range" if ended else "instant",
        event.op,
        ts=stamp - dur if ended else stamp,
        dur=dur if is_call or ended else None,
        timing="derived" if ended else "measured",
        cat=cat,
        pid=event.pid,
        tid=event.tid,
        track=None if is_call else cat,
        **columns,
    )
    return None


def _stack(stack_frames: list[dict[str, Any]], rows: RowBuilder, stacks: dict[str, str]) -> str:
    """The name of a stack in the catalog; adds one that is new."""
    key = msgspec.json.encode(stack_frames).decode()
    if key not in stacks:
        stacks[key] = str(len(stacks))
        rows.fact("stack", name=stacks[key], facts=frames(stack_frames))
    return stacks[key]


def _ns(text: str) -> int | None:
    """A time of RFC 3339 in ns since 1970; None for another text."""
    match = _TIME.fullmatch(text)
    return unix_ns(*match.groups()) if match else None


FORMAT = Format(
    "ingero-json",
    "lines of ingero trace --json: CUDA calls beside scheduling, I/O and network, by eBPF",
    patterns=("*.jsonl", "*.json"),
    probe=probe,
    read=read,
    words=('"duration_ns":',),
)
