"""Canonical records as plain dicts, for tests that pick rows by hand."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

HOST = {"pid": 5, "tid": 6}
GPU = {"device": 0, "stream": 7}


def event(number: int, kind: str, name: str, ts: int, dur: int | None = None, **columns: Any) -> Row:
    """An event of the source "t"."""
    row = {"record": "event", "source": "t", "id": number, "kind": kind, "name": name, "ts": ts, "timing": "measured"}
    return row | ({} if dur is None else {"dur": dur}) | columns


def link(number: int, key: str, role: str, **columns: Any) -> Row:
    """An end of a flow of the source "t"."""
    return {"record": "link", "source": "t", "id": number, "link": "flow", "key": key, "role": role} | columns
