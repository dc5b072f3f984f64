"""Launches and their metrics as columns: a head row for each launch, followed by a row for each metric and rule.

id  parent  kind    name       metric                   unit  value   total   stream  registers  scope
1           kernel  gemm(..)   duration                 ns            896420  7       32         [forward]
2   1       metric  Duration   gpu__time_duration.sum   ns    896420                             [GPU Speed ..]
3   1       note    The grid   note                                                              [GPU Speed ..]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.dictionaries import words
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import dump_json
from ktrace.model.masks import present
from ktrace.model.row_builder import RowBuilder

from .ncu_cells import label_and_id, metric_id, numbers, unit_of

#: The number of collected rows that becomes batches is between these.
_MOST, _LEAST = 32_768, 1024

#: Characters of arguments after which launches become batches, too; and those that a row of another record counts for.
_HEAVY, _ROW = 1 << 24, 32

#: Metric -> the column of the launch that it fills, unless the page states it elsewhere.
_COLUMNS = {
    "launch__registers_per_thread": "registers",
    "launch__shared_mem_per_block_dynamic": "shared_dynamic",
    "launch__shared_mem_per_block_static": "static",
    "launch__cluster_size": "cluster_size",
    "launch__context_id": "context",
    "launch__stream_id": "stream",
    "launch__device_id": "device",
    **{f"launch__{size}_dim_{axis}": f"{size}_{axis}" for size in ("grid", "block") for axis in "xyz"},
}
_SIZES = {"launch__grid_size": "grid_x", "launch__block_size": "block_x"}
_DURATION = "gpu__time_duration.sum"

#: Values beyond these don't become integers: the first is the limit of exact doubles, the second that of int32.
_MOST_WHOLE, _MOST_REGISTERS = 2.0**53, 2.0**31


class Figure(NamedTuple):
    """A metric: what its values have in common."""

    kind: str
    name: str
    metric: str
    unit: str | None
    exponent: int
    scope: tuple[str, ...]
    place: str  # the column of the number: value, or avg if a line summarises several launches
    label: str = ""  # the readable name, if the name is an id


@dataclass
class _Group:
    """A head and the rows after it. Late rows have no `head`, only its id."""

    head: dict[str, Any] | None
    id: int
    count: int = 0
    args: dict[int, dict[str, Any] | str] = field(default_factory=dict)
    spans: dict[int, tuple[str, str]] = field(default_factory=dict)


class Launches:
    """Collects launches in the order of the source, and yields them as batches.

    `european`: numbers have decimal commas.
    """

    def __init__(self, conversion: Conversion, *, european: bool) -> None:
        self.profiled = 0
        self._most = min(_MOST, max(_LEAST, conversion.batch_rows))
        self._conversion = conversion
        self._european = european
        self._facts = RowBuilder(conversion)
        self._facts_seen: set[tuple[Any, ...]] = set()
        self._figures: list[Figure] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._made: list[Batch] = []
        self._weight = 0  # characters of collected arguments
        self._after: list[Batch] = []  # batches that follow the collected launches
        self._first = 1  # the id of the first collected row
        self._begin()

    def _begin(self) -> None:
        self._heads = 0
        self._groups: list[_Group] = []
        self._of: list[int] = []  # the figure of each row after a head
        self._texts: list[str] = []
        self._weight = 0

    def figure(
        self, name: str, unit: str, section: str = "", part: str = "", *, several: bool = False, label: str = ""
    ) -> int:
        """Returns the number of a metric, as printed in a part of a section of a page.

        `several`: its values summarise several launches.
        """
        key = (name, unit, section, part, several, label)
        number = self._numbers.get(key)
        if number is None:
            base, exponent = unit_of(unit)
            scope = tuple(filter(None, (section, part)))
            shown, metric = label_and_id(name)
            metric = metric or metric_id(name, base, section, part)
            name = shown
            place = "avg" if several else "value"
            number = self._add(key, Figure("metric", name, metric, base or None, exponent, scope, place, label))
        return number

    def _add(self, key: tuple[Any, ...], figure: Figure) -> int:
        self._figures.append(figure)
        self._numbers[key] = len(self._figures) - 1
        return len(self._figures) - 1

    def start(self, **head: Any) -> int:
        """Starts a launch, whose metrics follow. `args` is a dict. Returns its id."""
        self.profiled += head.get("kind", "kernel") == "kernel"
        if len(self._of) + self._heads >= self._most or self._weight > _HEAVY:
            self._finish()
        self._heads += 1
        self._groups.append(_Group(head, self._first + len(self._of) + self._heads - 1))
        return self._groups[-1].id

    def resume(self, identity: int) -> None:
        """Continues an earlier launch: the metrics that follow belong to it."""
        self._groups.append(_Group(None, identity))

    def metric(
        self, figure: int, text: str, span: tuple[str, str] | None = None, args: dict[str, Any] | str | None = None
    ) -> None:
        """Adds a value of the launch, '' for none; `span` are the smallest and the greatest of several values.

        `args` are the row's, as a dict or as JSON; "Metric Value" in them keeps a value that isn't a number.
        """
        group = self._groups[-1]
        if span:
            group.spans[group.count] = span
        if args:
            group.args[group.count] = args
            self._weight += len(args) if isinstance(args, str) else 0
        group.count += 1
        self._of.append(figure)
        self._texts.append(text)

    def metrics(self, figures: Iterable[int], texts: list[str]) -> None:
        """Adds many values of the launch."""
        self._groups[-1].count += len(texts)
        self._of.extend(figures)
        self._texts.extend(texts)

    def note(self, text: str, section: str, args: dict[str, Any]) -> None:
        """Adds a rule's message about the launch."""
        key = ("note", section)
        scope = (section,) if section else ()
        number = self._numbers.get(key)
        if number is None:
            number = self._add(key, Figure("note", "", "note", None, 0, scope, ""))
        self.metric(number, text, args=args)

    def add_after(self, batch: Batch) -> None:
        """Adds rows of other records that belong to the launch; they follow it in the output."""
        self._after.append(batch)
        self._weight += _ROW * len(batch)

    def fact(self, entity: str, **columns: Any) -> None:
        """Adds a fact to the catalog, once."""
        key = (entity, *((name, repr(value)) for name, value in sorted(columns.items())))
        if key not in self._facts_seen:
            self._facts_seen.add(key)
            self._facts.fact(entity, **columns)

    def ready(self) -> Iterator[Batch]:
        """Yields the batches that are complete."""
        yield from self._made
        self._made.clear()

    def rest(self) -> Iterator[Batch]:
        """Yields the remaining batches, and the catalog."""
        self._finish()
        yield from self.ready()
        yield from self._facts.rest()

    def _finish(self) -> None:
        """Makes batches of the collected launches."""
        if not self._groups:
            return
        rows = _Rows(self._groups, self._of, self._texts, self._figures, european=self._european)
        for host, device, name in rows.device_names():
            self.fact("device", host=host, device=device, name=name)
        columns = rows.columns(self._first, self._conversion.label)
        size = self._conversion.batch_rows
        self._made += [Batch("summaries", columns.slice(start, size)) for start in range(0, columns.num_rows, size)]
        self._made += self._after
        self._after = []
        self._first += columns.num_rows
        self._begin()


class _Rows:
    """The rows of whole launches. All heads precede all other rows until `columns` puts them in order."""

    def __init__(
        self, groups: list[_Group], of: list[int], texts: list[str], figures: list[Figure], *, european: bool
    ) -> None:
        self._groups, self._texts, self._figures = groups, texts, figures
        self._of = np.array(of, np.int64)
        self._counts = np.array([group.count for group in groups], np.int64)
        self._headed = np.array([group.head is not None for group in groups], np.bool_)
        self._heads = {group.id: group.head for group in groups if group.head is not None}
        self._group = np.repeat(np.arange(len(groups)), self._counts)
        exponents = np.array([figure.exponent for figure in figures] or [0], np.int64)
        self._is_note = np.array([figure.kind == "note" for figure in figures] or [False], np.bool_)[self._of]
        self._values = pa.nulls(len(texts), pa.float64())
        self._inexact = np.zeros(len(texts), np.bool_)
        measured = np.flatnonzero(~self._is_note)
        if len(measured):
            cells = texts if len(measured) == len(texts) else [texts[row] for row in measured.tolist()]
            values, inexact = numbers(cells, exponents[self._of[measured]], european=european)
            self._inexact[measured] = inexact
            where = np.full(len(texts), -1, np.int64)
            where[measured] = np.arange(len(measured))
            self._values = values.take(pa.array(where, mask=where < 0))
        self._european = european
        self._spans = self._read_spans()
        self._fill_heads()

    def _read_spans(self) -> dict[int, tuple[float | None, float | None]]:
        """Index of a row -> its smallest and greatest value."""
        begins = np.cumsum(self._counts) - self._counts
        places = [
            (int(begins[n]) + at, span) for n, group in enumerate(self._groups) for at, span in group.spans.items()
        ]
        if not places:
            return {}
        exponents = np.array([self._figures[self._of[place]].exponent for place, _ in places], np.int64)
        low, high = (
            numbers([span[side] for _, span in places], exponents, european=self._european)[0].to_pylist()
            for side in (0, 1)
        )
        return {place: (low[n], high[n]) for n, (place, _) in enumerate(places)}

    def _rows_of(self, metric: str) -> Iterator[tuple[dict[str, Any], int]]:
        """Yields (head, index of the row) for each value of a metric."""
        codes = [number for number, figure in enumerate(self._figures) if figure.metric == metric]
        for row in np.flatnonzero(np.isin(self._of, codes)).tolist():
            group = self._groups[int(self._group[row])]
            head = self._heads.get(group.id)
            if head is not None:
                yield head, row

    def _fill_heads(self) -> None:
        """Fills columns of the heads from metrics: duration, registers, shared memory, place. The first value wins."""
        values = self._values.to_numpy(zero_copy_only=False)
        for head, row in self._rows_of(_DURATION):
            if self._figures[self._of[row]].unit == "ns" and values[row] >= 0 and not head.keys() & {"total", "avg"}:
                if row in self._spans:
                    low, high = self._spans[row]
                    head |= {"avg": values[row], "min": low, "max": high}
                else:
                    head |= {"total": values[row], "count": 1}
        for metric, column in {**_COLUMNS, **_SIZES}.items():
            for head, row in self._rows_of(metric):
                value = values[row]
                if abs(value) < (_MOST_REGISTERS if column == "registers" else _MOST_WHOLE) and value == round(value):
                    head.setdefault(column, int(value))
        for group in self._groups:
            if group.head is not None:
                static = group.head.pop("static", None)
                if static is not None and "shared_dynamic" in group.head:
                    group.head["shared_memory"] = static + group.head["shared_dynamic"]

    def device_names(self) -> list[tuple[str | None, int, str]]:
        """(host, device, name) of each device whose name is among the metrics."""
        rows = self._rows_of("device__attribute_display_name")
        keys = {(head.get("host"), head["device"], self._texts[row]): None for head, row in rows if "device" in head}
        return [key for key in keys if key[2]]

    def columns(self, first: int, label: str) -> pa.RecordBatch:
        """All rows in order, numbered from `first`."""
        heads = [group.head for group in self._groups if group.head is not None]
        sizes = self._counts + self._headed
        begins = np.cumsum(sizes) - sizes
        total = int(sizes.sum())
        is_head = np.zeros(total, np.bool_)
        is_head[begins[self._headed]] = True
        order = np.empty(total, np.int64)
        order[is_head] = np.arange(len(heads))
        order[~is_head] = len(heads) + np.arange(len(self._of))
        self._order = pa.array(order)
        parents = np.array([group.id for group in self._groups], np.int64)[self._group]
        made: dict[str, pa.Array] = {
            "source": words([label], np.zeros(total, np.int32)),
            "id": pa.array(first + np.arange(total)),
            "parent": self._ordered(pa.nulls(len(heads), pa.int64()), pa.array(parents)),
        }
        self._add_words(made, heads)
        self._add_figures(made, heads)
        made["args"] = self._ordered(
            pa.array([dump_json(head["args"]) if head.get("args") else None for head in heads], pa.string()),
            self._own_args(),
        )
        schema = arrow_schema("summaries")
        used = [field for field in schema if field.name in made and made[field.name].null_count < total]
        return pa.RecordBatch.from_arrays(
            [made[field.name] for field in used], schema=pa.schema(field.with_nullable(True) for field in used)
        )

    def _ordered(self, heads: pa.Array, others: pa.Array) -> pa.Array:
        return pa.concat_arrays([heads, others]).take(self._order)

    def _add_words(self, made: dict[str, pa.Array], heads: list[dict[str, Any]]) -> None:
        """Adds the columns of text. Rows after a head have those of their figure; the name of a note is its text."""
        figures = self._figures
        made["kind"] = self._worded([head.get("kind", "kernel") for head in heads], [each.kind for each in figures])
        made["metric"] = self._worded(
            [head.get("metric", "duration") for head in heads], [each.metric for each in figures]
        )
        units = ["ns" if head.keys() & {"total", "avg"} else None for head in heads]
        made["unit"] = self._worded(units, [each.unit for each in figures])
        labels = [head.get("short_name") or None for head in heads], [each.label or None for each in figures]
        if any(labels[0]) or any(labels[1]):
            made["short_name"] = self._worded(*labels)
        notes = np.flatnonzero(self._is_note)
        names = [*(each.name for each in figures), *(self._texts[row] for row in notes.tolist())]
        code = self._of.copy()
        code[notes] = len(figures) + np.arange(len(notes))
        made["name"] = self._ordered(
            pa.array([head["name"] for head in heads], pa.string()), pa.array(names, pa.string()).take(pa.array(code))
        )
        lists = pa.list_(pa.string())
        scopes = pa.array([list(each.scope) or None for each in figures], lists).take(pa.array(self._of))
        made["scope"] = self._ordered(
            pa.array([list(head.get("scope") or ()) or None for head in heads], lists), scopes
        )

    def _worded(self, of_heads: list[str | None], of_figures: list[str | None]) -> pa.DictionaryArray:
        """A column of few words, in order: of each head its own, of each other row that of its figure."""
        distinct = list(dict.fromkeys([*of_heads, *of_figures]))
        code = {word: number for number, word in enumerate(distinct)}
        heads, figures = (np.array([code[word] for word in each], np.int64) for each in (of_heads, of_figures))
        return _words(distinct, np.concatenate([heads, figures[self._of]])).take(self._order)

    def _add_figures(self, made: dict[str, pa.Array], heads: list[dict[str, Any]]) -> None:
        """Adds the columns of numbers, and those that only heads have."""
        several = np.array([figure.place == "avg" for figure in self._figures] or [False], np.bool_)[self._of]
        others: dict[str, pa.Array] = {"value": self._values}
        if several.any():
            values = self._values.to_numpy(zero_copy_only=False)
            absent = ~present(self._values)
            others = {
                "value": pa.array(values, mask=absent | several),
                "avg": pa.array(values, mask=absent | ~several),
            }
            for side, name in ((0, "min"), (1, "max")):
                side_values = [self._spans[row][side] if row in self._spans else None for row in range(len(self._of))]
                others[name] = pa.array(side_values, pa.float64())
        schema = arrow_schema("summaries")
        given = {name for head in heads for name in head} | others.keys()
        for name in given - made.keys() - {"kind", "name", "metric", "unit", "scope", "args"}:
            kind = schema.field(name).type
            if pa.types.is_dictionary(kind):
                kind = pa.string()
            head = pa.array([head.get(name) for head in heads], kind)
            column = self._ordered(head, others.get(name, pa.nulls(len(self._of), kind)))
            made[name] = column.dictionary_encode() if name == "host" else column

    def _own_args(self) -> pa.Array:
        """The `args` of metrics whose text contains more than their number, and of rules."""
        texts: list[str | None] = [None] * len(self._of)
        for row in np.flatnonzero(self._inexact & ~self._is_note).tolist():
            texts[row] = dump_json({"Metric Value": self._texts[row]})
        begins = np.cumsum(self._counts) - self._counts
        for number, group in enumerate(self._groups):
            for at, args in group.args.items():
                row = int(begins[number]) + at
                if isinstance(args, dict) and self._inexact[row] and not self._is_note[row]:
                    texts[row] = dump_json({"Metric Value": self._texts[row], **args})
                else:
                    texts[row] = args if isinstance(args, str) else dump_json(args)
        return pa.array(texts, pa.string())


def _words(distinct: list[str | None], codes: Int64) -> pa.DictionaryArray:
    """A column of words from their codes; None is null."""
    if None not in distinct:
        return words([word for word in distinct if word is not None], codes)
    none = distinct.index(None)
    kept = [word for word in distinct if word is not None]
    moved = codes - (codes > none)
    return pa.DictionaryArray.from_arrays(
        pa.array(moved.astype(np.int32), mask=codes == none), pa.array(kept, pa.string())
    )
