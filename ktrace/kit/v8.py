"""CPU profiles of V8: nodes of a tree of calls, samples that name nodes, and the times between the samples.

    {"nodes":[{"id":1,"callFrame":{"functionName":"(root)","url":"","lineNumber":-1},"children":[2]},
              {"id":2,"callFrame":{"functionName":"step","url":"file:///serve.js","lineNumber":11}}],
     "startTime":500,"endTime":900,"samples":[2,2,1],"timeDeltas":[100,125,125]}

As v8/src/inspector/js_protocol.json describes it: µs, lines from 0; the first delta counts from the start. In a trace a
profile comes in pieces, in which nodes have a `parent` in the place of `children`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .stacks import Stacks, frame_text

#: The name of a function without one.
_ANONYMOUS = "(anonymous)"

#: Times are below this (µs): 2^62 ns.
_LIMIT = (1 << 62) // 1000


class Piece(NamedTuple):
    """A part of a profile, its values as they are. `id` is that of its first row, `where` its place for the report."""

    id: int
    where: str
    nodes: Any
    samples: Any
    deltas: Any


class _Node(NamedTuple):
    name: str
    text: str
    parent: Any


class CpuProfiles:
    """Adds the samples of profiles. The stacks of all profiles of a source have keys of their own."""

    def __init__(self, rows: RowBuilder, report: Report, prefix: str = "") -> None:
        self._rows, self._report = rows, report
        self._stacks = Stacks(rows, prefix)

    def add(self, pieces: Iterable[Piece], start: int, end: int | None, place: dict[str, Any]) -> Iterator[None]:
        """Adds the samples of a profile, and yields after each.

        `start` and `end` are in µs; `value` of a sample is the time in ns until the next one, or until the end.
        """
        nodes: dict[Any, _Node] = {}
        keys: dict[Any, str | None] = {}  # the keys of their stacks
        last: tuple[int, int, Any] | None = None  # id, time, node
        for piece in pieces:
            self._rows.begin_at(piece.id)
            _read_nodes(piece.nodes, nodes)
            for node, time in self._timed(piece, start):
                start = time
                if last:
                    self._sample(last, time, nodes, keys, place)
                last = self._rows.reserve(), time, node
                if node not in nodes:
                    self._report.issue("bad-record", piece.where, f"a sample of the node {node!r}, which doesn't exist")
                yield
        if last:
            self._sample(last, end, nodes, keys, place)

    def _timed(self, piece: Piece, time: int) -> Iterator[tuple[int, int]]:
        """Yields node and time of each sample."""
        samples = piece.samples if isinstance(piece.samples, list) else []
        deltas = piece.deltas if isinstance(piece.deltas, list) else []
        self._report.record(len(samples))
        for number, node in enumerate(samples):
            delta: Any = deltas[number] if number < len(deltas) else None
            if type(delta) not in (int, float) or not abs(time + delta) < _LIMIT:
                left = len(samples) - number
                self._report.issue("bad-record", piece.where, "samples after one without a time", left)
                return
            time += round(delta)
            yield node if type(node) is int else -1, time

    def _sample(
        self,
        sample: tuple[int, int, Any],
        until: int | None,
        nodes: dict[Any, _Node],
        keys: dict[Any, str | None],
        place: dict[str, Any],
    ) -> None:
        identity, time, node = sample
        if node not in nodes:
            return
        if node not in keys:
            keys[node] = self._stacks.key(_stack(node, nodes))
        lasts: dict[str, Any] = (
            {"value": 1000.0 * (until - time), "unit": "ns"} if until is not None and until >= time else {}
        )
        args = {"stack": keys[node]}
        self._rows.event("sample", nodes[node].name, id=identity, ts=1000 * time, args=args, **lasts, **place)
        self._report.used()


def _read_nodes(value: Any, nodes: dict[Any, _Node]) -> None:
    """Adds nodes. A child is named by its parent, or names it."""
    listed = [node for node in value if isinstance(node, dict)] if isinstance(value, list) else []
    parents: dict[int, Any] = {}
    for node in listed:
        if isinstance(children := node.get("children"), list):
            parents.update((child, node.get("id")) for child in children if type(child) is int)
    for node in listed:
        number, frame = node.get("id"), node.get("callFrame")
        if type(number) is int:
            frame = frame if isinstance(frame, dict) else {}
            name = frame.get("functionName")
            name = name if isinstance(name, str) and name else _ANONYMOUS
            line = frame.get("lineNumber")
            text = frame_text(name, frame.get("url"), line + 1 if type(line) is int and line >= 0 else None)
            nodes[number] = _Node(name, text, node.get("parent", parents.get(number)))


def _stack(node: Any, nodes: dict[Any, _Node]) -> tuple[str, ...]:
    """The frames down to a node, without the root that all have."""
    frames: list[str] = []
    seen = set()
    while type(node) is int and node in nodes and node not in seen:
        seen.add(node)
        frames.append(nodes[node].text)
        node = nodes[node].parent
    if len(frames) > 1 and frames[-1] == "(root)":
        frames.pop()
    return tuple(reversed(frames))
