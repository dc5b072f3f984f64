"""Small traces of calls and device work, and why their devices are idle, worked out the plain way: loops over ns."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

Row = dict[str, Any]

#: What is short, in ns, if fewer than so many launches on an idle device tell how long they take.
SHORT, SAMPLES = 10_000, 8


def host(name: str, ts: int, end: int, correlation: int | None = None, *, kind: str = "api", tid: int = 1) -> Row:
    """A call, operator or range of the host."""
    return {"kind": kind, "name": name, "ts": ts, "dur": end - ts, "correlation": correlation, "pid": 1, "tid": tid}


def work(
    name: str,
    ts: int,
    end: int,
    correlation: int | None = None,
    *,
    kind: str = "kernel",
    stream: int = 7,
    device: int = 0,
) -> Row:
    """A piece of work of a device."""
    place = {"pid": 1, "device": device, "stream": stream}
    return {"kind": kind, "name": name, "ts": ts, "dur": end - ts, "correlation": correlation, **place}


def written(path: Path, rows: list[Row]) -> Path:
    """The path, at which the rows are written as canonical JSON Lines."""
    lines = [{"ktrace": "1.0"}]
    for number, row in enumerate(rows, 1):
        known = {name: value for name, value in row.items() if value is not None}
        lines.append({"record": "event", "source": "run", "id": number, "timing": "measured", **known})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def gaps(rows: list[Row], device: int) -> list[dict[str, Any]]:
    """The gaps of a device: begin, end, cause, and what the host did in them until the launching call returned."""
    mine = [row for row in rows if row.get("device") == device and row["kind"] in ("kernel", "memcpy")]
    mine.sort(key=lambda row: row["ts"])
    calls = {row["correlation"]: row for row in rows if "tid" in row and row.get("correlation")}
    found, before, usual = [], mine[0], short(mine, calls)
    for row in mine[1:]:
        if row["ts"] > end_of(before):
            gap = {"begin": end_of(before), "end": row["ts"]}
            found.append(gap | _why(rows, gap["begin"], gap["end"], before, row, calls, usual))
            first = min(calls[one["correlation"]]["ts"] for one in mine if one.get("correlation") in calls)
            if row.get("correlation") not in calls and row["ts"] < first:
                found[-1]["cause"] = "queued before the recording"
        if end_of(row) > end_of(before):
            before = row
    return found


def short(mine: list[Row], calls: dict[int, Row]) -> int:
    """Three times the median time from a call to its work on an idle device; without the first of each stream."""
    waits, streams, reached = [], set(), -1
    for row in mine:
        call = calls.get(row.get("correlation", 0))
        if call and row["stream"] in streams and end_of(call) >= reached:
            waits.append(max(row["ts"] - end_of(call), 0))
        streams.add(row["stream"])
        reached = max(reached, end_of(row))
    return max(3 * int(median(waits)), 5_000) if len(waits) >= SAMPLES else SHORT


def _why(
    rows: list[Row], begin: int, end: int, before: Row, after: Row, calls: dict[int, Row], usual: int
) -> dict[str, Any]:
    call = calls.get(after.get("correlation"))
    if call is None:
        return {"cause": "unknown", "host": {}}
    returned = min(max(end_of(call), begin), end)
    if end - returned > max(returned - begin, usual):
        return {"cause": "dependency", "host": {}}
    if call["ts"] <= begin and returned - begin <= usual:
        return {"cause": "launch overhead", "host": {}}
    there: defaultdict[str, int] = defaultdict(int)
    own = [row for row in rows if row.get("tid") == call["tid"]]
    for at in range(begin, returned):
        there[_name(_inside(own, at))] += 1
    if end > returned:
        there["launch delay"] += end - returned
    waits = []
    now = _inside(own, begin)
    if now is not None and now["kind"] == "api" and "Synchronize" in now["name"]:
        inside = [_inside(own, at) for at in range(begin, returned)]
        later = [one for one in inside if one and one is not now and one["kind"] == "api" and "Synchro" in one["name"]]
        waits.append(now["dur"] + len(later))
    if now is None:
        others = [row for row in rows if "Synchronize" in row["name"] and "tid" in row and row["ts"] <= begin]
        last = max(others, key=lambda row: row["ts"], default=None)
        if last and end_of(last) >= begin and not any(_inside(own, at) for at in range(begin, end_of(last))):
            waits.append(last["dur"])
    earlier = calls.get(before.get("correlation"))
    if before["kind"] == "memcpy" and earlier and earlier["tid"] == call["tid"] and end_of(earlier) >= begin:
        waits.append(earlier["dur"])
    waited = call["ts"] > begin and any(wait >= returned - begin for wait in waits)
    return {"cause": "host synchronised" if waited else "host late", "host": dict(there)}


def _inside(spans: list[Row], at: int) -> Row | None:
    """The innermost span at a time."""
    found = [(row["ts"], -end_of(row), number) for number, row in enumerate(spans) if row["ts"] <= at < end_of(row)]
    return spans[max(found)[2]] if found else None


def _name(span: Row | None) -> str:
    return "no call or range" if span is None else str(span["name"])


def end_of(row: Row) -> int:
    """When a row ends."""
    return int(row["ts"] + row["dur"])
