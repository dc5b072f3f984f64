"""Canonical records as plain dicts, for tests that pick rows by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import ktrace

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


def known_rows(path: Path, record: str) -> list[Row]:
    """The rows of a record ("events", "summaries") that a file becomes, without nulls."""
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in ktrace.read(path).to_arrow()[record].to_pylist()
    ]


def steps_of_two_ranks(chance: random.Random, steps: int = 12) -> list[Row]:
    """Steps of two sources: calls, the kernels that they launch later, figures, links of all forms, statistics."""
    rows: list[Row] = []
    for source in ("rank0", "rank1"):
        number = 0

        def put(made: Row, source: str = source) -> int:
            nonlocal number
            number += chance.randint(1, 3)
            rows.append(made | {"source": source, "id": number})
            return number

        host, gpu = {"pid": 7, "tid": 8}, {"pid": None, "device": 0, "stream": 7}
        for step in range(steps):
            start = 10_000 + step * 1000 + chance.randint(0, 50)
            put(event(0, "range", f"ProfilerStep#{step}", start, 900, **host))
            put(event(0, "range", f"ProfilerStep#{step}", start + 500, 900, **gpu))
            for _ in range(chance.randint(2, 8)):
                at, same = start + chance.randint(0, 880), chance.randint(1, 60)
                call = put(event(0, "api", "launch", at, chance.randint(1, 40), **host, correlation=same))
                kernel = event(0, "kernel", chance.choice("abc"), at + chance.randint(10, 1500), 30, **gpu)
                work = put(kernel | {"correlation": same})
                if chance.random() < 0.5:
                    figure = event(0, "counter", "dram", kernel["ts"] + chance.randint(-900, 900), value=1.0)
                    put(figure | {"parent": chance.choice([work, call, 10**6])})
                if chance.random() < 0.5:
                    put(link(0, "k", "out", event=call, link=chance.choice(["launch", "flow"])))
                    put(link(0, "k", "in", event=work))
                if chance.random() < 0.5:
                    put(link(0, "p", "in", ts=at + chance.randint(-9, 99), bind=chance.choice([None, "next"]), **host))
            if chance.random() < 0.5:
                put(event(0, "counter", "clock", start, chance.choice([None, 400]), value=2.0))
                put(event(0, "op", "open", start, **host))
            head = {"record": "summary", "kind": "kernel", "name": "all", "metric": "duration", "total": 9.0}
            if chance.random() < 0.5:
                parent = put(head | {"ts": start} if chance.random() < 0.5 else head)
                put(head | {"metric": "dram", "kind": "metric", "parent": parent})
        rows.append({"record": "catalog", "source": source, "id": number + 1, "entity": "source", "facts": {"rank": 1}})
    return rows
