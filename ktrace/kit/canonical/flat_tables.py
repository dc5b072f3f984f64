"""Flat tables of canonical rows: batches as one table with fixed columns, and back. Parquet, Arrow and CSV share them.

    record   source  id  ts    kind    name  dur   metric    avg
    event    run     1   1000  kernel  gemm  40
    summary  run     2         kernel  gemm        duration  41.5

Rows are separated by record. Columns and kinds that the record, or this version of the model, doesn't have are kept
in `args` and reported. A row without a required value, or with a value that isn't of the column's type, is skipped
as "bad-record" with its number.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.canonical import RECORD, extra_columns, is_json, kinds
from ktrace.model.arrays import Int64, is_number
from ktrace.model.batch import Batch, arrow_schema, is_required, union_schema
from ktrace.model.json_text import MOST_LEVELS, NOT_JSON, decoded, dump_json, load_json, refuse_deep
from ktrace.model.schema import RECORDS, WORD, fields
from ktrace.output import Sink
from ktrace.report import Report

Faults = dict[int, str]

#: The numbers of rows: a range where they are consecutive.
Numbers = range | Int64

_CODED = pa.dictionary(pa.int32(), pa.string())


def record_of_columns(names: list[str]) -> str | None:
    """The record of a table without the column `record`, found by the record's required columns."""
    for record in RECORDS:
        required = {field.name for field in arrow_schema(record) if not field.nullable}
        if required <= set(names) and set(names) & set(arrow_schema(record).names) > required:
            return record
    return None


class FlatRows:
    """Turns slices of a flat table into batches. `record` is None for the union of all records."""

    def __init__(self, conversion: Conversion, record: str | None) -> None:
        self._report = conversion.report
        self._record = record

    def batches(self, rows: pa.RecordBatch, first: int, selection: pa.BooleanArray | None = None) -> Iterator[Batch]:
        """Counts the rows, then yields their batches. `first` is the number of the first row.

        With `selection`, the other rows are ignored.
        """
        numbers: Numbers = range(first, first + rows.num_rows)
        if selection is not None:
            rows, numbers = rows.filter(selection), _at(numbers, selection)
        rows = _once(rows)
        self._report.record(rows.num_rows)
        if self._record:
            yield from self._of_record(self._record, rows, numbers)
            return
        column = decoded(rows.column("record"))
        if not pa.types.is_string(column.type):
            column = pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
        words = column.unique().to_pylist()
        if len(words) == 1 and words[0] in RECORD:
            yield from self._of_record(RECORD[words[0]], rows, numbers)
            return
        for word, record in RECORD.items():
            if word in words:
                of_record = pc.fill_null(pc.equal(column, word), False)
                yield from self._of_record(record, rows.filter(of_record), _at(numbers, of_record))
        unknown = pc.invert(pc.is_in(column, pa.array(list(RECORD))))
        for number, word in zip(_at(numbers, unknown), column.filter(unknown).to_pylist(), strict=True):
            self._bad(number, f"record: {json.dumps(word)} isn't one of {', '.join(RECORD)}")

    def _of_record(self, record: str, rows: pa.RecordBatch, numbers: Numbers) -> Iterator[Batch]:
        columns, faults = self._typed(record, rows)
        for row, reason in sorted(faults.items()):
            self._bad(numbers[row], reason)
        if faults:
            whole = pa.array([row not in faults for row in range(len(numbers))], pa.bool_())
            columns = {name: column.filter(whole) for name, column in columns.items()}
            numbers, rows = _at(numbers, whole), rows.filter(whole)
        if not len(numbers):
            return
        self._keep_unknown(record, rows, columns, numbers)
        self._report.used(len(numbers), outcome="catalog" if record == "catalog" else None)
        yield Batch(record, pa.RecordBatch.from_pydict(columns))

    def _bad(self, number: int, reason: str) -> None:
        self._report.issue("bad-record", f"row {number}", reason)

    def _typed(self, record: str, rows: pa.RecordBatch) -> tuple[dict[str, pa.Array], Faults]:
        """The columns of the record, as the model's types, and the faults by row."""
        faults: Faults = {}
        columns: dict[str, pa.Array] = {}
        names = set(rows.schema.names)
        for field in arrow_schema(record):
            given = rows.column(field.name) if field.name in names else pa.nulls(rows.num_rows)
            if given.null_count == len(given) and field.nullable:
                continue
            column = _cast(given, field.type, field.name, faults)
            _check(record, field.name, column, faults)
            columns[field.name] = column
        for name in rows.schema.names:
            if name.startswith("x_") and rows.column(name).null_count < rows.num_rows:
                columns[name] = _argument(rows.column(name))
        return columns, faults

    def _keep_unknown(self, record: str, rows: pa.RecordBatch, columns: dict[str, pa.Array], numbers: Numbers) -> None:
        """Puts the values of unknown columns and kinds into `args` (`facts` of the catalog)."""
        unknown: dict[str, pa.Array] = {}
        names = {"record", *arrow_schema(record).names}
        for name in rows.schema.names:
            if name not in names and not name.startswith("x_"):
                values = rows.column(name)
                if values.null_count < len(values):
                    unknown[f"${name}"] = _argument(values)
                    first = numbers[pc.index(pc.is_valid(values), True).as_py()]
                    self._report.issue(
                        "unknown-column",
                        f"row {first}",
                        f"{name} isn't a column of {record}",
                        len(values) - values.null_count,
                    )
        if record in ("events", "summaries"):
            self._known_kinds(record, columns, numbers, unknown)
        if unknown and record == "catalog":
            columns["facts"] = folded(columns.get("facts"), unknown)
        else:
            columns.update({f"args.{name}": values for name, values in unknown.items()})

    def _known_kinds(
        self, record: str, columns: dict[str, pa.Array], numbers: Numbers, unknown: dict[str, pa.Array]
    ) -> None:
        """Replaces unknown kinds by range, or by instant where there is no duration."""
        words = columns["kind"].unique().to_pylist()
        strange = {kind for kind in words if kind not in kinds(record) and not kind.startswith("x_")}
        if not strange:
            return
        given = columns["kind"].to_pylist()
        durations = columns["dur"].is_valid().to_pylist() if "dur" in columns else [record == "summaries"] * len(given)
        read = [
            kind if kind not in strange else "range" if lasting or record == "summaries" else "instant"
            for kind, lasting in zip(given, durations, strict=True)
        ]
        columns["kind"] = pa.array(read, arrow_schema(record).field("kind").type)
        unknown["$kind"] = pa.array([kind if kind in strange else None for kind in given], pa.string())
        for number, kind, now in zip(numbers, given, read, strict=True):
            if kind in strange:
                self._report.issue("unknown-kind", f"row {number}", f"kind {json.dumps(kind)}, read as {now}")


def _at(numbers: Numbers, mask: pa.BooleanArray) -> Numbers:
    """The numbers of the rows that a mask selects."""
    whole = np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers
    result: Numbers = whole[mask.to_numpy(zero_copy_only=False)]
    return result


def _cast(column: pa.Array, kind: pa.DataType, name: str, faults: Faults) -> pa.Array:
    """The column as `kind`; texts may stay a dictionary. A value that can't be cast becomes null, with a fault."""
    if column.type == kind or (pa.types.is_string(kind) and column.type == _CODED):
        return column
    given = decoded(column)
    if pa.types.is_list(kind) and pa.types.is_string(given.type):
        return _each(given, kind, name, faults, _text_list)
    try:
        return given.cast(kind) if not pa.types.is_dictionary(kind) else _encoded(given.cast(pa.string()), kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if pa.types.is_dictionary(kind) or not pa.types.is_primitive(kind):
            return _each(given, kind, name, faults, str)
        return _each(given, kind, name, faults, lambda value: _number(value, kind))


def _encoded(text: pa.StringArray, kind: pa.DictionaryType) -> pa.DictionaryArray:
    return text.dictionary_encode().cast(kind)


def _each(column: pa.Array, kind: pa.DataType, name: str, faults: Faults, convert: Callable[[Any], Any]) -> pa.Array:
    """The column, converted one value at a time."""
    values: list[Any] = []
    for row, value in enumerate(column.to_pylist()):
        try:
            values.append(None if value is None else convert(value))
        except (ValueError, OverflowError, TypeError, pa.ArrowException):  # a list is neither a number nor a text
            values.append(None)
            faults.setdefault(row, f"{name}: {json.dumps(value, default=str)} isn't {_meaning(kind)}")
    return pa.array(values, kind)


def _number(value: Any, kind: pa.DataType) -> Any:
    """A number from a text or from another number. Raises ValueError and ArrowInvalid."""
    text = value.strip() if isinstance(value, str) else value
    if not text and isinstance(text, str):
        return None
    if pa.types.is_integer(kind):
        try:
            return pa.scalar(text).cast(kind).as_py()
        except pa.ArrowInvalid:
            return pa.scalar(_integral(str(text)), kind).as_py()
    return float(text)


def _integral(text: str) -> int:
    """The integer in a text such as 12.0 or 1e3. Raises ValueError for others and beyond 20 digits."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None
    if not number.is_finite() or number.adjusted() >= 20 or number != number.to_integral_value():
        raise ValueError(text)
    return int(number)


def _text_list(text: str) -> list[str]:
    value = load_json(text)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(text)
    return value


def _meaning(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return f"an integer of {kind.bit_width} bits"
    return "a number" if pa.types.is_floating(kind) else "a JSON list of texts" if pa.types.is_list(kind) else "a text"


def _check(record: str, name: str, column: pa.Array, faults: Faults) -> None:
    """Adds a fault for each row with a value that the schema forbids."""
    spec = fields(record)[name]
    if is_required(record, name) and column.null_count:
        _add_faults(pc.is_null(column), column, f"{name}: is missing", faults)
    if "minimum" in spec and spec["minimum"] > -(2**31):
        _add_faults(pc.less(column, spec["minimum"]), column, f"{name}: {{}} is less than {spec['minimum']}", faults)
    if "enum" in spec:
        allowed = pa.array([*spec["enum"], None])
        strange = _of_words(column, lambda words: pc.invert(pc.is_in(words, allowed)))
        _add_faults(strange, column, f"{name}: {{}} isn't one of {', '.join(spec['enum'])}", faults)
    if "minLength" in spec:
        _add_faults(_of_words(column, lambda words: pc.equal(words, "")), column, f"{name}: is empty", faults)
    if is_json(record, name) and not _are_objects(column):
        strange = pa.array([text is not None and not _is_object(text) for text in column.to_pylist()], pa.bool_())
        _add_faults(strange, column, f"{name}: isn't a JSON object", faults)


def _of_words(column: pa.Array, test: Callable[[pa.Array], pa.BooleanArray]) -> pa.BooleanArray:
    """The results of a test for the texts of a column; texts of a dictionary are tested once."""
    if not pa.types.is_dictionary(column.type):
        return test(column)
    return test(column.dictionary).take(column.indices)


class _Object(msgspec.Struct, gc=False):
    """Any JSON object: its members are parsed, not kept, so that the garbage collector needn't know of it."""


_OBJECT = msgspec.json.Decoder(_Object)


def _is_object(text: str) -> bool:
    try:
        refuse_deep(text.encode())
        _OBJECT.decode(text)
    except NOT_JSON:
        return False
    return True


def _are_objects(texts: pa.StringArray) -> bool:
    """Whether each text is an object, checked together. False also where each text needs its own check.

    JSON never has } and { with only a line end between them, so the part between two line ends was one text.
    """
    texts = texts.drop_null()
    if not pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py():
        return False
    lines = pc.binary_join_element_wise(texts, "\n", "")
    try:
        if (pc.max(pc.binary_length(texts)).as_py() or 0) > MOST_LEVELS:
            refuse_deep(lines.buffers()[2] or b"")
        return len(_OBJECT.decode_lines(lines.buffers()[2] or b"")) == len(texts)
    except NOT_JSON:
        return False


def _add_faults(wrong: pa.BooleanArray, column: pa.Array, reason: str, faults: Faults) -> None:
    if pc.any(wrong).as_py():
        for row in pc.indices_nonzero(pc.fill_null(wrong, False)).to_pylist():
            faults.setdefault(row, reason.format(json.dumps(column[row].as_py())))


def folded(facts: pa.Array | None, unknown: dict[str, pa.Array]) -> pa.StringArray:
    """Facts with unknown columns added."""
    count = len(next(iter(unknown.values())))
    folded = []
    for row in range(count):
        text = facts[row].as_py() if facts is not None else None
        more = {name: values[row].as_py() for name, values in unknown.items() if values[row].is_valid}
        folded.append(dump_json((load_json(text) if text else {}) | more) if more else text)
    return pa.array(folded, pa.string())


def _argument(column: pa.Array) -> pa.Array:
    """A column of an argument, as one of the types that arguments have; any other, such as lists and dates, as JSON."""
    kind = column.type
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return column
    if is_number(kind):
        with suppress(pa.ArrowInvalid):  # beyond 64 bits
            return column.cast(pa.int64() if pa.types.is_integer(kind) else pa.float64())
    texts = [None if value is None else dump_json(value).encode() for value in column.to_pylist()]
    return pa.array(texts, pa.binary())


def _once(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with each name of a column once: further columns of a name are `name#2`, and so become arguments."""
    names = rows.schema.names
    if len(set(names)) == len(names):
        return rows
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return pa.RecordBatch.from_arrays(rows.columns, names=unique)


#: Rows collected before the columns of the table are fixed, and for each further part of it.
PART = 131_072

#: Bytes of columns at which a part is full although it has fewer rows.
PART_BYTES = 64 << 20


class FlatTable:
    """Collects batches and yields them as Arrow tables of one schema, about `PART` rows at a time.

    The columns are those of `record`, or for None the column `record` and the union of all records; then the columns
    of other packages that occur in the first part. Later ones are kept in `args` and reported.
    """

    def __init__(self, record: str | None, report: Report) -> None:
        self._record = record
        self._report = report
        self._waiting: list[Batch] = []
        self._rows = self._bytes = 0
        self._schema: pa.Schema | None = None
        self._nulls: dict[pa.DataType, pa.Array] = {}

    def add(self, batch: Batch) -> Iterator[pa.Table]:
        """Adds a batch and yields the parts of the table that are full."""
        for offset in range(0, len(batch), PART):
            part = Batch(batch.record, batch.columns.slice(offset, PART))
            if self._rows and self._rows + len(part) > PART:
                yield self._part()
            self._waiting.append(part)
            self._rows += len(part)
            self._bytes += part.columns.nbytes
            if self._rows >= PART or self._bytes >= PART_BYTES:
                yield self._part()

    def rest(self) -> pa.Table:
        """The remaining rows; the table has its schema even without rows."""
        return self._part()

    def _part(self) -> pa.Table:
        if self._schema is None:
            columns = {
                field.name: field.type for field in (arrow_schema(self._record) if self._record else union_schema())
            }
            for batch in self._waiting:
                for name in extra_columns(batch):
                    kind = batch.columns.schema.field(name).type
                    columns.setdefault(name, kind.value_type if pa.types.is_dictionary(kind) else kind)
            self._schema = pa.schema(columns.items())
        parts = [
            pa.RecordBatch.from_arrays(self._columns(batch, self._schema), schema=self._schema)
            for batch in self._waiting
        ]
        self._waiting, self._rows, self._bytes = [], 0, 0
        return pa.Table.from_batches(parts, self._schema).unify_dictionaries()

    def _columns(self, batch: Batch, schema: pa.Schema) -> list[pa.Array]:
        columns = set(arrow_schema(batch.record).names)
        late = {name: batch.columns.column(name) for name in extra_columns(batch) if name not in schema.names}
        home = "facts" if batch.record == "catalog" else "args"
        for name in late:
            self._report.issue("unknown-column", name, "came after the columns of the table were fixed", len(batch))
        arrays = []
        for field in schema:
            if field.name == "record" and not self._record:
                words = pa.repeat(pa.scalar(0, pa.int32()), len(batch))
                array = pa.DictionaryArray.from_arrays(words, [WORD[batch.record]])
            elif field.name == home:
                text = batch.args_text() if home == "args" else batch.column(home)
                array = folded(text, late) if late else text
            elif batch.has(field.name) and (field.name in columns or field.name.startswith("x_")):
                array = batch.columns.column(field.name)
            else:
                array = self._null(field.type, len(batch))
            arrays.append(_as(array, field.type))
        return arrays

    def _null(self, kind: pa.DataType, rows: int) -> pa.Array:
        """A column of nulls: a slice of one array per type, because tables have many such columns."""
        nulls = self._nulls.get(kind)
        if nulls is None or len(nulls) < rows:
            nulls = self._nulls[kind] = pa.nulls(max(rows, 1 << 16), kind)
        return nulls.slice(0, rows)


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind and not (pa.types.is_dictionary(kind) and array.dictionary.null_count):
        return array
    array = decoded(array)
    return array.cast(pa.string()).dictionary_encode() if pa.types.is_dictionary(kind) else array.cast(kind)


class FlatWriter(ABC):
    """A TableWriter of one flat table: all records with the union of their columns, or one record with its own."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._table = conversion.options.get("table")
        self._stream = sink.open()
        self._rows = FlatTable(self._table, conversion.report)

    def write(self, batch: Batch) -> int:
        """Writes the rows and returns how many it kept."""
        if self._table not in (None, batch.record):
            return 0
        for part in self._rows.add(batch):
            self._write(part)
        return len(batch)

    def close(self) -> None:
        """Writes the remaining rows and the end of the file."""
        self._write(self._rows.rest())
        self._end()

    @abstractmethod
    def _write(self, part: pa.Table) -> None:
        """Writes rows; the first ones decide the columns."""

    @abstractmethod
    def _end(self) -> None:
        """Writes what follows the last row."""
