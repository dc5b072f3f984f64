"""Fields of many messages, parsed in lockstep, are those of each message, parsed alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import examples

from ktrace.kit.columnar.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    Fields,
    bounds_of,
    fields_of,
    parse,
    run_of,
)

Field = tuple[int, int, int | bytes]


def varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def encoded(fields: list[Field]) -> bytes:
    found = b""
    for number, wire, value in fields:
        found += varint(number << 3 | wire)
        if isinstance(value, bytes):
            found += varint(len(value)) + value
        else:
            found += varint(value) if wire == VARINT else value.to_bytes(8 if wire == FIXED64 else 4, "little")
    return found


def parsed(messages: list[bytes]) -> tuple[list[list[Field]], set[int]]:
    """The fields of each message by tag, in the order of their places, and the messages that aren't valid."""
    data = np.frombuffer(b"".join(messages), np.uint8)
    end = np.cumsum([len(message) for message in messages])
    fields = parse(data, end - [len(message) for message in messages], end)
    rows: list[list[tuple[int, Field]]] = [[] for _ in messages]
    for tag in fields.tags:
        for owner, value, start in zip(*(column.tolist() for column in fields.get(tag >> 3, tag & 7)), strict=True):
            text = data[start : start + value].tobytes() if tag & 7 == LENGTH else value
            rows[owner].append((start, (tag >> 3, tag & 7, text)))
    return [[field for _, field in sorted(row, key=lambda pair: pair[0])] for row in rows], set(fields.bad.tolist())


def same(messages: list[bytes]) -> set[int]:
    """Asserts that both ways agree about valid messages, and which aren't; returns these."""
    found, bad = parsed(messages)
    for number, message in enumerate(messages):
        try:
            alone = list(fields_of(message))
        except ValueError:
            assert number in bad
        else:
            assert number not in bad
            assert found[number] == alone
    return bad


_NUMBERS = st.integers(0, 64).flatmap(lambda bits: st.integers(0, (1 << bits) - 1))
_FIELDS = st.one_of(
    st.tuples(st.sampled_from([1, 2, 15, 16, 2047, (1 << 29) - 1]), st.just(VARINT), _NUMBERS),
    st.tuples(st.sampled_from([1, 3]), st.just(FIXED64), st.integers(0, (1 << 64) - 1)),
    st.tuples(st.sampled_from([1, 3]), st.just(FIXED32), st.integers(0, (1 << 32) - 1)),
    st.tuples(st.sampled_from([1, 4]), st.just(LENGTH), st.binary(max_size=200)),
)
_MESSAGES = st.lists(_FIELDS, max_size=6).map(encoded)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(_MESSAGES, max_size=6), st.sampled_from([1, 3, 30]), st.randoms(use_true_random=False))
def test_any_messages(some: list[bytes], times: int, dice: random.Random) -> None:
    """Few and many, alike and mixed, also at the end of the data, where eight bytes can't be read at once."""
    messages = some * times
    dice.shuffle(messages)
    assert not same(messages)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(_MESSAGES | st.binary(max_size=30), min_size=1, max_size=6), st.integers(0, 40), st.data())
def test_damaged_messages(some: list[bytes], count: int, data: st.DataObject) -> None:
    """Cut, with bytes changed, or no messages at all; they don't damage their neighbours."""
    messages = [*some, *some * count]
    at = data.draw(st.integers(0, len(messages) - 1))
    size = data.draw(st.integers(0, len(messages[at])))
    messages[at] = messages[at][:size] + data.draw(st.binary(max_size=3))
    same(messages)


@pytest.mark.parametrize("count", [1, 23, 24, 100])
@pytest.mark.parametrize(
    "fault",
    [
        b"\x00\x01",  # field 0
        b"\x0b\x01",  # a group
        b"\x0a\x05abc",  # longer than the message
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length beyond 2^63
        b"\x08" + b"\xff" * 10 + b"\x01",  # a number of more than ten bytes
        b"\x08",
        b"\x09\x01\x02",
    ],
)
def test_a_fault_is_that_of_its_message_alone(fault: bytes, count: int) -> None:
    right = encoded([(1, VARINT, 300), (2, LENGTH, b"text")])
    messages = [*[right] * count, right + fault, *[right] * count]
    assert same(messages) == {count}


def test_a_long_message_among_short_ones() -> None:
    """Its fields are as many as all messages have: each step of lockstep would be for it alone."""
    fields: list[Field] = [(number % 3 + 1, VARINT, number) for number in range(20_000)]
    assert not same([*[encoded(fields[:3])] * 30, encoded(fields), *[encoded(fields[:3])] * 30])


def test_no_messages() -> None:
    assert parse(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)).tags == Fields(0).tags


@pytest.mark.parametrize("after", [b"", b"\x12\x00", b"\x0a", b"\x0a\xff", b"\x0a\xff\xff", b"\x0a" + b"\xff" * 11])
def test_a_run_has_all_messages_whose_heads_are_whole(after: bytes) -> None:
    sizes = [0, 1, 127, 128, 300, 16_383, 16_384, 2_097_152]
    block = b"head" + b"".join(b"\x0a" + varint(size) + bytes(size) for size in sizes)
    ends = run_of(block + after, 4, len(block + after), 0x0A)
    begin, end = bounds_of(block + after, 4, ends)
    assert (end - begin).tolist() == sizes
    assert ends[-1] == len(block)
    beyond = run_of(block[:-1], 4, len(block) - 1, 0x0A)
    assert beyond == ends
    assert run_of(block, 4, ends[2], 0x0A) == ends[:3]
    assert run_of(block, 4, len(block), 0x12) == []
