"""The cells of some rows as columns: numbers where all cells of a column are numbers, else texts."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.blocks import Block
from ktrace.model.arrays import Bools, Int64

from .elements import Schema
from .values import Values

#: Columns that are numbers whatever their cells are: "0x1f" and "-5" are numbers, another text is null.
NUMBERS = frozenset({"start", "duration", "timestamp", "event-depth", "cmdbuffer-id", "encoder-id", "bytes"})

#: Columns that only say how Instruments draws a row, or repeat others as a sentence.
_DRAWING = frozenset({"color", "event-icon", "encoder-time-label", "show-per-thread"})

_PROCESS = re.compile(r"(?:(.*) )?\(?(\d{1,10})\)?", re.DOTALL)
_OF_THREAD = re.compile(r"pid: (\d{1,10})\)")
_THREAD = re.compile(r"\(?0x([0-9a-fA-F]{1,15})\)?(?= \()")


def block_of(schema: Schema, codes: Int64, first_row: int, values: Values, place: str = "") -> Block:
    """Returns rows as a block. Of two columns with the same mnemonic, the later one has its position in its name."""
    columns: dict[str, pa.Array] = {}
    for index, mnemonic in enumerate(schema.columns):
        if mnemonic in _DRAWING:
            continue
        name = f"{mnemonic or 'column'} {index + 1}" if mnemonic in columns or not mnemonic else mnemonic
        columns[name] = _column(codes[:, index], values, number=mnemonic in NUMBERS)
    numbers = np.arange(first_row, first_row + len(codes))
    return Block(f"{place}{schema.name or 'table'} row", pa.array(numbers), columns)


def _column(codes: Int64, values: Values, *, number: bool) -> pa.Array:
    if number or not (codes < 0).any():
        numbers, absent = values.numbers(codes)
        return pa.array(numbers, mask=absent)
    is_text: Bools = np.not_equal(codes, 0)
    found, first, indices = np.unique(codes[is_text], return_index=True, return_inverse=True)
    order = np.argsort(first)
    texts = [values.text(code) for code in found[order].tolist()]
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    words = np.zeros(len(codes), np.int32)
    words[is_text] = place[indices.reshape(-1)]
    return pa.DictionaryArray.from_arrays(pa.array(words, mask=~is_text), pa.array(texts, pa.string()))


def texts(column: pa.Array | None, rows: int) -> list[str | None]:
    """The texts of a column, None for null."""
    if column is None:
        return [None] * rows
    found: list[str | None] = column.cast(pa.string()).to_pylist()
    return found


def mapped(column: pa.Array | None, rows: int, value: Callable[[str], object], kind: pa.DataType) -> pa.Array:
    """A column with a value for each text; the function is called once for each distinct text."""
    if column is None:
        return pa.nulls(rows, kind)
    coded = column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode()
    results = [None if text is None else value(text) for text in coded.dictionary.to_pylist()]
    return pa.array(results, kind).take(coded.indices)


def process(text: str) -> tuple[str | None, int | None]:
    """Returns the name and the number of a process: 'python (99926)'."""
    found = _PROCESS.fullmatch(text)
    return (found[1], int(found[2])) if found else (text, None)


def thread(text: str) -> int | None:
    """Returns the number of a thread: 'Main Thread (0x11ab5b7) (python, pid: 99926)', 'Main Thread 0x1 (...)'."""
    found = _THREAD.search(text)
    return int(found[1], 16) if found else None


def process_of_thread(text: str) -> int | None:
    """Returns the number of the process in the name of a thread."""
    found = _OF_THREAD.search(text)
    return int(found[1]) if found else None


def process_number(text: str) -> int | None:
    """Returns the number of a process that is alone in its cell."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 else None
