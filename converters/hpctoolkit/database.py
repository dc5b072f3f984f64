"""A file of a database, of which every place is checked before it is read; and what `meta.db` says.

A context is a node of the tree of calling contexts. Those that are functions, loops or called become frames of a stack;
lines and instructions within them say where in the frame it goes on:

    main thread                                  an entry point
      function main                              main (pong.c:31)
        line pong.c:31
          [call] function MPI_Send               MPI_Send
            loop at send.c:12                    loop at send.c:12 (send.c:14)
              line send.c:14
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ktrace.errors import DamagedInput
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.kit.stacks import bytes_of, frame_text
from ktrace.model.arrays import AnyArray, Bools, Int64, Structured

from . import MAGIC

#: The longest text, and how many times its size the texts of a file may be: they may lie within each other.
_LONGEST, _TIMES = 1 << 16, 4

#: The most frames of a stack; of a deeper one the innermost.
_DEEPEST = 1_000

#: Rows further within others aren't drawn within them.
DEEPEST = 256

_FUNCTION, _LOOP = 0, 1

#: How many metrics can have a number of their own.
_METRICS = 1 << 16


class Database:
    """One file of a database. Raises DamagedInput for a place that isn't in it."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, file: Source, content: str) -> None:
        self._read, self.size, self._file = read, size, file
        magic, kind, major, minor = self.fields("10s4sBB", 0)
        self.version = f"{major}.{minor}"
        if magic != MAGIC or kind != content.encode():
            raise self.damaged("isn't a file of HPCToolkit", 0, f"'{MAGIC.decode()}{content}' at its start")
        if major != 4:
            raise self.damaged(f"has the version {self.version}", 14, "version 4")

    def damaged(self, what: str, at: int, expected: str | None = None) -> DamagedInput:
        """The error for what is wrong at a place."""
        return DamagedInput(
            what, path=self._file.path, where=f"byte {at}", expected=expected, remedy="run hpcprof again"
        )

    def bytes(self, at: int, size: int) -> bytes:
        """The bytes at a place."""
        if at < 0 or size < 0 or at + size > self.size:
            raise self.damaged(f"refers to {size:,} bytes that it doesn't have", at, f"at most {self.size:,} bytes")
        return self._read(at, size)

    def fields(self, layout: str, at: int) -> tuple[Any, ...]:
        """The numbers at a place."""
        return struct.unpack(f"<{layout}", self.bytes(at, struct.calcsize(f"<{layout}")))

    def section(self, number: int) -> int:
        """Where a section begins, counted from 0."""
        return int(self.fields("Q", 0x18 + 0x10 * number)[0])

    def places(self, at: int, count: int, size: int, least: int) -> range:
        """The places of the items of an array, of which each has the size that the file says, at `least` that much."""
        if count and size < least:
            raise self.damaged(f"has items of {size} bytes", at, f"at least {least}")
        self.bytes(at, 0)
        if at + count * size > self.size:
            raise self.damaged(f"refers to {count:,} items that it doesn't have", at, f"at most {self.size:,} bytes")
        return range(at, at + count * size, size or 1)

    def array(self, at: int, count: int, kind: Any) -> Structured:
        """The rows at a place."""
        return np.frombuffer(self.bytes(at, count * np.dtype(kind).itemsize), kind)


@contextmanager
def opened(file: Source, content: str) -> Iterator[Database]:
    """Opens a file of which pieces are read."""
    with file.local_path() as path, path.open("rb") as stream:

        def read(at: int, size: int) -> bytes:
            stream.seek(at)
            return stream.read(size)

        yield Database(read, path.stat().st_size, file, content)


class Metric(NamedTuple):
    """A metric in a propagation scope: which contexts' values are in a value. `kind` is 1 for the context alone."""

    name: str
    scope: str
    kind: int


class _Context(NamedTuple):
    """What a context is: the name of a frame, '' for a place in the one around it; file and line, '' if unknown."""

    name: str
    file: str = ""
    line: int | None = None
    is_loop: bool = False


class Stack(NamedTuple):
    """The frames of a context as text, outermost first, and their bytes; the names of those that aren't loops."""

    frames: list[str]
    names: list[str]
    size: int


def stack_of(frames: list[str], names: list[str]) -> Stack:
    """A stack, measured."""
    return Stack(frames, names, bytes_of(frames))


@dataclass(frozen=True)
class Tree:
    """The contexts, sorted, and where in this order the one around each is. The first is the implicit one of all."""

    contexts: Int64
    around: Int64

    @cached_property
    def depths(self) -> Int64:
        """In how many others each context is, up to DEEPEST."""
        depth, outer = np.zeros(len(self.around), np.int64), self.around
        for _ in range(DEEPEST):
            if not outer.any():
                break
            depth += outer != 0
            outer = self.around[outer]
        return depth

    def nodes(self, contexts: AnyArray) -> tuple[Int64, Bools]:
        """Where in the order contexts are, and which of them the tree has."""
        positions = np.minimum(np.searchsorted(self.contexts, contexts), len(self.contexts) - 1)
        return positions, self.contexts[positions] == contexts


class Meta:
    """What `meta.db` says. Contexts are decoded when they are asked for."""

    def __init__(self, file: Source) -> None:
        with file.open() as stream:
            self._bytes = current().whole(stream, file.path)
        self._data = data = Database(lambda at, size: self._bytes[at : at + size], len(self._bytes), file, "meta")
        self._texts: dict[int, str] = {}
        self._decoded = 0
        self.version = data.version
        self.title = self._text(data.fields("Q", data.section(0))[0])
        names, kinds = data.fields("QB", data.section(1))
        self.kinds = [self._text(data.fields("Q", at)[0]) for at in data.places(names, kinds, 8, 8)]
        self.metrics = dict(self._metrics())
        self._entries: dict[int, str] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._known: dict[int, _Context] = {}
        self._frames: dict[str, str] = {}  # one text for all stacks with such a frame
        self._walk()

    def _text(self, at: int) -> str:
        """The text at a place, up to its zero."""
        text = self._texts.get(at)
        if text is None:
            end = self._bytes.find(b"\0", at, at + _LONGEST)
            if at >= len(self._bytes) or end < 0:
                raise self._data.damaged("has an unterminated string", at, f"a zero within {_LONGEST:,} bytes")
            self._decoded += end - at
            if self._decoded > _TIMES * len(self._bytes):
                raise self._data.damaged("has texts that overlap", at, "texts that don't overlap")
            text = self._texts[at] = self._bytes[at:end].decode("utf-8", "replace")
        return text

    def _metrics(self) -> Iterator[tuple[int, Metric]]:
        data = self._data
        metrics, count, size, instance, _, _, scopes, scope_count, scope_size = data.fields(
            "QIBBBBQHB", data.section(2)
        )
        names_and_kinds: dict[int, tuple[str, int]] = {}
        for at in data.places(scopes, scope_count, scope_size, 9):
            name, kind = data.fields("QB", at)
            names_and_kinds[at] = self._text(name), kind
        total = 0
        for at in data.places(metrics, count, size, 26):
            name, instances, _, instance_count = data.fields("QQQH", at)
            total += instance_count
            if total > _METRICS:
                raise data.damaged("has more metrics than there are numbers for them", at, f"at most {_METRICS:,}")
            for place in data.places(instances, instance_count, instance, 10):
                scope, number = data.fields("QH", place)
                if scope not in names_and_kinds:
                    raise data.damaged("has a metric in a scope that doesn't exist", place)
                yield number, Metric(self._text(name), *names_and_kinds[scope])

    def _walk(self) -> None:
        """Finds where each context is, and the one around it. An id that comes twice is the first one's."""
        data = self._data
        entries, count, size = data.fields("QHB", data.section(3))
        waiting = []
        for at in data.places(entries, count, size, 32):
            length, children, context, _, name = data.fields("QQIHxxQ", at)
            self._entries.setdefault(context, self._text(name))
            waiting.append((length, children, context))
        seen = 0
        while waiting:
            length, at, parent = waiting.pop()
            data.bytes(at, length)
            seen += length
            if seen > data.size:
                raise data.damaged("has contexts that overlap", at, "contexts that don't overlap")
            end = at + length
            while at < end:
                below, children, context, _, _, _, words, _ = data.fields("QQIBBBBH", at)
                self._places.setdefault(context, (parent, at))
                if children:
                    waiting.append((below, children, context))
                at += 0x20 + 8 * words

    def stack(self, context: int) -> Stack:
        """The frames of a context; that of one that the tree doesn't have is its number."""
        if not self.has(context):
            return stack_of([f"[context {context}]"], [f"[context {context}]"])
        path: list[_Context] = []
        while context in self._places and len(path) < 2 * _DEEPEST:
            context, at = self._places[context]
            path.append(self._context(at))
        frames = [_Context(self._entries[context])] if context in self._entries else []
        for one in reversed(path):
            if one.name or not frames:
                frames.append(one)
            else:
                frames[-1] = frames[-1]._replace(file=one.file, line=one.line)
        frames = frames[-_DEEPEST:]
        names = [one.name for one in frames if not one.is_loop]
        texts = (frame_text(one.name, one.file, one.line) for one in frames)
        return stack_of([self._frames.setdefault(text, text) for text in texts], names or [frames[-1].name])

    @cached_property
    def tree(self) -> Tree:
        """The contexts as columns."""
        parents = {0: 0, **dict.fromkeys(self._entries, 0)} | {one: parent for one, (parent, _) in self._places.items()}
        contexts = np.array(sorted(parents), np.int64)
        return Tree(contexts, np.searchsorted(contexts, [parents[one] for one in contexts.tolist()]))

    def has(self, context: int) -> bool:
        """Whether the tree has a context."""
        return context in self._places or context in self._entries

    def _context(self, at: int) -> _Context:
        entry = self._known.get(at)
        if entry is None:
            entry = self._known[at] = self._context_at(at)
        return entry

    def _context_at(self, at: int) -> _Context:
        flags, relation, kind, words = self._data.fields("BBBB", at + 0x14)
        flex = list(self._data.fields(f"{words}Q", at + 0x20))
        need = bool(flags & 1) + 2 * bool(flags & 2) + 2 * bool(flags & 4)
        if len(flex) < need:
            raise self._data.damaged("has a context without all of its fields", at, f"{need} words")
        name, file, line, point = "", "", None, ""
        if flags & 1:
            name = self._function(flex.pop(0))
        if flags & 2:
            file = self._path(flex.pop(0))
            line = flex.pop(0) & 0xFFFF_FFFF or None
        if flags & 4:
            point = f"{self._path(flex[0])}@{flex[1]:#x}"
        if kind == _LOOP:
            name = f"loop at {file}:{line}" if line else f"loop in {file or point or '?'}"
        elif kind == _FUNCTION:
            name = name or point or "[unknown function]"
        else:
            name = (name or point or f"{file}:{line}") if relation else ""
        return _Context(name, file if line else "", line, kind == _LOOP)

    def _path(self, at: int) -> str:
        """The path of a source file or a load module."""
        return self._text(self._data.fields("Q", at + 8)[0])

    def _function(self, at: int) -> str:
        """The name of a function; of one without a name its place in a module or file."""
        name, module, offset, file, line, _ = self._data.fields("QQQQII", at)
        if name:
            return self._text(name)
        return f"{self._path(module)}@{offset:#x}" if module else f"{self._path(file)}:{line}" if file else ""
