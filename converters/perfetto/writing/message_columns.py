"""The protobuf wire format in columns: the bytes of many messages of one kind, made field by field with numpy.

A `MessageColumns` has a message per row. Each field is a column of machine words (up to eight bytes a row, with a
length each). One scatter per column writes the words to their places, left to right, so that the next field overwrites
the surplus bytes of a word. Texts of any length follow the words; Arrow joins them.

    event = MessageColumns(rows)
    event.varint(int_tag(f.GPU_RENDER_STAGE_EVENT["event_id"]), serials)
    packet = MessageColumns(rows)
    packet.message(bytes_tag(f.TRACE_PACKET["gpu_render_stage_event"]), event)
    packet.rows()              # a LargeBinaryArray

Varints are as short as possible: the bytes equal those of the protobuf library.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int32, Int64, UInt8, UInt64
from ktrace.model.masks import present

#: UInt8 between two rows while they are written: the last word of a row may extend so far.
_GAP = 8

#: Bytes that compiled code may read beyond a piece.
_SURPLUS = 16

#: Length of a varint -> its continuation bits.
_MORE = np.array([0, *(sum(0x80 << 8 * at for at in range(size - 1)) for size in range(1, 9))], np.uint64)

_NOTHING = pa.scalar(b"", pa.large_binary())


class MessageColumns:
    """`count` messages of one kind, as columns. Texts follow all other fields."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._words: list[tuple[UInt64 | np.uint64, UInt8 | int]] = []
        self._texts: list[pa.LargeBinaryArray] = []

    def size(self) -> Int64:
        """The length of each message in bytes."""
        size = self._length()
        for text in self._texts:
            size += lengths(text)
        return size

    def _length(self) -> Int64:
        """The length of each message up to its texts."""
        size, constant = np.zeros(self.count, np.int64), 0
        for _, length in self._words:
            if isinstance(length, int):
                constant += length
            else:
                size += length
        size += constant
        return size

    def constant(self, data: bytes, where: Bools | None = None) -> None:
        """Adds the same bytes to all rows, or to those of `where`."""
        for at in range(0, len(data), 8):
            part = data[at : at + 8]
            self.words(_word(part), _lengths_where(len(part), where))

    def words(self, words: UInt64 | np.uint64, length: UInt8 | int) -> None:
        """Adds the first `length` bytes of little-endian words."""
        if self._texts:
            raise ValueError("a field after a text")
        self._words.append((words, length))

    def varint(self, prefix: bytes, values: UInt64, where: Bools | None = None) -> None:
        """Adds a varint after constant bytes, such as its tag."""
        for word, length in varints(values):
            if prefix:
                size = len(prefix)
                most = length if isinstance(length, int) else int(length.max(initial=0))
                if size + most <= 8:
                    word, length = (word << np.uint64(8 * size)) | _word(prefix), length + size  # noqa: PLW2901
                else:
                    self.constant(prefix, where)
                prefix = b""
            self.words(word, _lengths_where(length, where))

    def number(self, tag: bytes, head: bytes, values: UInt64, where: Bools | None = None) -> None:
        """Adds a short message of constant bytes and a varint: an argument that is a number."""
        parts = varints(values)
        size = sum(length for _, length in parts) + len(head)
        if isinstance(size, int):
            self.constant(tag + bytes((size,)) + head, where)
        else:
            first = np.left_shift(size.astype(np.uint64), np.uint64(8 * len(tag)))
            self._around(first, tag, head, where)
        for word, length in parts:
            self.words(word, _lengths_where(length, where))

    def _around(self, size: UInt64, tag: bytes, head: bytes, where: Bools | None) -> None:
        start = tag + b"\0" + head[: 7 - len(tag)]
        self.words(size | _word(start), _lengths_where(len(start), where))
        self.constant(head[7 - len(tag) :], where)

    def fixed(self, prefix: bytes, values: UInt64, where: Bools | None = None) -> None:
        """Adds eight bytes, of a double or a fixed64, after constant bytes."""
        self.constant(prefix, where)
        self.words(values, _lengths_where(8, where))

    def message(self, tag: bytes, inner: MessageColumns, where: Bools | None = None) -> None:
        """Adds a nested message. Rows outside `where` must be empty in `inner`, too."""
        self.varint(tag, inner.size().view(np.uint64), where)
        self._words += inner._words
        self._texts += inner._texts

    def text(self, texts: pa.LargeBinaryArray) -> None:
        """Adds bytes of any length; null is none."""
        self._texts.append(texts)

    def coded(self, table: Pieces, codes: Int32) -> None:
        """Adds for each row the entry of a table; -1 is none."""
        if table.is_short:
            for words, length in table.words:
                self.words(words[codes], length[codes])
        else:
            self.text(table.texts.take(pa.array(np.where(codes < 0, len(table.texts) - 1, codes))))

    def rows(self) -> pa.LargeBinaryArray:
        """Returns the bytes of each message."""
        bounds = np.empty(2 * self.count + 1, np.int64)
        bounds[0] = 0
        ends = np.cumsum(self._length() + _GAP)
        bounds[2::2] = ends
        bounds[1::2] = ends - _GAP
        buffer = np.empty(int(bounds[-1]) + _GAP, np.uint8)
        anywhere = np.ndarray(len(buffer) - 7, "<u8", buffer, 0, (1,))
        at = bounds[:-1:2].copy()
        for word, part in self._words:
            anywhere[at] = word
            at += part
        gapped = binary_array(bounds, buffer)
        words = gapped.take(pa.array(np.arange(0, 2 * self.count, 2)))
        return join_columns([words, *self._texts])


class Pieces:
    """Pieces of messages, by number. The last one is empty: it is the piece of the code -1.

    Pieces of at most `short` bytes are written as words; longer ones are texts, which come last in a message.
    """

    def __init__(self, pieces: list[bytes], short: int = 8) -> None:
        self._most = max(map(len, pieces), default=0)
        self.is_short = self._most <= short
        self._pieces = [*pieces, b""]

    @cached_property
    def words(self) -> list[tuple[UInt64, UInt8]]:
        """Eight bytes of each piece, and how many of them it has; then the next eight."""
        return [_part(self._pieces, at) for at in range(0, max(self._most, 1), 8)]

    @cached_property
    def texts(self) -> pa.LargeBinaryArray:
        """All pieces."""
        return pa.array(self._pieces, pa.large_binary())

    def joined(self) -> tuple[Int64, bytes]:
        """Where each piece begins and the last one ends, and their bytes, with surplus bytes for compiled code."""
        offsets = np.zeros(len(self._pieces) + 1, np.int64)
        np.cumsum([len(piece) for piece in self._pieces], out=offsets[1:])
        return offsets, b"".join(self._pieces) + bytes(_SURPLUS)


def _part(pieces: list[bytes], at: int) -> tuple[UInt64, UInt8]:
    """Returns eight bytes of each piece, and how many of them it has."""
    parts = [piece[at : at + 8] for piece in pieces]
    words = np.frombuffer(b"".join(part.ljust(8, b"\0") for part in parts), "<u8")
    return words, np.array([len(part) for part in parts], np.uint8)


def varints(values: UInt64) -> list[tuple[UInt64, UInt8 | int]]:
    """Returns varints as words and lengths. A second word follows if some are longer than eight bytes."""
    most = int(values.max(initial=0))
    if most < 128:
        return [(values, 1)]
    if most < 1 << 14:
        two = values >= 128
        return [
            (
                values & np.uint64(127) | (values & np.uint64(0x3F80)) << np.uint64(1) | two * np.uint64(128),
                two + np.uint8(1),
            )
        ]
    length = np.ones(len(values), np.uint8)
    for bits in range(7, min(most.bit_length(), 56), 7):
        length += values >= np.uint64(1 << bits)
    words = _spread(values) | _MORE[length]
    if most < 1 << 56:
        return [(words, length)]
    high = values >> np.uint64(56)
    words[high > 0] |= np.uint64(1 << 63)
    ((more, size),) = varints(high)
    return [(words, length), (more, size * (high > 0).astype(np.uint8))]


def _spread(values: UInt64) -> UInt64:
    """The lower 56 bits, seven in each byte."""
    word = (values & np.uint64(0x000000000FFFFFFF)) | (values & np.uint64(0x00FFFFFFF0000000)) << np.uint64(4)
    word = (word & np.uint64(0x00003FFF00003FFF)) | (word & np.uint64(0x0FFFC0000FFFC000)) << np.uint64(2)
    return (word & np.uint64(0x007F007F007F007F)) | (word & np.uint64(0x3F803F803F803F80)) << np.uint64(1)


def _lengths_where(length: UInt8 | int, where: Bools | None) -> UInt8 | int:
    """The lengths in the rows of `where`, 0 in others."""
    if where is None:
        return length
    return where.view(np.uint8) * (np.uint8(length) if isinstance(length, int) else length)


def _word(data: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(data, "little"))


def binary_array(offsets: Int64, data: UInt8) -> pa.LargeBinaryArray:
    """An Arrow array over offsets and bytes."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def join_columns(parts: list[pa.LargeBinaryArray]) -> pa.LargeBinaryArray:
    """Joins the parts of each row; null is nothing."""
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, _NOTHING, null_handling="replace", null_replacement=b"")


def lengths(texts: pa.LargeBinaryArray) -> Int64:
    """The length of each text; 0 for null."""
    length: Int64 = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    return length


def length_delimited(tag: bytes, texts: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Each text as a field: tag and length, then the text; nothing for null."""
    field = MessageColumns(len(texts))
    valid = None if not texts.null_count else present(texts)
    field.varint(tag, lengths(texts).astype(np.uint64), valid)
    field.text(texts)
    return field.rows()
