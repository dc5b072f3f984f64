"""The records of a log: the text at its start says how each kind is laid out."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from ktrace.errors import DamagedInput

_RECORD = re.compile(r"(\w+) \{id:(\d{1,9})(.*)\}")
_FIELD = re.compile(r", (\w+):([^:,{}]+):(-?\d{1,9})")

#: The longest description of records, and text of a record; bytes that are read at once.
_TEXT, _LONGEST, _BLOCK = 1 << 20, 1 << 24, 1 << 18

#: Dimensions of points that are believed; the mode of uses that have a reduction operator.
_DIMENSIONS, _REDUCE = 64, 4

Values = dict[str, Any]


class _Layout:
    """How a record is laid out: groups of fields of fixed sizes, and those whose size depends on others."""

    def __init__(self, name: str, fields: list[tuple[str, str, int]]) -> None:
        self.name = name
        self.parts: list[tuple[str, Any]] = []
        names: list[str] = []
        layout = "<"
        for field_name, kind, size in fields:
            if size < 0 or kind in ("array", "point", "uuid") or field_name == "redop":
                self._add(names, layout)
                self.parts.append(("string" if size < 0 else "redop" if field_name == "redop" else kind, field_name))
                names, layout = [], "<"
            else:
                names.append(field_name)
                layout += {1: "B", 2: "H", 4: "i" if kind.endswith("Kind") else "I"}.get(size) or (
                    f"{size}s" if size != 8 else "q" if kind == "long long" else "Q"
                )
        self._add(names, layout)

    def _add(self, names: list[str], layout: str) -> None:
        if names:
            self.parts.append(("", (names, struct.Struct(layout))))


class Log:
    """The records of a log, one after the other. Raises DamagedInput for a description that can't be used."""

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self._stream, self._path = stream, path
        self._held, self._at, self._base = b"", 0, 0
        self._dimensions = 0
        self.layouts = dict(self._description())
        #: Why it can't be read on, and where; '' if it is read to its end.
        self.problem = ""

    def _description(self) -> Iterator[tuple[int, _Layout]]:
        head = b""
        while b"\n\n" not in head[-2:] and len(head) < _TEXT and (line := self._stream.readline(_TEXT)):
            head += line
        if not head.endswith(b"\n\n"):
            raise self._damaged("has an unterminated description of its records")
        self._base = len(head)
        for text in head.decode("utf-8", "replace").splitlines()[1:]:
            if match := _RECORD.fullmatch(text):
                fields = [(name, kind, int(size)) for name, kind, size in _FIELD.findall(match[3])]
                if sum(max(0, size) for _, _, size in fields) > _TEXT:
                    raise self._damaged(f"describes records {match[1]} of more than {_TEXT:,} bytes")
                yield int(match[2]), _Layout(match[1], fields)

    def _damaged(self, what: str) -> DamagedInput:
        return DamagedInput(
            what,
            path=self._path,
            expected="lines such as 'TaskInfo {id:18, op_id:UniqueID:8, ...}', and an empty line after them",
            remedy="record it again",
        )

    def _take(self, size: int) -> bytes:
        """The next bytes. Raises EOFError at the end."""
        if self._at + size > len(self._held):
            self._more(size)
        self._at += size
        return self._held[self._at - size : self._at]

    def _more(self, size: int) -> None:
        self._base += self._at
        self._held, self._at = self._held[self._at :], 0
        while len(self._held) < size:
            if not (block := self._stream.read(max(_BLOCK, size - len(self._held)))):
                raise EOFError
            self._held += block

    def _string(self) -> str:
        end = self._held.find(b"\0", self._at)
        while end < 0:
            size = len(self._held) - self._at
            if size > _LONGEST:
                raise EOFError
            self._more(size + 1)
            end = self._held.find(b"\0", size)
        text = self._take(end + 1 - self._at)[:-1]
        return text.decode("utf-8", "replace")

    @property
    def where(self) -> str:
        """The place of the next byte."""
        return f"byte {self._base + self._at}"

    def __iter__(self) -> Iterator[tuple[str, Values]]:
        """Yields the name of each record and its values, up to the end or the first that can't be read."""
        while True:
            where = self.where
            try:
                number = int.from_bytes(self._take(4), "little")
            except EOFError:
                self.problem = f"{where}: an incomplete record" if self._at < len(self._held) else ""
                return
            layout = self.layouts.get(number)
            if layout is None:
                self.problem = f"{where}: a record of kind {number}, which isn't described"
                return
            try:
                values = self._values(layout)
            except EOFError:
                self.problem = f"{where}: a record {layout.name} that isn't whole"
                return
            if layout.name == "MaxDimDesc":
                self._dimensions = values.get("max_dim", 0) if 0 <= values.get("max_dim", 0) < _DIMENSIONS else 0
            yield layout.name, values

    def _values(self, layout: _Layout) -> Values:
        values: Values = {}
        for kind, part in layout.parts:
            if not kind:
                names, fixed = part
                values.update(zip(names, fixed.unpack(self._take(fixed.size)), strict=True))
            elif kind == "string":
                values[part] = self._string()
            elif kind == "redop":
                if values.get("mode") == _REDUCE:
                    values[part] = int.from_bytes(self._take(4), "little")
            elif kind == "uuid":
                values[part] = self._take(min(values.get("uuid_size", 0), _TEXT)).hex()
            else:
                self._take(self._dimensions * (16 if kind == "array" else 8))
        return values
