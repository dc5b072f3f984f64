"""Checks canonical files against the schema: the first faults, each with its record, JSON path and reason.

Two checks go beyond the schema: the header comes first, and an id occurs once among the events, summaries and
links of a source (in files of up to `COUNTED_IDS` rows, because the check keeps all ids in memory).
Ids need not rise and parents need not come first: a reader may yield a parent after its children.
"""

from __future__ import annotations

import copy
import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ktrace.errors import InputError
from ktrace.input.boundary import input_faults
from ktrace.input.detection import by_name, detect_sample
from ktrace.input.expand import expanded
from ktrace.input.format import Format
from ktrace.input.limits import limited
from ktrace.input.source import Source
from ktrace.model.batch import VERSION
from ktrace.model.json_text import Fault, RecordRun, refuse_deep
from ktrace.model.schema import json_schema
from ktrace.parallel.threads import prefetch
from ktrace.report import Report

CANONICAL = ("jsonl", "json", "parquet", "csv")

#: Rows up to which ids are compared; each takes 16 bytes of memory.
COUNTED_IDS = 10_000_000

#: The longest reason shown, in characters; jsonschema repeats the whole value in its reasons.
LONGEST_REASON = 300

#: Digits of an integer that are looked at: Python refuses more than 4,300, which are far beyond every bound.
_MOST_DIGITS = 1000


@dataclass
class Validation:
    """The result of a check: the first faults, the number of records, the file's version of the model."""

    faults: list[Fault] = field(default_factory=list)
    checked: int = 0
    version: str | None = None


@limited
def validate(path: str | Path, *, limit: int = 20, limits: str | Mapping[str, str | int] | None = None) -> Validation:
    """Checks a canonical file or folder against the schema.

    Parameters
    ----------
    path : path
        A file or folder that ktrace wrote, or "-" for standard input.
    limit : int
        Number of faults after which the check stops.
    limits : str or mapping, optional
        Limits other than the defaults, as in `Selection`.

    Returns
    -------
    Validation
        The first faults, each with record, JSON path and reason.

    Raises
    ------
    InputError
        The input can't be opened, or isn't canonical.

    Examples
    --------
    >>> import ktrace
    >>> ktrace.validate("samples/jsonl/all-records.jsonl").faults
    []
    """
    check = _Check(limit)
    source = Source(str(path), on_cut=lambda where, why: check.fault(check.result.checked, "$", f"breaks off: {why}"))
    for item in prefetch(_texts(source, by_name(_format(source)))):
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


def canonical_inputs(paths: Sequence[str], report: Report) -> list[str]:
    """Returns the files and folders to validate that the paths name: of a folder, the canonical files in it.

    Files of a folder that no format recognises are noted in the report. Raises InputError if a pattern matches no file,
    or a folder contains no canonical file.
    """
    files: list[str] = []
    for path in paths:
        inputs = expanded([path], report)
        canonical = [one.path for one in inputs if one.format is None or one.format.name in CANONICAL]
        if not canonical:
            raise InputError(
                "is a folder without a canonical file",
                path=path,
                expected=f"one of the forms {', '.join(CANONICAL)} that ktrace writes",
                remedy=_convert(path),
            )
        files += canonical
    return files


def _convert(path: str) -> str:
    """How to make a canonical file of an input."""
    return f"convert it first: ktrace convert {quote(path)} -o OUT.jsonl"


def _format(source: Source) -> str:
    sample = source.sample()
    formats = tuple(by_name(name) for name in CANONICAL)
    matches = [(match.score, match.format) for match in detect_sample(sample, formats) if not match.failed]
    if not matches:
        raise InputError(
            "isn't a canonical file",
            path=source.path,
            expected=f"one of the forms {', '.join(CANONICAL)} that ktrace writes",
            remedy=_convert(source.path),
        )
    return max(matches)[1]


def _texts(source: Source, fmt: Format) -> Iterator[RecordRun | Fault]:
    """Yields the records as texts, and the faults between them. Raises InputError."""
    with input_faults(source.path, fmt):
        yield from fmt.function("texts")(source)


class _Check:
    """Checks records one by one and keeps the first faults."""

    def __init__(self, limit: int) -> None:
        self.result = Validation()
        self._limit = limit
        self._schema = json_schema()["$defs"]
        self._ids: dict[str, tuple[array[int], array[int]]] = {}

    @property
    def full(self) -> bool:
        """Whether the limit of faults is reached."""
        return len(self.result.faults) >= self._limit

    def add(self, fault: Fault) -> None:
        """Keeps a fault, up to the limit."""
        if not self.full:
            self.result.faults.append(fault)

    def fault(self, number: int, path: str, reason: str, line: int | None = None) -> None:
        """Keeps a fault of a record."""
        if len(reason) > LONGEST_REASON:
            reason = reason[: LONGEST_REASON // 2] + " … " + reason[-LONGEST_REASON // 2 :]
        self.add(Fault(number, path, reason, line))

    def header(self, run: RecordRun) -> None:
        """Checks the header. A newer minor version may add to the model, so unknown additions pass."""
        row = self._decode_slowly(run.texts[0], 0, run.line)
        for error in Draft202012Validator(self._schema["header"]).iter_errors(row):
            self.fault(0, error.json_path, error.message, run.line)
            return
        self.result.version = row["ktrace"]
        if int(row["ktrace"].split(".")[1][:9]) > int(VERSION.split(".")[1]):
            self._schema = _open_ended(self._schema)
            self.__dict__.pop("_valid", None)

    def records(self, run: RecordRun) -> None:
        """Checks records: quickly while they are valid, and a second time for the reasons where one isn't."""
        self.result.checked += len(run.texts)
        decode, validators = _DECODE, self._valid
        source, ids, numbers = None, array("q"), array("q")
        for number, text in enumerate(run.texts, run.number):
            try:
                refuse_deep(text)
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
                self._explain(text, number, None if run.line is None else run.line + number - run.number)
                if self.full:
                    return
        if self.result.checked > COUNTED_IDS:
            self._ids.clear()

    def _explain(self, text: bytes, number: int, line: int | None) -> None:
        """Adds the faults of a record, in jsonschema's own words."""
        row = self._decode_slowly(text, number, line)
        if row is None:
            return
        word = row.get("record") if isinstance(row, dict) else None
        if not isinstance(word, str) or word not in self._valid:
            words = ", ".join(self._valid)
            reason = "isn't a record" if word is None else f"{_shown(word)} isn't one of {words}"
            self.fault(number, "$.record" if isinstance(row, dict) else "$", reason, line)
            return
        errors = Draft202012Validator(self._schema[word]).iter_errors(row)
        for error in sorted(errors, key=lambda error: error.json_path):
            self.fault(number, error.json_path, _innermost(error).message, line)

    def _decode_slowly(self, text: bytes, number: int, line: int | None) -> Any:
        """Decodes JSON that msgspec refuses: a number beyond a double, a lone surrogate. Else None, with a fault."""
        try:
            refuse_deep(text)
            return json.loads(text, parse_constant=_refuse, parse_int=lambda digits: int(digits[:_MOST_DIGITS]))
        except (ValueError, RecursionError) as error:
            self.fault(number, "$", f"isn't JSON: {error}", line)
            return None

    @cached_property
    def _valid(self) -> dict[str, Callable[[Any], bool]]:
        """The word of each record -> a function that tells whether a row of it is valid."""
        words = ("event", "summary", "link", "catalog")
        return {word: _validity({"$schema": json_schema()["$schema"], **self._schema[word]}) for word in words}

    def ids(self) -> None:
        """Finds ids that occur twice in their source."""
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
                reason = f"record {first} of the source {_shown(source)} already has the id {numbers[order[index]]}"
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
    raise ValueError(f'{word} isn\'t a JSON number; the model has the string "{word}"')


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _innermost(error: ValidationError) -> ValidationError:
    """The fault itself, or where the schema has alternatives, the fault against the first: the one the model names."""
    while error.context:
        error = error.context[0]
    return error


def _open_ended(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema for a newer minor version, where columns, kinds and types of links may be added."""
    schema = copy.deepcopy(schema)
    for word in ("event", "summary", "link", "catalog"):
        schema[word]["additionalProperties"] = True
        for column in ("kind", "link"):
            if column in schema[word]["properties"]:
                schema[word]["properties"][column] = {"type": "string"}
    return schema
