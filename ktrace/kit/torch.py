"""What PyTorch's dumps share, memory snapshots and the flight recorder: pickles of plain values, and stacks.

    80 02 }q\\x00(X\\x07...entries]q\\x01(...     PROTO 2, EMPTY_DICT, BINPUT 0, MARK, BINUNICODE, ...

Python's own `pickle` can run any code that a file names. This interpreter knows the opcodes of plain values (dicts,
lists, tuples, texts, bytes, numbers, None; Python's pickletools describes them) and refuses all others, such as GLOBAL,
REDUCE and BUILD, with the place in the file. It has no recursion, and the memory that values take is bounded.

Stacks are lists of dicts of name, filename, line, the innermost frame first; each distinct one becomes a fact of the
catalog. What a reader doesn't know of the members of a dump is noted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, BinaryIO, NamedTuple

from ktrace.errors import DamagedInput
from ktrace.kit import stacks
from ktrace.model.fitting import shown
from ktrace.model.row_builder import RowBuilder
from ktrace.naming.frames import owner_of
from ktrace.report import Report

#: Greatest number of bytes that values may take, as estimated from their number and length.
MOST_MEMORY = 1 << 30

#: About how many bytes a value takes, without its own content.
_VALUE, _CONTAINER = 32, 160

_BLOCK = 1 << 20
_LARGEST_TEXT = 64 << 20
_LONGEST_INT = 16

#: Kinds of keys of dicts: others aren't needed, and a nested tuple might be too deep to be compared.
_KEYS = (str, int, float, bool, bytes, type(None))

#: Opcodes that call or import something, by name for the message.
_REFUSED = {
    b"c": "GLOBAL", b"\x93": "STACK_GLOBAL", b"R": "REDUCE", b"b": "BUILD", b"i": "INST", b"o": "OBJ",
    b"\x81": "NEWOBJ", b"\x92": "NEWOBJ_EX", b"P": "PERSID", b"Q": "BINPERSID",
    b"\x82": "EXT1", b"\x83": "EXT2", b"\x84": "EXT4",
}  # fmt: skip

#: Opcode -> the value that it stands for.
_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False}
_EMPTY: dict[bytes, Callable[[], Any]] = {b"}": dict, b"]": list, b")": tuple}

#: Opcode -> layout of a number.
_NUMBERS = {b"K": "<B", b"M": "<H", b"J": "<i", b"G": ">d"}

#: Opcode -> layout of the length of a text or of bytes.
_TEXTS = {b"\x8c": "<B", b"X": "<I", b"\x8d": "<Q"}
_BYTES = {b"C": "<B", b"B": "<I", b"\x8e": "<Q", b"U": "<B", b"T": "<i"}
_LONGS = {b"\x8a": "<B", b"\x8b": "<i"}
_GETS = {b"h": "<B", b"j": "<I"}
_PUTS = {b"q": "<B", b"r": "<I"}
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}

#: Begins of pickles: PROTO 2 to 5.
BEGIN = tuple(bytes((0x80, version)) for version in range(2, 6))


#: The longest list of an argument, the deepest one, the most characters of all it has, and those of a number, about.
_LONGEST_LIST, _DEEPEST, _TEXT, _NUMBER = 64, 3, 4096, 8


def is_small(value: Any) -> bool:
    """Whether a value can be an argument of a row: a number, a short text, or a short list of such values.

    The lists of a pickle may be within others many times.
    """
    return _size_of(value, _DEEPEST) <= _TEXT


def _size_of(value: Any, depth: int) -> int:
    """About how many characters a value has as text; more than there may be if it has what isn't small."""
    kind = type(value)
    if kind is str:
        return len(value)
    if kind in (list, tuple) and depth and len(value) <= _LONGEST_LIST:
        size = 0
        for one in value:
            size += _size_of(one, depth - 1)
            if size > _TEXT:
                break
        return size
    return _NUMBER if kind in (bool, float) or (kind is int and -(1 << 63) <= value < 1 << 64) else _TEXT + 1


class _Cut(Exception):
    """Raised where the file ends."""


class Plain(NamedTuple):
    """The value, and whether the file ends before it is complete. Then the value has what precedes the end."""

    value: Any
    is_cut: bool


def read_pickle(
    stream: BinaryIO,
    path: str,
    remedy: str,
    appended: Callable[[list[Any]], list[Any]] | None = None,
) -> Plain:
    """Reads the value of a pickle. `appended` may replace values that are appended to a list, and empty them.

    Raises DamagedInput, with `remedy`, for other opcodes, wrong data, and values that need too much memory.
    """
    machine = _Machine(_Reader(stream), appended)
    try:
        try:
            return Plain(machine.run(), False)
        except _Cut:
            return Plain(machine.close(), True)
    except (ValueError, TypeError, IndexError, KeyError, struct.error, OverflowError) as error:
        where = f"byte {machine.at}"
        problem = str(error) or type(error).__name__
        raise DamagedInput(
            f"isn't a pickle of plain values: {problem}",
            path=path,
            where=where,
            expected="dicts, lists, texts and numbers",
            remedy=remedy,
        ) from None


class _Reader:
    """Reads a stream in blocks. `pos` is the position in it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._block = b""
        self._next = 0
        self._before = 0

    @property
    def pos(self) -> int:
        return self._before + self._next

    def take(self, size: int) -> bytes:
        """The next bytes. Raises _Cut where there are fewer."""
        end = self._next + size
        if end > len(self._block):
            rest = self._block[self._next :]
            pieces, missing = [rest], size - len(rest)
            while missing > 0:
                more = self._stream.read(max(missing, _BLOCK))
                if not more:
                    raise _Cut
                pieces.append(more)
                missing -= len(more)
            self._before += self._next
            self._block, self._next = b"".join(pieces), 0
            end = size
        data = self._block[self._next : end]
        self._next = end
        return data


class _Machine:
    """The stack machine. A mark opens a new stack; the stacks below it wait in `_below`."""

    def __init__(self, reader: _Reader, appended: Callable[[list[Any]], list[Any]] | None) -> None:
        self._take = reader.take
        self._reader = reader
        self._appended = appended
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._used = 0
        self.at = 0

    def run(self) -> Any:
        """Runs to the end of the pickle, and returns its value."""
        take, push, stack_of = self._take, self._push, self._below
        while True:
            self.at = self._reader.pos
            op = take(1)
            if op in _PUTS:
                self._memo[self._number(_PUTS[op])] = self._stack[-1]
            elif op == b"\x94":
                self._memo[len(self._memo)] = self._stack[-1]
            elif op in _GETS:
                self._use(8)
                self._stack.append(self._memo[self._number(_GETS[op])])
            elif op in _TEXTS:
                push(self._content(_TEXTS[op]).decode("utf-8", "surrogatepass"))
            elif op in _NUMBERS:
                push(self._number(_NUMBERS[op]))
            elif op == b"(":
                self._use(_CONTAINER)
                stack_of.append(self._stack)
                self._stack = []
            elif op in _EMPTY:
                self._use(_CONTAINER)
                self._stack.append(_EMPTY[op]())
            elif op in _CONSTANTS:
                self._stack.append(_CONSTANTS[op])
            elif op in _LONGS:
                push(int.from_bytes(self._content(_LONGS[op], _LONGEST_INT), "little", signed=True))
            elif op in _BYTES:
                push(self._content(_BYTES[op]))
            elif op == b"\x80":
                if not 0 <= take(1)[0] <= 5:
                    raise ValueError("its version isn't known")
            elif op == b"\x95":
                take(8)
            elif op == b".":
                return self._stack.pop()
            else:
                self._build(op)

    def _build(self, op: bytes) -> None:
        """Builds containers."""
        if op == b"u":
            self._set(self._marked())
        elif op == b"e":
            self._extend(self._marked())
        elif op == b"s":
            value, key = self._stack.pop(), self._stack.pop()
            self._set([key, value])
        elif op == b"a":
            self._extend([self._stack.pop()])
        elif op in _TUPLES:
            size = _TUPLES[op]
            if len(self._stack) < size:
                raise ValueError("a tuple without values")
            self._stack[-size:] = [tuple(self._stack[-size:])]
            self._use(_CONTAINER)
        elif op in (b"t", b"l"):
            items = self._marked()
            self._stack.append(tuple(items) if op == b"t" else items)
        elif op == b"d":
            items = self._marked()
            self._stack.append({})
            self._set(items)
        elif op in _REFUSED:
            raise ValueError(f"{_REFUSED[op]} would import or call something, which ktrace never does")
        else:
            raise ValueError(f"opcode {op!r} isn't one of plain values")

    def close(self) -> Any:
        """The value as far as it is known where the file ends: open lists and dicts get what was read for them."""
        while self._below:
            items, self._stack = self._stack, self._below.pop()
            container = self._stack[-1] if self._stack else None
            if type(container) is list:
                self._extend(items)
            elif type(container) is dict:
                while len(items) % 2 and len(items) > 1 and type(items[-2]) is list:  # not yet appended to it
                    items[-2].append(items.pop())
                self._set(items[: len(items) // 2 * 2])
        return self._stack[0] if self._stack else None

    def _use(self, size: int) -> None:
        self._used += size
        if self._used > MOST_MEMORY:
            raise ValueError(f"its values need more than {MOST_MEMORY >> 20:,} MiB of memory")

    def _push(self, value: Any) -> None:
        self._use(_VALUE)
        self._stack.append(value)

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _content(self, layout: str, most: int = _LARGEST_TEXT) -> bytes:
        size = self._number(layout)
        if not 0 <= size <= most:
            raise ValueError(f"a value of {size:,} bytes")
        self._use(size)
        return self._take(size)

    def _marked(self) -> list[Any]:
        """The values since the last mark."""
        if not self._below:
            raise ValueError("the end of a list without its start")
        items, self._stack = self._stack, self._below.pop()
        return items

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise ValueError("values for a list that isn't there")
        self._use(8 * len(items))
        target.extend(items if self._appended is None else self._appended(items))

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise ValueError("values for a dict that isn't there")
        self._use(40 * len(items))
        for place in range(0, len(items), 2):
            if type(items[place]) not in _KEYS:
                raise ValueError(f"a key that is a {type(items[place]).__name__}")
            target[items[place]] = items[place + 1]


#: Frames of a stack that are kept, the innermost ones.
_MOST_FRAMES = 128


class Stacks:
    """Gives each distinct stack a key, and adds its fact."""

    def __init__(self, rows: RowBuilder) -> None:
        self._facts = stacks.Stacks(rows)
        self._by_list: dict[int, tuple[Any, str | None]] = {}
        self._texts: dict[str, str] = {}  # one for all stacks with such a frame

    def key(self, frames: Any) -> str | None:
        """The key of a list of frames, the innermost first; None if it has none."""
        if not frames or type(frames) not in (list, tuple):
            return None
        entry = self._by_list.get(id(frames))
        if entry is None:
            texts = map(_text, reversed(frames[:_MOST_FRAMES]))
            key = self._facts.key(tuple(self._texts.setdefault(text, text) for text in texts))
            entry = self._by_list[id(frames)] = frames, key  # keeps the list, so that no other gets its id
        return entry[1]

    def name(self, frames: Any) -> str:
        """The frame that stands for the stack; '' where none can."""
        return owner_of(
            [_text(frame) for frame in frames[_MOST_FRAMES - 1 :: -1]] if type(frames) in (list, tuple) else []
        )


def _text(frame: Any) -> str:
    """A frame as text: forward (model.py:7)."""
    if type(frame) is not dict:
        return "?"
    name, file, line = frame.get("name"), frame.get("filename"), frame.get("line")
    name = name if type(name) is str and name else "?"
    return stacks.frame_text(name, file if type(line) is int else None, line)[:1000]


def note_unknown_members(dump: dict[Any, Any], names: AbstractSet[str], report: Report) -> None:
    """Notes each member that isn't known: it was parsed with the rest, and no row comes from it."""
    for key in dump:
        if key not in names:
            report.issue("unknown-field", "top level", shown(key))
