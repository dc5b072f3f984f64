"""Text that is read as needed, for documents of any size: a window that moves over a stream."""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

from ktrace.report import Report

#: Bytes that are read at once.
CHUNK = 1 << 16

_BLANK = re.compile(r"[\s,]*")


class TextWindow:
    """Text that is read as needed; `at` is the current position in `text`."""

    def __init__(self, stream: BinaryIO, report: Report) -> None:
        self._stream = stream
        self._report = report
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""
        self.at = 0
        self.ended = False

    def more(self, size: int = 0) -> bool:
        """Reads on, CHUNK bytes or more, and drops the text before `at`; returns False at the end."""
        if self.ended:
            return False
        raw = self._stream.read(max(CHUNK, size))
        self.ended = not raw
        added = self._decoder.decode(raw, final=self.ended)
        if "\ufffd" in added and "\ufffd".encode() not in raw:
            self._report.issue("encoding", "a value of the JSON")
        self.text = self.text[self.at :] + added
        self.at = 0
        return not self.ended or bool(added)

    def next(self, blank: re.Pattern[str] = _BLANK) -> str:
        """Skips blanks and returns the next character; '' at the end."""
        while True:
            found = blank.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""
