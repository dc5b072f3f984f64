"""What the host did: operators, ranges and calls, by thread; and who waits for whom.

thread 4242    [ ProfilerStep#3                      ]      range
                  [ aten::mm                ]               op
                     [ cudaLaunchKernel ]                   api

`Waits` are synchronisations, and arrows from what is waited for to what waits:

api   cudaEventRecord        correlation 32                                 ─┐ wait, key "32"
sync  Stream Wait Event      stream 24, correlation 1389, on_stream 20     ◄─┘
op    aten::linear           thread 4242                                    ─┐ fwdbwd, key "43"
op    AddmmBackward0         thread 4300                                   ◄─┘

`generic` is a span's name without what differs from one occurrence to the next:

    aten::mm, op_id = 314286, seq = 12         aten::mm
    ProfilerStep#7                             ProfilerStep#N
    cudaMemcpyAsync_v3020                      cudaMemcpyAsync
    <built-in function f at 0x7f01>            <built-in function f>

PyTorch's emit_nvtx appends `, seq = N, op_id = N, sizes = [...], input_op_ids = [...]` to texts of NVTX ranges;
layer-wise markers of TensorRT-LLM and vLLM are dictionaries of Python, {'Module': 'model.layers.0', ...}.

Finds the call from which an arrow leads to a piece of work, and the range around a call.

thread 4242    [ ProfilerStep#3                          ]
                  [ layers.9        ]
                    [ launch, correlation 71 ]
stream 7                               [ gemm, correlation 71 ]     of step 3 and layers.9
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.work.stored_columns import StoredColumns, StoredRows, source_of
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.json_text import decoded, encoded
from ktrace.model.masks import truth, words_in
from ktrace.naming.short_names import without_release
from ktrace.stages.order.nesting import enclosing
from ktrace.stages.select.wanted import step_of
from ktrace.store import Spill
from ktrace.store.events import values
from ktrace.store.joins import Moments
from ktrace.store.vocabulary import RowKeys

#: The kinds of spans; `kind` is an index of it.
KINDS = ("api", "op", "range")


class Spans:
    """The slices of threads of the host.

    `of(source)` has the columns ts, dur (-1 without an end), id, correlation (0: none), `thread`, an index of
    `threads`, `name`, an index of `names`, and `kind`, an index of KINDS.
    """

    def __init__(self, spill: Spill, threads: RowKeys, *, shapes: bool = False, lines: bool = False) -> None:
        """`shapes` adds those of operators' inputs to their names, as emit_nvtx does: `aten::mm, sizes = ...`.

        `lines` adds the line of code that an operator states: `triton_poi_fused_add_0, line = model.py:42 forward`.
        """
        self._threads, self._has_shapes, self._has_lines = threads, shapes, lines
        self._numbers: dict[str, int] = {}
        self._named: dict[Callable[[str], object], Bools] = {}
        self._by_name: dict[Callable[[str], str], tuple[Int64, list[str]]] = {}
        #: The different names, by number.
        self.names: list[str] = []
        #: The kinds that there are.
        self.kinds: set[str] = set()
        self._rows = StoredColumns(
            spill, "spans", ts="i8", dur="i8", id="i8", correlation="i8", thread="i4", name="i4", kind="i1"
        )

    def __len__(self) -> int:
        return len(self._rows)

    def named(self, test: Callable[[str], object]) -> Bools:
        """Of which names something is true; the last value is that of no name, -1. Computed once for all sources."""
        is_named = self._named.get(test)
        if is_named is None or len(is_named) <= len(self.names):
            is_named = self._named[test] = np.array([*(bool(test(name)) for name in self.names), False], np.bool_)
        return is_named

    def by_name(self, word: Callable[[str], str]) -> tuple[Int64, list[str]]:
        """A number for each name, and the words with these numbers. The last one, of no name, is that of no word.

        Computed once for all sources.
        """
        numbered = self._by_name.get(word)
        if numbered is None or len(numbered[0]) <= len(self.names):
            words: dict[str, int] = {}
            numbers = [words.setdefault(word(name), len(words)) for name in self.names]
            numbered = self._by_name[word] = np.array([*numbers, len(words)], np.int64), list(words)
        return numbered

    @property
    def sources(self) -> list[str]:
        """The sources that have spans."""
        return self._rows.sources

    def for_source(self, source: str) -> dict[str, Any]:
        """The spans of a source, as columns."""
        return self._rows.for_source(source)

    def add(self, batch: Batch, ts: Int64, dur: Int64, correlation: Int64) -> None:
        """Adds the spans among the events of one source; the columns are those of the whole batch."""
        kind = np.full(len(batch), -1, np.int8)
        for number, word in enumerate(KINDS):
            kind[words_in(batch.column("kind"), (word,))] = number
        for place in ("device", "stream"):
            if batch.has(place):
                kind[truth(batch.column(place).is_valid())] = -1
        rows = np.flatnonzero(kind >= 0)
        if not len(rows):
            return
        self.kinds |= {KINDS[number] for number in np.flatnonzero(np.bincount(kind[rows]))}
        self._rows.add(
            source_of(batch),
            ts=ts[rows],
            dur=dur[rows],
            id=batch.column("id").to_numpy()[rows],
            correlation=correlation[rows],
            thread=self._threads.number(batch, rows),
            name=self._names_of(batch, rows),
            kind=kind[rows],
        )

    def _names_of(self, batch: Batch, rows: Int64) -> Int32:
        """Name id of each row."""
        words = encoded(batch.column("name").take(pa.array(rows)))
        if self._has_shapes:
            words = encoded(_with_shapes(batch, words, rows))
        if self._has_lines:
            words = encoded(_with_lines(batch, words, rows))
        codes = words.indices.to_numpy(zero_copy_only=False)
        used = np.flatnonzero(np.bincount(codes, minlength=len(words.dictionary)))
        number = np.zeros(len(words.dictionary), np.int32)
        numbers = self._numbers
        texts = words.dictionary.take(pa.array(used)).to_pylist()
        number[used] = [numbers.setdefault(text, len(numbers)) for text in texts]
        self.names += islice(numbers, len(self.names), None)
        name_ids: Int32 = number[codes]
        return name_ids


#: The shapes of an operator's inputs in the text of its arguments.
_DIMS = r'"Input [Dd]ims":\s*(?P<dims>\[[\[\]0-9,\s]*\])'


def _with_shapes(batch: Batch, names: pa.DictionaryArray, rows: Int64) -> pa.Array:
    """The names of some rows, those of operators with the shapes of their inputs."""
    at = pa.array(rows)
    typed = next((key for key in ("args.Input Dims", "args.Input dims") if batch.has(key)), None)
    if typed is not None:
        dims = decoded(batch.column(typed).take(at)).cast(pa.string())
    elif batch.has("args"):
        texts = decoded(batch.column("args").take(at)).cast(pa.string())
        dims = pc.struct_field(pc.extract_regex(texts, _DIMS), "dims")
    else:
        return names
    shaped = pc.binary_join_element_wise(decoded(names), pc.replace_substring_regex(dims, r"\s+", ""), _SIZES)
    return pc.coalesce(shaped, decoded(names))


#: What states the line of an operator: torch.fx's and Inductor's stack, else the file of the kernel's source.
_STACK, _FILE = "stack_trace", "kernel_file"

#: What stands before a line in a name.
LINE = "line"
_LINE = f", {LINE} = "

#: A frame in a stack, and one as the name of a range: of Kineto (file.py(12): f) and of JAX ($file.py:12 f).
_IN_STACK = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>\S+))?')
_AS_NAME = re.compile(r"\$?(?P<file>[^(:]*\.pyx?)(?:\((?P<line>\d+)\):|:(?P<at>\d+)) (?P<name>.+)")

#: Files of libraries, by a part of their path; frames of Python's own are known by their module.
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|^<|^(?:torch|torchvision|jax|jaxlib|numpy|triton)/")


def _with_lines(batch: Batch, names: pa.DictionaryArray, rows: Int64) -> pa.Array:
    """The names of some rows, with the line of code that they state."""
    at = pa.array(rows)
    stated = pc.coalesce(batch.argument(_STACK, at), batch.argument(_FILE, at))
    if stated.null_count == len(rows):
        return names
    different = encoded(stated)
    lines = pa.array([_stated_line(text) for text in different.dictionary.to_pylist()], pa.string())
    lined = pc.binary_join_element_wise(decoded(names), lines.take(different.indices), _LINE)
    return pc.coalesce(lined, decoded(names))


def _stated_line(text: str) -> str:
    """The innermost frame of a stack outside of libraries; a text that isn't a stack as it is."""
    frames = [match for match in _IN_STACK.finditer(text) if not _is_library(match["file"])]
    if frames:
        last = frames[-1]
        return f"{last['file']}:{last['line']} {last['name'] or ''}".strip()
    return " ".join(text.split())


def _is_library(file: str) -> bool:
    """Whether a file is one of Python or of a framework, not of the program."""
    return bool(_LIBRARY.search(file)) or file.split("/", maxsplit=1)[0].removesuffix(".py") in sys.stdlib_module_names


def line_of(name: str) -> str:
    """The line of code of the program that a span is, or states; "" where there is none."""
    _, separator, line = name.rpartition(_LINE)
    if separator:
        return line
    frame = _AS_NAME.fullmatch(name)
    if frame is None or _is_library(frame["file"]):
        return ""
    return f"{frame['file']}:{frame['line'] or frame['at']} {frame['name']}"


#: The argument with the shapes, and what stands before them in a name.
SIZES = "sizes"
_SIZES = f", {SIZES} = "


def with_sizes(name: str, dims: str) -> str:
    """The name of an operator with the shapes of its inputs, JSON text, as its name in `Spans`."""
    return f"{name}{_SIZES}{''.join(dims.split())}"


def shaped(name: str) -> str:
    """The name of an operator with the shapes of its inputs alone: aten::mm [8x4, 4x2]."""
    before, separator, rest = name.partition(_SIZES)
    sizes = _LIST.findall(rest.partition("]]")[0] + "]]") if separator else []
    shapes = ", ".join(re.sub(r", ?", "x", one) for one in sizes)
    return f"{grouped(before)[0]} [{shapes}]" if shapes else grouped(before)[0]


#: A list of numbers in a list of shapes.
_LIST = re.compile(r"\[([0-9]+(?:, ?[0-9]+)*)\]")

#: The start of a list of arguments at the end of a name.
_ARGUMENTS = re.compile(r",\s?(?P<key>[A-Za-z_]\w*)\s?=")

#: A marker that is a dictionary with the path of a module.
_MARKER = re.compile(r"\{'Module': '(?P<path>[^']+)'")
MARKER = "Module"

#: How Kineto writes modules (with_modules, with_stack).
MODULE = "nn.Module: "

_DIGITS = re.compile(r"[0-9]+")

#: The address in the name of a function of Python.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>)")


def generic(name: str) -> str:
    """The name of a span without arguments, addresses, the number of a step and the release of a call of CUDA."""
    if step_of(name) is not None:
        return _DIGITS.sub("N", name.strip())
    return name if name.startswith(MODULE) else without_release(_ADDRESS.sub("", grouped(name)[0]))


def grouped(name: str) -> tuple[str, str]:
    """The name without arguments, and what was left out: the first key, "Module" for a marker, "" for nothing."""
    if name.startswith(MODULE):
        return name.removeprefix(MODULE), MODULE
    if name.startswith("{") and (marker := _MARKER.match(name)):
        return marker["path"], MARKER
    arguments = _ARGUMENTS.search(name) if "=" in name else None
    if arguments and arguments.start() and _closed(name[: arguments.start()]):
        return name[: arguments.start()], arguments["key"]
    return name, ""


def _closed(text: str) -> bool:
    """Whether no bracket is open at the end of the text, so that a comma after it isn't in a list."""
    return all(text.count(opens) <= text.count(closes) for opens, closes in ("()", "[]", "{}"))


#: The kinds of arrows that are kept.
LINKS = ("wait", "event", "fwdbwd")

#: The columns of arrows that are kept.
_LINK_COLUMNS = ("link", "key", "role", "event", "host", "pid", "tid", "device", "stream", "ts")

#: The argument with the stream of the event that a synchronisation waits for (libkineto, CuptiActivity.cpp).
_ON_STREAM = "wait_on_stream"

#: An unknown stream.
NO_NUMBER = -1


class Waits:
    """Synchronisations on devices, and arrows of waits and from forward to backward operators.

    `of(source)` has the columns ts, dur (0 without an end), id, correlation (0: none), `shape`, an index of `shapes`:
    track and name, and `on_stream`, the stream of the event that is waited for.
    """

    def __init__(self, spill: Spill) -> None:
        self._shapes = RowKeys((*TRACK_COLUMNS, "name"))
        self._links = StoredRows(spill, "waits.links")
        self._rows = StoredColumns(
            spill, "waits", ts="i8", dur="i8", id="i8", correlation="i8", on_stream="i8", shape="i4"
        )

    @property
    def sources(self) -> list[str]:
        """The sources that have synchronisations."""
        return self._rows.sources

    @property
    def shapes(self) -> list[dict[str, Any]]:
        """The track and the name of synchronisations, by number."""
        return self._shapes.all()

    def for_source(self, source: str) -> dict[str, Any]:
        """The synchronisations of a source, as columns."""
        return self._rows.for_source(source)

    def links(self, source: str) -> Iterator[pa.RecordBatch]:
        """The arrows of a source: link, key, role, event and the place, as far as the source has them."""
        return self._links.for_source(source)

    def add(self, batch: Batch) -> None:
        """Adds the synchronisations, or the arrows, of a batch of one source."""
        if batch.record == "links":
            is_wait = words_in(batch.column("link"), LINKS)
            if is_wait.any():
                there = [name for name in _LINK_COLUMNS if batch.has(name)]
                self._links.add(source_of(batch), batch.columns.select(there).filter(pa.array(is_wait)))
            return
        rows = np.flatnonzero(words_in(batch.column("kind"), ("sync",)))
        if len(rows):
            dur, has_end = values(batch.columns, "dur")
            correlation, _ = values(batch.columns, "correlation")
            self._rows.add(
                source_of(batch),
                ts=batch.column("ts").to_numpy()[rows],
                dur=np.where(has_end & (dur > 0), dur, 0)[rows],
                id=batch.column("id").to_numpy()[rows],
                correlation=correlation[rows],
                on_stream=_on_stream(batch, rows),
                shape=self._shapes.number(batch, rows),
            )


def _on_stream(batch: Batch, rows: Int64) -> Int64:
    """The stream of the event that each row waits for, NO_NUMBER where it isn't a number."""
    stream = batch.argument(_ON_STREAM, pa.array(rows))
    stream = pc.if_else(pc.match_substring_regex(stream, r"^[0-9]{1,9}$"), stream, None)
    streams: Int64 = pc.fill_null(stream.cast(pa.int64()), NO_NUMBER).to_numpy(zero_copy_only=False)
    return streams


class Ranges:
    """Ranges on tracks, to find the innermost one around a time. A range includes its start, but not its end."""

    def __init__(self, track: Int32, begin: Int64, end: Int64) -> None:
        # Between two bounds of ranges the answer doesn't change, so it is computed only at the bounds.
        on, at = np.concatenate([track, track]), np.concatenate([begin, end])
        inside = innermost(np.concatenate([track, on]), np.concatenate([begin, at]), np.append(end, at))
        self.track, self._inside, self._bounds = track, inside[len(begin) :], Moments(on, at)

    def around(self, track: Int32, at: Int64) -> Int64:
        """The index of the innermost range around each time on a track, -1 where there is none."""
        if not len(self.track):
            return np.full(len(at), -1, np.int64)
        last = self._bounds.last(track, at)
        return np.where(last >= 0, self._inside[last], -1)


def innermost(track: Int32, begin: Int64, end: Int64) -> Int64:
    """The index of the innermost slice around each slice on its track, -1 where there is none."""
    order = np.lexsort((-end, begin, track))
    outer = enclosing(track[order], begin[order], end[order])
    outer_of = np.full(len(track), -1, np.int64)
    outer_of[order] = np.where(outer >= 0, order[outer], -1)
    return outer_of
