"""Reads messages of `-f json`; lines that aren't are maps as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import unix_ns
from ktrace.model.batch import Batch
from ktrace.model.json_text import NOT_JSON, decode_document, dump_json
from ktrace.model.row_builder import RowBuilder

from . import ATTACHED, MAPS, OTHERS, WHOLE, WORDS
from .maps import Bucket, Maps
from .printed import Text

_LOST = re.compile(r"Lost (\d{1,19}) events")
_LIMIT = 1 << 64
_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(\d{1,9})")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each entry of a map and for each message in words, a counter for each value of a series."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    maps = Maps(rows)
    text, messages = Text(lines, maps), _Messages(lines, maps, conversion)
    for line in lines:
        if line.text.startswith('{"type"'):
            messages.add(line.text)
        elif match := ATTACHED.fullmatch(line.text):
            messages.facts["probes"] = int(match[1])
            lines.became("catalog")
        elif match := _LOST.fullmatch(line.text):
            messages.lost(int(match[1]))
            lines.became("catalog")
        else:
            text.add(line.text)
        yield from rows.ready()
    rows.fact("source", facts={"tool": "bpftrace"} | messages.facts)
    if maps.timed:
        rows.fact("clock", facts={"kind": "session"})
    yield from rows.rest()


class _Messages:
    """Messages of `-f json`."""

    def __init__(self, lines: Lines, maps: Maps, conversion: Conversion) -> None:
        self._lines = lines
        self._maps = maps
        self._report = conversion.report
        self.facts: dict[str, Any] = {}

    def add(self, text: str) -> None:
        """Adds a line."""
        try:
            record = decode_document(text.encode())
            outcome = self._message(record)
        except NOT_JSON as error:
            is_cut = self._lines.is_open and not text.rstrip().endswith("}")
            self._lines.skip("cut" if is_cut else "bad-record", str(error))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self._maps.give_up()
            self._lines.skip("bad-record", str(error) if isinstance(error, ValueError) else "not what this type has")
        else:
            self._maps.write()
            if outcome:
                self._lines.became(outcome)
            else:
                self._lines.used()

    def lost(self, events: int) -> None:
        """Events of the script that were lost: its figures are too small."""
        self._report.issue("capture-warning", self._lines.at(), f"{events} events were lost")

    def _message(self, record: Any) -> str:
        """Prepares the rows of a message; returns what else became of it. Raises ValueError for a bad one."""
        kind = record.get("type")
        if type(kind) is not str:
            raise ValueError("the type isn't a text")
        data = record.get("data", record.get("msg"))
        if kind in MAPS:
            self._maps.begin()
            if not isinstance(data, dict) or not data:
                raise ValueError("no map in data")
            for name, body in data.items():
                self._map(kind, name, body)
        elif kind in ("attached_probes", "lost_events"):
            count = record.get("count", next(iter((data if isinstance(data, dict) else record).values()), None))
            count = count if type(count) is int else record.get("probes", record.get("events"))
            if type(count) is not int:
                raise ValueError("no number of probes or events")
            if kind == "lost_events":
                self.lost(count)
            else:
                self.facts["probes"] = count
            return "catalog"
        elif kind == "time" and type(data) is str:
            self._maps.time = data.strip()
            return "folded"
        else:
            return self._words(kind, data, record)
        return ""

    def _words(self, kind: str, data: Any, record: dict[str, Any]) -> str:
        """Prepares the note of a message in words, or of one that has anything else."""
        text = data if type(data) is str else dump_json(data)
        args = {key: value for key, value in record.items() if key not in ("type", "data", "msg")}
        if kind in ("helper_error", "runtime_error"):
            self._report.issue("capture-warning", self._lines.at(), text)
        elif kind not in (*WORDS, *OTHERS):
            self._report.issue("unknown-kind", self._lines.at(), kind)
        if not text.strip():
            return "structure"
        self._maps.words(kind, text.strip("\n"), args)
        return ""

    def _map(self, kind: str, name: str, body: Any) -> None:
        is_entry = not isinstance(body, dict) or (kind == "stats" and set(body) == {"count", "average", "total"})
        for key, value in [(None, body)] if is_entry else body.items():
            self._value(kind, name, key, value)

    def _value(self, kind: str, name: str, key: str | None, value: Any) -> None:
        if kind == "hist":
            self._maps.histogram(name, key, [_json_bucket(bucket) for bucket in value])
        elif kind == "tseries":
            for point in value:
                self._maps.point(name, key, _stamp(point["interval_start"]), _to_int(point["value"]))
        elif kind == "stats" and isinstance(value, dict):
            self._maps.stats(name, key, *(_to_int(value.get(one)) for one in ("count", "average", "total")))
        elif _is_whole(value):
            self._maps.number(name, key, _to_int(value), "avg" if kind == "stats" else "value")
        else:
            self._maps.note(name, key, value)


def _json_bucket(bucket: Any) -> Bucket:
    """A bucket of JSON, whose `max` belongs to it. Raises ValueError for another."""
    if not isinstance(bucket, dict):
        raise ValueError("a bucket isn't an object")
    upper = bucket.get("max")
    return Bucket(bucket.get("min"), upper + 1 if type(upper) is int else upper, _to_int(bucket.get("count")))


def _is_whole(value: Any) -> bool:
    """Whether it is a whole number, also as a text, as from 0.24 on those are written that no float has."""
    if type(value) is str:
        return len(value) >= 16 and WHOLE.fullmatch(value) is not None
    return type(value) is int and abs(value) <= _LIMIT


def _to_int(value: Any) -> int:
    """A whole number. Raises ValueError for another value."""
    if not _is_whole(value):
        raise ValueError(f"not a whole number: {str(value)[:40]}")
    return int(value)


def _stamp(text: Any) -> int:
    """A time like 2026-01-02 03:04:05.600000000 in ns since 1970. Raises ValueError for another."""
    match = _TIME.fullmatch(str(text))
    time = unix_ns(*match.groups()) if match else None
    if time is None:
        raise ValueError(f"not a time: {str(text)[:40]}")
    return time
