"""Whose time it is that is added up where there is no device work: the host's only where something says so.

requests      requests of a server, and their parts       spans without a thread, whose track says so
warps         ranges inside kernels                       no thread, and tracks of warps; or processes of blocks
spans         asynchronous spans                          no thread, and an id of their own
ranges        ranges of a trace of any program            threads, but no call and no operator
collectives   collectives until their end was noticed     a flight recorder
table         rows of a table that anybody may write      neither calls, nor a heading about CPUs
host          all else
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import Any, NamedTuple

from ktrace.model.catalog import Catalog


class Nature(NamedTuple):
    """How time is named: in sentences, in the list of sources, and in a note."""

    time: str
    counted: str
    note: str


NATURES = {
    "host": Nature("host time", "host activity", "calls, operators or ranges of the host"),
    "requests": Nature("time of requests", "requests", "requests, and their parts where these are stated"),
    "warps": Nature("time of warps", "ranges inside kernels", "ranges inside kernels, of all warps"),
    "spans": Nature("time of asynchronous spans", "asynchronous spans", "asynchronous spans, of requests or tasks"),
    "ranges": Nature("recorded time", "ranges", "ranges, of which nothing says whether the host did them"),
    "collectives": Nature(
        "time of collectives", "collectives", "collectives, from their call until PyTorch noticed their end"
    ),
    "table": Nature("time in the table", "rows of tables", "rows of a table that says neither host nor device"),
}

#: What is counted, in words, by `Summary.whose`.
COUNTED = {
    "events": "the work of devices",
    "statistics": "rows of tables about devices",
    "samples": "samples of functions",
    **{key: nature.counted for key, nature in NATURES.items()},
}


def is_other(one: str, other: str) -> bool:
    """Whether what is counted on two sides isn't the same, such as requests and warps.

    Ranges, and rows of a table, of which nothing says whose they are may be of anything but a device.
    """
    unknown, devices = {"ranges", "table"}, {"events", "statistics"}
    return one != other and not (unknown & {one, other} and not devices & {one, other})


#: Formats whose rows and tools don't say whose time it is.
_TABLES = frozenset(("table", "console", "mapped", "kokkos", "regions", "old-profilers"))
_TRACES = frozenset(
    ("chrome", "jsonl", "json", "csv", "parquet", "arrow", "mapped", "perfetto", "perfetto-text", "xctrace")
)

_REQUEST = re.compile(r"\brequest", re.I)
_WARP = re.compile(r"\b(?:warp|wave)s? \d", re.I)
_BLOCK = re.compile(r"\b(?:thread ?block|block|workgroup|warp|wave)s?[ _#]?\d", re.I)
_CALL = re.compile(r"(cuda|cu|hip|hsa_|ze|cl)[A-Z][a-z]", re.A)
_HOST = re.compile(r"\b(cpu|host|wall|python)\b", re.I)


def nature_of_events(shapes: Iterable[dict[str, Any]], formats: Set[str], catalog: Catalog) -> str:
    """The nature of events, by what they are, their formats and the names of their processes and threads."""
    shapes = list(shapes)
    if formats <= _TABLES and not any(shape["kind"] == "api" for shape in shapes):
        return "table"
    if formats == {"nccl-flight-recorder"}:
        return "collectives"
    if any(shape["kind"] != "range" for shape in shapes):
        return "host"
    if all(shape["track"] is not None and shape["tid"] is None for shape in shapes):
        for nature, of_track in (("requests", _REQUEST), ("warps", _WARP)):
            if all(of_track.search(shape["track"]) for shape in shapes):
                return nature
        are_texts = formats == {"chrome"} and all(shape["pid"] is None for shape in shapes)
        return "ranges" if are_texts else "spans"  # "pid": "worker", "tid": "main" is a thread that has no number
    if all(any(_BLOCK.match(name) for name in _places(shape, catalog)) for shape in shapes):
        return "warps"
    return "ranges" if formats <= _TRACES else "host"


def _places(shape: dict[str, Any], catalog: Catalog) -> list[str]:
    """The names of the process and the thread of a shape, as far as there are any."""
    columns = {"source": shape["source"], "host": shape.get("host"), "pid": shape["pid"]}
    entries = catalog.get("process", **columns), catalog.get("thread", **columns, tid=shape["tid"])
    return [entry.name for entry in entries if entry is not None and entry.name]


def nature_of_tables(rows: Iterable[dict[str, Any]], formats: Set[str]) -> str:
    """The nature of rows of statistics, by what they are and their formats."""
    for row in rows:
        says = any(_HOST.search(str(word)) for word in row.get("scope") or ())
        if row["kind"] == "api" or says or _CALL.match(row["name"]):
            return "host"
    return "table" if formats <= _TABLES else "host"
