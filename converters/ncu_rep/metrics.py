"""The metrics of a launch, with the figures of their instances: a message each, taken apart as columns.

    metric    1: number of its name   2: value   3: instance, instance, ...   4: category
    instance  1: value that says what it is of   2: value
    value     1: text   2: float   3: double   4: 32 bit   5: 64 bit

What an instance is of is an address (figures by instruction), an opcode, a time (samples), or a number (of a GPU, of a
link, of registers).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ktrace.converters._shared.columnar.protobuf import FIXED32, FIXED64, LENGTH, VARINT, Column, Fields, parse
from ktrace.model.arrays import Float64, Int64, UInt8
from ktrace.model.json_text import dump_json

_NAME, _VALUE, _INSTANCE, _CATEGORY = 1, 2, 3, 4
_TEXT, _FLOAT, _DOUBLE, _UINT32, _UINT64 = 1, 2, 3, 4, 5

#: Bytes of metrics that are taken apart at once.
_AT_ONCE = 1 << 21

#: The category of samples that have a time each; times are ns since 1970.
SAMPLER = 1
_TIME = 10**18

Value = float | int | str | None


class Samples(NamedTuple):
    """Values over time, ns since 1970."""

    times: Int64
    values: Float64


class Metric(NamedTuple):
    """A metric: the number of its name, its value if it has one, and what its instances say.

    `instances` are pairs, `samples` those of which each has a time.
    """

    name: int
    value: Value
    instances: list[tuple[Value, Value]]
    samples: Samples | None


def metrics_of(messages: list[bytes]) -> Iterator[Metric | None]:
    """The metrics in their order; None for one that is damaged."""
    for part in _parts(messages):
        yield from _together(part)


def _parts(messages: Iterable[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for message in messages:
        if part and size + len(message) > _AT_ONCE:
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message)
    if part:
        yield part


def _together(messages: list[bytes]) -> Iterator[Metric | None]:
    """Some metrics, all of whose instances are taken apart at once."""
    sizes = np.array([len(message) for message in messages], np.int64)
    data = np.frombuffer(b"".join(messages) + bytes(32), np.uint8)
    ends = np.cumsum(sizes)
    fields = parse(data, ends - sizes, ends)
    bad = set(fields.bad.tolist())
    count = len(messages)
    names = fields.get(_NAME, VARINT).last(count).tolist()
    named = fields.get(_NAME, VARINT).has(count)
    categories = fields.get(_CATEGORY, VARINT).last(count).tolist()
    values = _values(data, fields.get(_VALUE, LENGTH), count)
    instances = _in_order(fields.get(_INSTANCE, LENGTH))
    inner = parse(data, instances.start, instances.start + instances.value.astype(np.int64))
    keys = _Values(data, inner, _NAME)
    figures = _Values(data, inner, _VALUE)
    bad |= set(instances.owner[inner.bad].tolist()) if len(inner.bad) else set()
    cuts = np.searchsorted(instances.owner, np.arange(count + 1)).tolist()
    for number in range(count):
        if number in bad or not named[number]:
            yield None
            continue
        first, last = cuts[number], cuts[number + 1]
        samples = _samples(keys, figures, first, last) if categories[number] == SAMPLER else None
        pairs = [] if samples else list(zip(keys.texts(first, last), figures.texts(first, last), strict=True))
        yield Metric(names[number], values[number], pairs, samples)


def _in_order(column: Column) -> Column:
    """The values of a repeated field in the order in which they stand."""
    order = np.argsort(column.start, kind="stable")
    return Column(column.owner[order], column.value[order], column.start[order])


def _values(data: UInt8, spans: Column, count: int) -> list[Value]:
    """The value of each of `count` metrics, None where there is none."""
    inner = parse(data, spans.start, spans.start + spans.value.astype(np.int64))
    found: list[Value] = [None] * count
    texts = _of(data, inner)
    for owner, value in zip(spans.owner.tolist(), texts, strict=True):
        found[owner] = value
    return found


class _Values:
    """The values in a field of instances: numbers and texts, by the number of the instance."""

    def __init__(self, data: UInt8, outer: Fields, number: int) -> None:
        spans = outer.get(number, LENGTH)
        self._at = np.full(outer.count, -1, np.int64)
        self._at[spans.owner] = np.arange(len(spans.owner))
        self._inner = parse(data, spans.start, spans.start + spans.value.astype(np.int64))
        self._all = _of(data, self._inner)

    def texts(self, first: int, last: int) -> list[Value]:
        """The values of those instances."""
        return [self._all[at] if at >= 0 else None for at in self._at[first:last].tolist()]


def _of(data: UInt8, inner: Fields) -> list[Value]:
    """The value that each message says."""
    found: list[Value] = [None] * inner.count
    for number in (_UINT32, _UINT64):
        whole = inner.get(number, VARINT)
        for owner, value in zip(whole.owner.tolist(), whole.value.tolist(), strict=True):
            found[owner] = value
    double = inner.get(_DOUBLE, FIXED64)
    for owner, figure in zip(double.owner.tolist(), double.value.view(np.float64).tolist(), strict=True):
        found[owner] = figure
    single = inner.get(_FLOAT, FIXED32)
    singles = single.value.astype(np.uint32).view(np.float32)
    for owner, short in zip(single.owner.tolist(), singles, strict=True):
        found[owner] = float(str(short))  # the shortest decimal that is this float
    text = inner.get(_TEXT, LENGTH)
    for owner, size, start in zip(*(part.tolist() for part in text), strict=True):
        found[owner] = data[start : start + size].tobytes().decode("utf-8", "replace")
    return found


def _samples(keys: _Values, figures: _Values, first: int, last: int) -> Samples | None:
    """The instances as samples, if each has a time and a number."""
    times, values = keys.texts(first, last), figures.texts(first, last)
    whole = all(isinstance(time, int) and _TIME < time < 1 << 63 for time in times)
    if not times or not whole or not all(isinstance(value, (int, float)) for value in values):
        return None
    return Samples(np.array(times, np.int64), np.array(values, np.float64))


def instances_json(pairs: list[tuple[Value, Value]], start: int | None) -> str:
    """The instances as JSON: an object by what they are of, or a list of pairs where two are of the same.

    Addresses of instructions are said as offsets from `start`, the address of the function, if it is known.
    """
    said = [(_key(key, start), value) for key, value in pairs]
    keyed: dict[str, Any] = dict(said)
    return dump_json(keyed if len(keyed) == len(said) else [list(pair) for pair in said])


#: Beyond it a whole number is an address, and the greatest function that is thought of.
_ADDRESS, _FUNCTION = 10**9, 1 << 28


def _key(key: Value, start: int | None) -> str:
    if isinstance(key, int) and start is not None and key > _ADDRESS and 0 <= key - start < _FUNCTION:
        return f"+{key - start:#x}"
    return "" if key is None else str(key)
