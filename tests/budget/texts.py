"""Inputs in formats of text: a row of a sample, found by a pattern, is written many times over."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .shapes import Record
from .source import Source

#: What a field of a row is called in a pattern -> which part of a record it is.
_NUMBERS: dict[str, Callable[[Record], int]] = {
    "start": lambda record: record.start,
    "end": lambda record: record.start + record.dur,
    "dur": lambda record: record.dur,
    "track": lambda record: record.track,
    "id": lambda record: record.number,
}


@dataclass(frozen=True)
class Texts(Source):
    """A row of a text.

    `row` is the row as it is in the sample, with names of fields in the place of their values: «name», «start», «end»
    or «dur», «track», «id», and «filling» where more may be inserted. A field may be there twice. "…" is any text.
    Numbers with a fraction get one of the same length. `between` is what stands between two rows.
    """

    sample: str
    row: str
    between: str = ""
    #: Whether a long row is one of JSON, not of cells.
    is_json: bool = False

    @cached_property
    def _match(self) -> re.Match[str]:
        text = self._text()
        found = re.search(_pattern(self.row), text, re.DOTALL)
        if found is None:
            raise LookupError(f"{self.sample} has no row {self.row}")
        return found

    def _text(self) -> str:
        data = self.file.read_bytes()
        if self.file.suffix == ".pickle":
            return json.dumps(pickle.loads(data))
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig", "surrogateescape")

    @cached_property
    def fields(self) -> frozenset[str]:
        """What a row has, as shapes ask for it."""
        groups = {name.rstrip("0123456789") for name in self._match.re.groupindex}
        keys = {"key"} if self.is_json and "filling" in groups else set()
        return frozenset(groups | keys | ({"extent"} if groups & {"dur", "end"} else set()))

    def write(self, folder: Path, records: Iterator[Record]) -> Path:
        """Writes rows in the place of the sample's one; returns the path of the input."""
        path = self.copy(folder)
        file = path / self.file.relative_to(self.path) if path.is_dir() else path
        found = self._match
        with file.open("w", encoding="utf-8", errors="surrogateescape", newline="") as out:
            out.write(found.string[: found.start()])
            for number, record in enumerate(records):
                out.write(self.between * bool(number) + self._row(record))
            out.write(found.string[found.end() :])
        return path

    @cached_property
    def _spans(self) -> list[tuple[str, str, str]]:
        """Of each field: what stands before it, what it is, and its text in the sample."""
        found, at, spans = self._match, self._match.start(), []
        groups = [(found.span(name), name.rstrip("0123456789")) for name in found.re.groupindex]
        for (begin, end), name in sorted(groups):
            spans.append((found.string[at:begin], name, found.string[begin:end]))
            at = end
        return [*spans, (found.string[at : found.end()], "", "")]

    @cached_property
    def _digits(self) -> int:
        """Digits of the fraction of times: the least number of them in a time of the row."""
        times = [text for _, name, text in self._spans if name in ("start", "end", "dur")]
        return min((len(text.partition(".")[2]) for text in times), default=0)

    def _row(self, record: Record) -> str:
        parts = []
        for before, name, text in self._spans:
            parts.append(before)
            if name == "name":
                parts.append(text if record.name is None else record.name)
            elif name == "filling":
                parts.append(_filling(record, self.is_json) or text)
            elif name == "start" and record.filling.startswith("number"):
                parts.append("7" * int(record.filling.split()[1]))
            elif name:
                parts.append(self._number(name, text, _NUMBERS[name](record)))
        return "".join(parts)

    def _number(self, name: str, text: str, value: int) -> str:
        if name in ("track", "id"):
            return str(int(text) + value) if text.isdigit() else f"{text}{value}" if value else text
        digits = len(text.partition(".")[2])
        base = 0 if name == "dur" else int(self._start().replace(".", "").ljust(1, "0"))
        base *= 10 ** max(0, digits - len(self._start().partition(".")[2]))
        whole = base + value * 10 ** (digits - self._digits)
        return f"{whole // 10**digits}.{whole % 10**digits:0{digits}}" if digits else str(whole)

    def _start(self) -> str:
        return next((text for _, name, text in self._spans if name == "start"), "0")


#: What values of fields look like. Others are any text in a line.
_VALUES = {"filling": "", **dict.fromkeys(("start", "end", "dur"), "[0-9.]+")}


def _pattern(row: str) -> str:
    """Returns the pattern of a row; its groups are the fields, with a number for each."""
    parts = re.split("«([a-z]+)»", row)
    for number in range(0, len(parts), 2):
        parts[number] = ".*?".join(map(re.escape, parts[number].split("…")))
    for number in range(1, len(parts), 2):
        value = _VALUES.get(parts[number], r"[^\n]*?")
        parts[number] = f"(?P<{parts[number]}{number}>{value})"
    return "(?m:^)" + "".join(parts) if row.startswith("«") else "".join(parts)


def _filling(record: Record, is_json: bool) -> str:
    """What a row has more: a key of its own; a long one has lists, objects and texts in JSON, else cells and words."""
    kind, _, size = record.filling.partition(" ")
    if kind == "keys":
        return f',"key {size}":{size}' if is_json else ""
    if kind not in ("row", "empty"):
        return ""
    if is_json:
        part = {"row": '{"a":[1,2.5,"t"],"b":{"c":null}}', "empty": "[]"}[kind]
        return ',"filling":[' + ",".join([part] * (int(size) // (len(part) + 1) + 1)) + "]"
    part = {"row": 'ab 12, "', "empty": ",|\t"}[kind]
    return part * (int(size) // len(part) + 1)
