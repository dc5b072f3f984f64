"""Metadata events (M): names, labels and order of processes and threads, for the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.dictionaries import indices
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.fitting import whole_of
from ktrace.model.json_text import dump_json, encoded, json_cells, load_json
from ktrace.model.row_builder import to_batch

from .dialect import Dialect, Rule
from .draft import Draft, Task, numbered
from .events import Events
from .places import plain


def metadata(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """Yields a fact for each distinct event; of equal events the last one counts.

    Metadata other than names, labels and order is a fact, under its own name, of the process, of the thread, or of a
    track if the pid is a text.
    """
    task.report.used(len(events), outcome="catalog")
    draft = Draft.of(events)
    for member in ("ts", "dur", "cat", "id", "bp", "s", "args.$tts"):
        draft.left.pop(member, None)
    last = _distinct(draft.left, len(draft))
    distinct = {name: column.take(pa.array(last)) for name, column in draft.left.items()}
    yield to_batch("catalog", [*_rows(distinct, draft.at[last].tolist(), task.dialect)])


def _distinct(columns: dict[str, pa.Array], rows: int) -> Int64:
    """The last one of each set of equal rows, in order."""
    code = np.zeros(rows, np.int64)
    for column in map(encoded, columns.values()):
        code = code * (len(column.dictionary) + 1) + indices(column) + 1
        if len(column.dictionary) > 1:
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
    _, last = np.unique(code[::-1], return_index=True)
    return np.sort(rows - 1 - last)


def _rows(columns: dict[str, pa.Array], at: list[int], dialect: Dialect) -> Iterator[dict[str, Any]]:
    """The rows of the catalog, as dicts."""
    names = _texts(columns.get("name"), len(at))
    pids, tids = _numbers(columns.get("pid"), len(at)), _numbers(columns.get("tid"), len(at))
    args: list[dict[str, Any]] = [{} for _ in at]
    for name, column in columns.items():
        if name.startswith("args."):
            for row, cell in zip(args, json_cells(column).to_pylist(), strict=True):
                if cell is not None:
                    row[name.removeprefix("args.")] = load_json(cell)
    for number, name, (pid, process), (tid, thread), given in zip(at, names, pids, tids, args, strict=True):
        entity: dict[str, Any] = {"entity": "process", "pid": pid}
        if name.startswith("thread_"):
            entity |= {"entity": "thread", "tid": tid}
        text = "/".join(filter(None, (process, thread if name.startswith("thread_") else None)))
        if text:
            entity |= {"entity": "track", "track": text}
        yield {"id": number} | _without_none(entity) | _facts(name, given)
        if dialect.stream_name and name == "thread_name" and pid is not None and tid is not None:
            found = dialect.stream_name.fullmatch(str(given.get("name", "")).strip())
            if found and whole_of(found[1]) == tid:
                yield {"id": number, "entity": "stream", "device": pid, "stream": tid, "name": given["name"].strip()}


def _facts(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The name, order or facts of an event's entity."""
    row: dict[str, Any] = {}
    args = dict(args)
    if name in ("process_name", "thread_name") and isinstance(args.get("name"), str):
        row["name"] = args.pop("name")
    elif name in ("process_sort_index", "thread_sort_index"):
        order = args.get("sort_index")
        if type(order) is int and abs(order) < 1 << 62:
            row["order"] = args.pop("sort_index")
    elif name == "process_labels" and isinstance(args.get("labels"), str):
        row["facts"] = dump_json({"labels": args.pop("labels")})
    if args and "facts" not in row:
        known = name in ("process_name", "thread_name")
        row["facts"] = dump_json(args if known else {name: args if len(args) > 1 else next(iter(args.values()))})
    return row


def _without_none(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _texts(column: pa.Array | None, rows: int) -> list[str]:
    return [""] * rows if column is None else [text or "" for text in plain(column).to_pylist()]


def _numbers(column: pa.Array | None, rows: int) -> list[tuple[int | None, str | None]]:
    """The number of each row, or its text."""
    if column is None:
        return [(None, None)] * rows
    taken, rest = numbered(column)
    found = [None] * rows if taken is None else taken.to_pylist()
    texts = [None] * rows if rest is None else plain(rest).to_pylist()
    return list(zip(found, texts, strict=True))
