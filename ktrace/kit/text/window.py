"""Text that is read as needed, for documents of any size: a window that moves over a stream."""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

from ktrace.byte_account import Owner
from ktrace.kit.trace_json.repair import shallow
from ktrace.report import Report

#: Bytes that are read at once.
CHUNK = 1 << 16

_BLANK = re.compile(r"[\s,]*")


class TextWindow:
    """Text that is read as needed; `at` is the current position in `text`.

    Whoever moves `at` states by `own` what the text up to there is, from where that was stated last.
    """

    def __init__(self, stream: BinaryIO, report: Report, mark: int = 0) -> None:
        """`mark` is the size of a byte order mark before the stream."""
        self._stream = stream
        self._report = report
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""
        self.at = 0
        self.ended = False
        self._owned = 0  # characters of `text` with an owner
        self._loose = 0  # bytes without one that were dropped with the text before `at`
        self._place = self._delivered = mark  # in bytes: the first of them, and what was read
        report.bytes.own("structure", mark)
        report.bytes.size += mark
        report.bytes.open += 1

    def own(self, owner: Owner) -> None:
        """States what the text before `at` is."""
        size = self._loose + _bytes(self.text, self._owned, self.at)
        if owner == "skipped":
            self._report.bytes.skip(self._place, self._place + size)
        else:
            self._report.bytes.own(owner, size)
        self._report.bytes.size += size
        self._place += size
        self._owned, self._loose = self.at, 0

    def finish(self) -> None:
        """Ends the account at the end of the text. What has no owner is reported."""
        if self.at > self._owned or self._loose:
            start = self._place
            self.own("skipped")
            self._report.record()
            self._report.issue("unrecognised", f"bytes {start}-{self._place - 1}", "text that no record owns")
        self._report.bytes.take_back(self._place - self._delivered)  # of bytes that aren't UTF-8, and of repairs
        self._report.bytes.open -= 1

    def drop(self) -> None:
        """Drops the text before `at`."""
        self._loose += _bytes(self.text, self._owned, self.at)
        self.text = self.text[self.at :]
        self.at = self._owned = 0

    def more(self, size: int = 0) -> bool:
        """Reads on, CHUNK bytes or more, and drops the text before `at`; returns False at the end."""
        if self.ended:
            return False
        raw = self._stream.read(max(CHUNK, size))
        self.ended = not raw
        added = self._decoder.decode(raw, final=self.ended)
        if "\ufffd" in added and "\ufffd".encode() not in raw:
            self._report.issue("encoding", "a value of the JSON")
        self._delivered += len(raw)
        self.drop()
        self.text += added
        return not self.ended or bool(added)

    def flatten(self) -> bool:
        """Replaces what is nested too deeply in the text from `at` on, and reports it; returns whether anything was.

        False, too, for a nest whose end isn't read yet.
        """
        flat, repairs, closed = shallow(self.text[self.at :].encode())
        if not repairs or not (closed or self.ended):
            return False
        self._report.issue("json-repair", f"byte {self._place + repairs[0].place}", repairs[0].detail, len(repairs))
        self.text = self.text[: self.at] + flat.decode()
        return True

    def next(self, blank: re.Pattern[str] = _BLANK) -> str:
        """Skips blanks and returns the next character; '' at the end."""
        while True:
            found = blank.match(self.text, self.at)
            if found and found.end() > self.at:
                clean = self._owned == self.at and not self._loose
                self.at = found.end()
                if clean:
                    self.own("structure")
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""


def _bytes(text: str, start: int, end: int) -> int:
    """The number of bytes of a part of a text in UTF-8."""
    if start >= end:
        return 0
    return end - start if text.isascii() else len(text[start:end].encode("utf-8", "replace"))
