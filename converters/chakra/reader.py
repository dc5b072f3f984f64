"""Turns the nodes of a Chakra trace into rows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from ktrace.conversion import Conversion
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.kit.columnar.protobuf import FIXED32, FIXED64, LENGTH, fields_of
from ktrace.kit.varint import varint
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_TYPES = (
    *("INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE"),
    *("COMM_RECV_NODE", "COMM_COLL_NODE", "STORAGE_NODE", "BATCH_NODE", "CHECKPOINT_NODE"),
)
_COLLECTIVE, _METADATA = 7, 1

#: Fields of a node, and of an attribute.
_ID, _NAME, _TYPE, _CONTROL, _DATA, _START, _DURATION, _ATTRIBUTE = 1, 2, 3, 4, 5, 6, 7, 10
_FLOATS = {(3, FIXED64): "<d", (5, FIXED32): "<f"}
_WHOLE = {7, 9, 11, 13, 27}

#: Times are below this many us.
_LATEST = (1 << 62) // 1000

#: Nodes that are looked at for a start.
_FIRST = 10_000


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an event for each node with a duration, a summary where no node has a start."""
    rows, report = RowBuilder(conversion), conversion.report
    rows.fact("source", facts={"tool": "Chakra"})
    with source.open(quiet=True) as stream:
        is_timed = any(_node(data).get(_START) for _, data in _messages(stream, _FIRST))
    if is_timed:
        rows.fact("clock", facts={"kind": "session"})
    with source.open() as stream:
        for number, data in _messages(stream):
            report.record()
            where = f"message {number}"
            if number == 0:
                report.used(outcome="catalog")
            elif data is None:
                report.issue("cut", where, "the last message is truncated")
            elif (node := _node(data)) and node.get(_TYPE) == _METADATA:
                report.used(outcome="catalog")
            elif problem := _add(rows, node, is_timed):
                report.issue(problem, where)
            else:
                report.used()
            yield from rows.ready()
    yield from rows.rest()


def _messages(stream: BinaryIO, most: int | None = None) -> Iterator[tuple[int, bytes | None]]:
    """Yields number and bytes of each message, None for one that breaks off. Raises DamagedInput beyond the limits."""
    number = 0
    while (most is None or number < most) and (size := _size(stream)) is not None:
        current().check_line(size, None, number)
        data = stream.read(size) if size >= 0 else b""
        yield number, data if len(data) == size else None
        number += 1


def _size(stream: BinaryIO) -> int | None:
    """The length of the next message, None at the end, -1 if it breaks off."""
    size = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            return None if shift == 0 else -1
        size |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return size
    return -1


def _node(data: bytes | None) -> dict[int, Any]:
    """The fields of a node; empty for what isn't one."""
    node: dict[int, Any] = {_CONTROL: [], _DATA: [], _ATTRIBUTE: []}
    try:
        for number, _, value in fields_of(data or b""):
            if number in (_CONTROL, _DATA):
                node[number] += [value] if isinstance(value, int) else _packed(value)
            elif number == _ATTRIBUTE:
                node[number] += [value] if isinstance(value, bytes) else []
            elif isinstance(value, bytes) == (number in (_NAME, 8, 9, 11)):
                node[number] = value
    except (IndexError, ValueError):
        return {}
    return node


def _packed(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def _attributes(parts: list[bytes]) -> dict[str, Any]:
    """The attributes that are single values: numbers, texts, true or false."""
    attributes: dict[str, Any] = {}
    for part in parts:
        try:
            fields = {number: (wire, value) for number, wire, value in fields_of(part)}
        except ValueError:
            continue
        _, name = fields.pop(1, (LENGTH, b""))
        for number, (wire, value) in fields.items():
            if isinstance(name, bytes) and (one := _single(number, wire, value)) is not None:
                attributes[name.decode("utf-8", "replace")] = one
    return attributes


def _single(number: int, wire: int, value: int | bytes) -> Any:
    if isinstance(value, int) and (kind := _FLOATS.get((number, wire))):
        return struct.unpack(kind, value.to_bytes(struct.calcsize(kind), "little"))[0]
    if number == 29 and isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if number not in _WHOLE or not isinstance(value, int):
        return None
    if number == 27:
        return bool(value)
    return value - (1 << 64) if value >= 1 << 63 and number in (7, 9) else value


def _add(rows: RowBuilder, node: dict[int, Any], is_timed: bool) -> str:
    """Adds a node; returns the kind of issue where it can't be one."""
    if not node or _NAME not in node:
        return "bad-record"
    start, duration, type_ = (node.get(number, 0) for number in (_START, _DURATION, _TYPE))
    if start >= _LATEST or duration >= _LATEST:
        return "time-range"
    args = _attributes(node[_ATTRIBUTE])
    args |= {"node": node.get(_ID, 0), "type": _TYPES[type_] if type_ < len(_TYPES) else type_}
    args |= {key: node[number] for key, number in (("ctrl_deps", _CONTROL), ("data_deps", _DATA)) if node[number]}
    name = node[_NAME].decode("utf-8", "replace")
    columns: dict[str, Any] = {"args": args, "operation": "collective" if type_ == _COLLECTIVE else None}
    on_device = args.get("is_cpu_op") in (False, 0)
    if on_device:
        columns["device"] = 0
    kind = "kernel" if on_device else "op"
    if is_timed:
        track = None if on_device else args["type"]
        rows.event(kind, name, ts=start * 1000, dur=duration * 1000, track=track, **columns)
    else:
        rows.summary(kind, name, unit="ns", count=1, total=float(duration * 1000) if duration else None, **columns)
    return ""
