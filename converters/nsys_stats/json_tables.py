"""Reads reports as JSON incrementally: an array of objects for each, with nsys' messages between them.

Processing [run.sqlite] with [.../cuda_gpu_kern_sum.py]...
[
  {
    "Time (%)": 75.0,
    "Total Time (ns)": 1500000,
    "Name": "say \"hi\""            nsys doesn't escape a line end in a name
  }
]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ktrace.input.compression import mark_size, utf8
from ktrace.input.source import Source
from ktrace.kit.text.headings import heading
from ktrace.kit.text.json_items import CHUNK, TextWindow
from ktrace.kit.text.layouts import Delimited
from ktrace.kit.text.lines import LineAccount
from ktrace.kit.text.tables import REFUSED, Recogniser, Row, Table, Text
from ktrace.kit.trace_json.repair import shallow
from ktrace.model.json_text import deeper_stack, refuse_deep
from ktrace.report import Report

#: The most characters of an object.
_LONGEST = 1 << 20

_LIST = re.compile(r"\[\s*(?:[{\]]|$)")
_FIRST = re.compile(r"^\[\s*(?=\{)", re.MULTILINE)
_END = re.compile(r"\n[ \t\r]*\},?[ \t\r]*\n")


def _as_written(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return pairs


_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=_as_written, parse_int=str, parse_float=str, parse_constant=str
)


def first_headings(text: str) -> list[str] | None:
    """Returns the keys of the first object of an array, None if there is no array of objects. For probes."""
    if found := _FIRST.search(text):
        try:
            pairs, _ = _DECODER.raw_decode(text, found.end())
        except RecursionError:
            flat, *_ = shallow(text[found.end() :].encode())
            try:
                pairs, _ = _DECODER.raw_decode(flat.decode())
            except (ValueError, RecursionError):
                return None
        except ValueError:
            return None
        return [key for key, _ in pairs]
    return None


def json_tables(
    source: Source, account: LineAccount, report: Report, columns_of: Recogniser
) -> Iterator[Table | Row | Text]:
    """Yields the tables, their rows, and the lines outside. Each object and outside line is a record.

    Skips an object that isn't JSON, and one that breaks off at the end.
    """
    with source.open() as stream:
        mark = mark_size(stream)
        text, listed, table, tables, number = _TextStream(utf8(stream), report, mark), False, None, 0, 0
        while text.next():
            if not listed and text.starts_with(_LIST):
                listed, table = True, None
                text.at += 1
                text.own("structure")
                continue
            if listed and text.text[text.at] == "]":
                listed = False
                text.at += 1
                text.own("structure")
                continue
            number += 1
            account.begin(number)
            report.record()
            if not listed or text.text[text.at] != "{":
                listed = False
                yield Text(number, text.line(), ())
                text.own(account.owner)
            elif (pairs := text.object()) is None:
                text.own("skipped")
                account.skip("cut" if text.ended else "bad-record", "" if text.ended else "not a JSON object")
            else:
                text.own("read")
                keys = [key for key, _ in pairs]
                if table is None or keys != [head.text for head in table.headings]:
                    headings = tuple(heading(key) for key in keys)
                    fields = columns_of(headings, ())
                    table = Table(tables, number, (), Delimited("commas"), headings, fields)
                    tables += 1
                    if fields is not None:
                        yield table
                if table.fields is None:
                    account.skip("unrecognised", REFUSED)
                else:
                    yield Row(table, number, [_cell(value) for _, value in pairs])
        text.finish()
        account.finish()
        if listed:
            report.issue("cut", "the end", "the list isn't closed", 0)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if value is None:
        return ""
    with deeper_stack():
        return str(value).lower() if isinstance(value, bool) else json.dumps(value)


class _TextStream(TextWindow):
    """The window with lines and objects."""

    def starts_with(self, pattern: re.Pattern[str]) -> bool:
        """Whether the rest of the text starts with a pattern, which must be short."""
        if len(self.text) - self.at < CHUNK // 2:
            self.more()
        return pattern.match(self.text, self.at) is not None

    def line(self) -> str:
        """Returns the rest of the line, or the first part of a long line."""
        while (end := self.text.find("\n", self.at)) < 0 and len(self.text) - self.at < _LONGEST and self.more():
            pass
        end = min(end if end >= 0 else len(self.text), self.at + _LONGEST)
        line, self.at = self.text[self.at : end], end
        return line.rstrip("\r")

    def object(self) -> list[tuple[str, Any]] | None:
        """Returns the next object. If it can't be decoded, skips to the end of an object and returns None."""
        while True:
            try:
                pairs, end = _DECODER.raw_decode(self.text, self.at)
                refuse_deep(self.text[self.at : end].encode("utf-8", "surrogatepass"))
                self.at = end
            except (ValueError, RecursionError) as error:
                if isinstance(error, RecursionError) and self.flatten():
                    continue
                if len(self.text) - self.at < _LONGEST and self.more():
                    continue
                found = _END.search(self.text, self.at)
                self.at = found.end() if found else len(self.text)
                self.ended = self.ended and found is None
                return None
            return list(pairs)
