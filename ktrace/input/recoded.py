"""Text in another encoding, as a stream of UTF-8."""

from __future__ import annotations

import codecs
import io
from typing import BinaryIO


class Recoded(io.RawIOBase):
    """The text of a stream in UTF-8, whatever its encoding."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._text = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._text and not self._ended:
            data = self._stream.read(1 << 16)
            self._ended = not data
            self._text = self._decoder.decode(data, final=self._ended).encode()
        size = min(len(buffer), len(self._text))
        buffer[:size], self._text = self._text[:size], self._text[size:]
        return size
