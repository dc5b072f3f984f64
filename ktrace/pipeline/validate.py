"""Canonical files against the schema: the first faults, each with its record, JSON path and reason.

What is checked beyond the schema: the header comes first, and no id stands twice among the events,
summaries and links of a source (in files up to `COUNTED_IDS` rows, since all ids are held for it).
Ids need not rise and parents need not come first: a reader may give a parent after its children.
"""

from __future__ import annotations

import copy
import json
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ktrace.errors import InputError
from ktrace.input.detection import by_name
from ktrace.input.source import Source
from ktrace.model.batch import VERSION, json_schema
from ktrace.model.record_texts import Fault, RecordRun

CANONICAL = ("jsonl", "json", "parquet", "csv")

_Item = TypeVar("_Item")

#: Rows up to which ids are compared: 16 bytes each are held.
COUNTED_IDS = 10_000_000

#: Characters of a reason that are shown; jsonschema repeats the whole value in it.
LONGEST_REASON = 300


@dataclass
class Validation:
    """What a check found: the first faults, the number of records, the file's version of the model."""

    faults: list[Fault] = field(default_factory=list)
    checked: int = 0
    version: str | None = None


def validate(path: str | Path, *, limit: int = 20) -> Validation:
    """Checks a canonical file or folder and stops after `limit` faults. `path` may be '-', standard input.

    Raises InputError for what can't be opened or is no canonical file at all.
    """
    check = _Check(limit)
    source = Source(str(path), on_cut=lambda where, why: check.fault(check.result.checked, "$", f"breaks off: {why}"))
    room = import_module(f"ktrace.converters.{_format(source)}.texts")
    items: Iterator[RecordRun | Fault] = room.texts(source)
    for item in _ahead(items):
        if isinstance(item, Fault):
            check.add(item)
        elif item.number == 0:
            check.header(item)
        else:
            check.records(item)
        if check.full:
            break
    else:
        check.ids()
    check.result.faults.sort(key=lambda fault: fault.record)
    return check.result


def _ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """The items, the next one made by a thread while this one is checked."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def _format(source: Source) -> str:
    sample = source.sample()
    found = [(match.score, name) for name in CANONICAL if (match := by_name(name).probe(sample))]
    if not found:
        raise InputError(
            "is no canonical file",
            path=source.path,
            expected=f"one of the forms {', '.join(CANONICAL)} that ktrace writes",
            remedy="convert it first: ktrace convert IN -o OUT.jsonl",
        )
    return max(found)[1]


class _Check:
    """Checks records one by one and keeps the first faults."""

    def __init__(self, limit: int) -> None:
        self.result = Validation()
        self._limit = limit
        self._schema = json_schema()["$defs"]
        self._ids: dict[str, tuple[array[int], array[int]]] = {}

    @property
    def full(self) -> bool:
        """Whether as many faults were found as are wanted."""
        return len(self.result.faults) >= self._limit

    def add(self, fault: Fault) -> None:
        """Keeps a fault, unless there are enough."""
        if not self.full:
            self.result.faults.append(fault)

    def fault(self, number: int, path: str, reason: str, line: int | None = None) -> None:
        """Keeps a fault of a record."""
        if len(reason) > LONGEST_REASON:
            reason = reason[: LONGEST_REASON // 2] + " … " + reason[-LONGEST_REASON // 2 :]
        self.add(Fault(number, path, reason, line))

    def header(self, part: RecordRun) -> None:
        """Checks the header; of a newer minor version, what it adds isn't known and passes."""
        row = self._decode_anew(part.texts[0], 0, part.line)
        for error in Draft202012Validator(self._schema["header"]).iter_errors(row):
            self.fault(0, error.json_path, error.message, part.line)
            return
        self.result.version = row["ktrace"]
        if int(row["ktrace"].split(".")[1][:9]) > int(VERSION.split(".")[1]):
            self._schema = _open_ended(self._schema)
            self.__dict__.pop("_valid", None)

    def records(self, part: RecordRun) -> None:
        """Checks records: fast as long as they are valid, once more for the reasons where one isn't."""
        self.result.checked += len(part.texts)
        decode, validators = _DECODE, self._valid
        source, ids, numbers = None, array("q"), array("q")
        for number, text in enumerate(part.texts, part.number):
            try:
                row = decode(text)
                valid = validators[row["record"]](row)
                if valid and row["record"] != "catalog":
                    if row["source"] != source:
                        source = row["source"]
                        ids, numbers = self._ids.setdefault(source, (array("q"), array("q")))
                    ids.append(row["id"])
                    numbers.append(number)
            except (msgspec.DecodeError, LookupError, TypeError, ValueError, RecursionError):
                valid = False
            if not valid:
                self._explain(text, number, None if part.line is None else part.line + number - part.number)
                if self.full:
                    return
        if self.result.checked > COUNTED_IDS:
            self._ids.clear()

    def _explain(self, text: bytes, number: int, line: int | None) -> None:
        """The faults of a record, in jsonschema's own words."""
        row = self._decode_anew(text, number, line)
        if row is None:
            return
        word = row.get("record") if isinstance(row, dict) else None
        if not isinstance(word, str) or word not in self._valid:
            words = ", ".join(self._valid)
            reason = "is no record" if word is None else f"{_shown(word)} is none of {words}"
            self.fault(number, "$.record" if isinstance(row, dict) else "$", reason, line)
            return
        errors = Draft202012Validator(self._schema[word]).iter_errors(row)
        for error in sorted(errors, key=lambda error: error.json_path):
            self.fault(number, error.json_path, _innermost(error).message, line)

    def _decode_anew(self, text: bytes, number: int, line: int | None) -> Any:
        """What msgspec refuses may still be JSON: a number beyond a double, a lone surrogate. Else None and a fault."""
        try:
            return json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            self.fault(number, "$", f"is no JSON: {error}", line)
            return None

    @cached_property
    def _valid(self) -> dict[str, Callable[[Any], bool]]:
        """The word of a record -> whether a row of it is valid."""
        words = ("event", "summary", "link", "catalog")
        return {word: _validity(_with_draft(self._schema[word])) for word in words}

    def ids(self) -> None:
        """Finds ids that stand twice in their source."""
        import numpy as np

        if self.result.checked > COUNTED_IDS:
            return
        for source, (ids, records) in self._ids.items():
            numbers = np.asarray(ids)
            order = np.argsort(numbers, kind="stable")
            again = np.flatnonzero(np.diff(numbers[order]) == 0)
            for index in sorted(again, key=lambda index: records[order[index + 1]]):
                if self.full:
                    return
                first, second = records[order[index]], records[order[index + 1]]
                reason = f"id {numbers[order[index]]} of the source {_shown(source)} stands in record {first} already"
                self.fault(second, "$.id", reason)


_DECODE = msgspec.json.Decoder().decode


def _validity(schema: dict[str, Any]) -> Callable[[Any], bool]:
    """Returns a function that checks a row: of jsonschema-rs if installed (`ktrace[validate]`), else of jsonschema."""
    try:
        import jsonschema_rs
    except ImportError:
        return Draft202012Validator(schema).is_valid
    return jsonschema_rs.validator_for(schema).is_valid


def _refuse(word: str) -> None:
    raise ValueError(f'{word} is no JSON number; the model has the string "{word}"')


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _innermost(error: ValidationError) -> ValidationError:
    """Of a choice, the fault against its first alternative: the one that the model names."""
    while error.context:
        error = error.context[0]
    return error


def _with_draft(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": json_schema()["$schema"], **schema}


def _open_ended(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema for a newer minor version, which may add columns, kinds and types of links."""
    schema = copy.deepcopy(schema)
    for word in ("event", "summary", "link", "catalog"):
        schema[word]["additionalProperties"] = True
        for column in ("kind", "link"):
            if column in schema[word]["properties"]:
                schema[word]["properties"][column] = {"type": "string"}
    return schema
