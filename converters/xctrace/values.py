"""The values of a document by their ids, in temporary files: nothing in memory grows with the document.

A value is an int64 code:

    0       none                        n + 1   the number n
    -(k+1)  the text at byte k of the file of texts

Ids are small numbers that rise through the document, so a file of codes, indexed by id, is dense.
"""

from __future__ import annotations

import re
import tempfile
import weakref
from collections.abc import Callable

import numpy as np

from ktrace.model.arrays import Bools, Int64

#: Ids up to this are small; beyond it, those up to the number of bytes that were read.
_FREE_IDS = 1 << 22

#: Texts that are remembered, to store and read each only once; and about how many bytes they may have together.
_REMEMBERED, _HELD = 1 << 15, 64 << 20

_NUMBER = re.compile(rb"0|[1-9]\d{0,18}")
_NONE = b"18446744073709551615"
_LENGTH = 4


class Values:
    """Stores values by id. `read_bytes` is the number of bytes of the document that were read so far.

    `expanded` gets the bytes that references give.
    """

    def __init__(self, expanded: Callable[[int], None]) -> None:
        self._expanded = expanded
        self.read_bytes = 0
        self.bad_texts = 0
        self._codes: Int64 = np.zeros(0, np.int64)
        self._ids = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the values)
        self._texts = tempfile.TemporaryFile()  # noqa: SIM115
        self._end = 0
        self._waiting: list[bytes] = []
        self._held = 0
        self._code_of: dict[bytes, int] = {}
        self._text_of: dict[int, bytes] = {}
        self._named: dict[str, int] = {}
        weakref.finalize(self, self._ids.close)
        weakref.finalize(self, self._texts.close)

    def clear(self) -> None:
        """Forgets all ids, since another document begins."""
        self._codes = np.zeros(0, np.int64)
        self._ids.truncate(0)
        self._named.clear()

    def define(self, ids: Int64, codes: Int64) -> None:
        """Stores the codes of elements with small ids."""
        if not len(ids):
            return
        greatest = int(ids.max())
        if greatest >= len(self._codes):
            size = max(1 << 16, 1 << (greatest + 1).bit_length())
            self._codes = np.zeros(0, np.int64)  # closes the old mapping
            self._ids.truncate(size * 8)
            self._codes = np.memmap(self._ids, np.int64, "r+", shape=(size,))
        self._codes[ids] = codes

    def lookup(self, ids: Int64) -> Int64:
        """Returns the codes of ids; 0 for an id that isn't defined."""
        inside = (ids >= 0) & (ids < len(self._codes))
        if inside.all():
            return np.asarray(self._codes[ids])
        codes = np.zeros(len(ids), np.int64)
        codes[inside] = self._codes[ids[inside]]
        return codes

    def is_small(self, ids: Int64) -> bool:
        """Whether ids are small enough for the file of codes."""
        return not len(ids) or int(ids.max()) < max(_FREE_IDS, self.read_bytes)

    def define_one(self, name: str, code: int) -> None:
        """Stores the code of an element with any id; of odd ids only so many."""
        ids = _as_number(name)
        if ids is not None and self.is_small(ids):
            self.define(ids, np.array([code]))
        elif len(self._named) < _REMEMBERED or name in self._named:
            self._named[name] = code

    def lookup_one(self, name: str) -> int:
        """Returns the code of any id; 0 for one that isn't defined."""
        ids = _as_number(name)
        return int(self.lookup(ids)[0]) if ids is not None and self.is_small(ids) else self._named.get(name, 0)

    def code(self, text: bytes) -> int:
        """Returns the code of an element's text: a number if it is one."""
        text = text.strip()
        if not text or text == _NONE:
            return 0
        if _NUMBER.fullmatch(text) and (number := int(text)) < (1 << 63) - 1:
            return number + 1
        return self.text_code(text)

    def text_code(self, text: bytes) -> int:
        """Returns the code of a text, 0 for an empty one."""
        if not text:
            return 0
        code = self._code_of.get(text)
        if code is None:
            code = -(self._end + 1)
            self._waiting += (len(text).to_bytes(_LENGTH, "little"), text)
            self._end += _LENGTH + len(text)
            self._held += len(text)
            if len(self._code_of) >= _REMEMBERED or self._held > _HELD:
                self._flush()
            self._code_of[text] = code
            self._text_of[code] = text
        return code

    def joined(self, codes: list[int]) -> int:
        """Returns the code of the texts of codes, a line each."""
        texts = []
        for code in codes:
            texts.append(self._text(code))
            self._expanded(len(texts[-1]) + 1)
        return self.text_code(b"\n".join(texts))

    def _flush(self) -> None:
        """Writes texts to the file, and forgets them."""
        self._texts.seek(0, 2)
        self._texts.write(b"".join(self._waiting))
        self._waiting.clear()
        self._held = 0
        self._code_of.clear()
        self._text_of.clear()

    def text(self, code: int) -> str:
        """Returns the text of a code; of a number, its digits."""
        data = self._text(code)
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.bad_texts += 1
            return data.decode(errors="replace")

    def _text(self, code: int) -> bytes:
        if code >= 0:
            return b"%d" % (code - 1) if code else b""
        data = self._text_of.get(code)
        if data is None:
            self._texts.seek(-code - 1)
            data = self._texts.read(int.from_bytes(self._texts.read(_LENGTH), "little"))
            if len(self._text_of) < 2 * _REMEMBERED and len(data) < _HELD // _REMEMBERED:
                self._text_of[code] = data
        return data

    def numbers(self, codes: Int64) -> tuple[Int64, Bools]:
        """Returns the whole numbers, and which codes have none. Texts such as '0x1f' and '-5' are numbers, too."""
        numbers, absent = codes - 1, codes == 0
        texts = np.flatnonzero(codes < 0)
        for row, code in zip(texts.tolist(), codes[texts].tolist(), strict=True):
            text = self.text(code)
            try:
                number = int(text, 16 if text.startswith("0x") else 10)
            except ValueError:
                number = 1 << 64
            if -(1 << 62) <= number < 1 << 63:
                numbers[row] = number
            else:
                absent[row] = True
        return numbers, absent


def _as_number(name: str) -> Int64 | None:
    return np.array([int(name)]) if name.isascii() and name.isdigit() and len(name) < 19 else None
