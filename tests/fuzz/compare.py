"""Reads one input in several ways that must make no difference: compiled code or Python, processes, sizes of chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from ktrace.errors import KtraceError
from ktrace.kit.trace_json import chunks, decode, document
from ktrace.pipeline.convert import convert
from ktrace.stages.order import nesting

#: The formats that are Trace Event JSON.
FORMATS = (
    *("kineto", "chrome", "ascend-json", "xprof-json", "onnxruntime", "clintercept-json", "onetrace-json"),
    *("unitrace-json", "rpd2tracing", "rocprof-json"),
)


class Way(NamedTuple):
    """A way to read: in chunks of so many bytes, in compiled code or not, with so many processes."""

    name: str
    chunk: int
    compiled: bool = True
    jobs: int = 1


#: Bytes of the first chunk and of a range, on which the order of arguments and of rows depends; 16 MB, as it is, would
#: have no sample in several ranges. All grow with inputs above this size, which would take minutes in so small pieces.
FIRST, RANGE, SMALL = 700, 2100, 40_000


def ways(chunk: int, other: int) -> list[Way]:
    """The ways that are compared, in chunks of two sizes."""
    return [
        Way("compiled", 1 << 19),
        Way(f"Python in chunks of {chunk}", chunk, compiled=False),
        Way(f"two processes in chunks of {other}", other, jobs=2),
    ]


def difference(path: Path, fmt: str, folder: Path, ways: list[Way]) -> str:
    """Reads an input in all ways; returns how they differ, or nothing."""
    wanted: list[tuple[str, Any]] = []
    for way in ways:
        found = list(_outcome(path, fmt, folder, way))
        wanted = wanted or found
        for (what, one), (_, other) in zip(wanted, found, strict=True):
            if one != other:
                return f"readers differ in {what}: {ways[0].name} and {way.name}: {_first(one, other)}"
    return ""


def _outcome(path: Path, fmt: str, folder: Path, way: Way) -> Iterator[tuple[str, bytes]]:
    """Yields what a conversion writes and reports, or why it refuses."""
    times = 1 + path.stat().st_size // SMALL
    with ExitStack() as stack:
        settings: list[tuple[Any, str, Any]] = [(document, "CHUNK", times * way.chunk)]
        settings += [
            (chunks, "FIRST", times * FIRST),
            (chunks, "RANGE", times * RANGE),
            (document, "LEAST", 1000),
            (document, "LEAST_STORED", 500),
        ]
        if not way.compiled:
            settings += [(module, "compiled", None) for module in (decode, nesting)]
        for module, name, value in settings:
            stack.enter_context(patch.object(module, name, value))
        for name in ("rows.jsonl", "rows.perfetto"):
            out = folder / name
            written, account = b"", {}
            try:
                account = convert(path, out, from_=fmt, jobs=way.jobs).to_dict()
                written = out.read_bytes()
                out.unlink()
            except KtraceError as error:
                account = {"error": str(error)}
            yield name, written
            yield f"the account of {name}", json.dumps(_sorted(account), indent=1, sort_keys=True).encode()


def _sorted(account: dict[str, Any]) -> dict[str, Any]:
    """An account without the order in which kinds of issues were found."""
    issues = sorted(account.get("issues", ()), key=lambda issue: str(issue["kind"]))
    return {**account, "parts": None, "issues": issues}


def _first(one: bytes, other: bytes) -> str:
    """The first lines that differ."""
    if b"\0" in one:
        return f"{len(one):,} and {len(other):,} bytes"
    for mine, theirs in zip(one.split(b"\n"), other.split(b"\n"), strict=False):
        if mine != theirs:
            return f"{mine[:700]!r} and {theirs[:700]!r}"
    return f"{len(one):,} and {len(other):,} bytes"
