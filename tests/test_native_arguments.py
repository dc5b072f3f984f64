"""Compiled code looks at whatever it is handed before it reads or writes there: each entry point, each argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ktrace.native import compiled

pytestmark = pytest.mark.skipif(compiled is None, reason="ktrace.native isn't built here")

CONSTANT, VARINT, FIXED, CODED, TEXT, MESSAGE = range(6)
ROWS = 3


def int64(*values: int) -> Any:
    return np.array(values, np.int64)


def int32(*values: int) -> Any:
    return np.array(values, np.int32)


def misaligned(width: int, count: int) -> Any:
    """An array that begins between two multiples of its values' width."""
    return np.frombuffer(bytes(width * count + 1), f"<i{width}", offset=1)


def bad_arrays(kind: str, count: int) -> dict[str, Any]:
    """What no array of so many values of a kind is."""
    width = np.dtype(kind).itemsize
    return {
        "another type": np.zeros(count, np.float32 if width == 8 else np.float64),
        "as many bits, no whole numbers": np.zeros(count, "f8" if width == 8 else "f4" if width == 4 else "S1"),
        "other byte order": np.zeros(count, np.dtype(kind).newbyteorder(">")) if width > 1 else np.zeros(count, ">u2"),
        "too long": np.zeros(count + 1, kind),
        "too short": np.zeros(count - 1, kind),
        "gaps": np.zeros(2 * count, kind)[::2],
        "backwards": np.zeros(count, kind)[::-1],
        "two dimensions": np.zeros((count, 1), kind),
        "none": np.zeros((), kind),
        "an integer": 1 << 60,
        "a list": [0] * count,
        "nothing": None,
        "text": "0" * count,
        "it may move": bytearray(count * width),
    }


def wrong(call: Callable[..., Any], *arguments: Any, name: str) -> None:
    """Asserts that a call is refused, and that the argument is named."""
    with pytest.raises((TypeError, ValueError), match=f"^({name}): "):
        call(*arguments)


# ---- lanes ----


def test_lanes_take_what_is_right() -> None:
    lane = int32(4, 0, 0)
    compiled.lanes(int64(0, 1, 2), int64(9, 8, 12), lane, 1)
    assert lane.tolist() == [4, 0, 1]


@pytest.mark.parametrize("what", bad_arrays("i8", ROWS))
@pytest.mark.parametrize("argument", ["begin", "end", "lane"])
def test_lanes_refuse_other_arrays(argument: str, what: str) -> None:
    given: dict[str, Any] = {"begin": int64(0, 1, 2), "end": int64(9, 8, 12), "lane": int32(0, 0, 0)}
    given[argument] = bad_arrays("i4" if argument == "lane" else "i8", ROWS)[what]
    with pytest.raises((TypeError, ValueError), match=r"^(begin|end|lane): "):
        compiled.lanes(*given.values(), 0)


@pytest.mark.parametrize("argument", [0, 1, 2])
def test_lanes_refuse_what_is_not_aligned(argument: int) -> None:
    given = [int64(0, 1, 2), int64(9, 8, 12), int32(0, 0, 0)]
    given[argument] = misaligned(given[argument].itemsize, ROWS)
    with pytest.raises(TypeError, match=r"^(begin|end|lane): values of the format"):
        compiled.lanes(*given, 0)


def test_lanes_refuse_to_write_what_is_read_only() -> None:
    lane = int32(0, 0, 0)
    lane.flags.writeable = False
    with pytest.raises(ValueError, match=r"^lane: an array that can't be written"):
        compiled.lanes(int64(0, 1, 2), int64(9, 8, 12), lane, 0)


@pytest.mark.parametrize("what", bad_arrays("i8", ROWS))
@pytest.mark.parametrize("argument", ["track", "begin", "end", "found"])
def test_enclosing_refuses_other_arrays(argument: str, what: str) -> None:
    given: dict[str, Any] = {"track": int32(0, 0, 0), "begin": int64(0, 1, 2), "end": int64(9, 8, 12)}
    given |= {"found": int64(0, 0, 0)}
    given[argument] = bad_arrays("i4" if argument == "track" else "i8", ROWS)[what]
    with pytest.raises((TypeError, ValueError), match=r"^(track|begin|end|found): "):
        compiled.enclosing(*given.values())


def test_enclosing_refuses_to_write_what_is_read_only() -> None:
    found = int64(0, 0, 0)
    found.flags.writeable = False
    with pytest.raises(ValueError, match=r"^found: an array that can't be written"):
        compiled.enclosing(int32(0, 0, 0), int64(0, 1, 2), int64(9, 8, 12), found)


def test_enclosing_survives_an_array_that_is_its_own_result() -> None:
    """The answer means nothing then; nothing outside is read or written."""
    both = int64(5, 3, 9)
    compiled.enclosing(int32(0, 0, 0), int64(0, 1, 2), both, both)
    assert set(both.tolist()) <= {-1, 0, 1}


@pytest.mark.parametrize("first", [-1, ROWS + 1, 1 << 40])
def test_lanes_refuse_a_first_slice_outside(first: int) -> None:
    with pytest.raises(ValueError, match=r"^first: "):
        compiled.lanes(int64(0, 1, 2), int64(9, 8, 12), int32(0, 0, 0), first)


def test_lanes_refuse_an_open_slice_without_a_lane() -> None:
    with pytest.raises(ValueError, match=r"^lane: -1, of slice 1"):
        compiled.lanes(int64(0, 1, 2), int64(9, 8, 12), int32(0, -1, 0), 2)


# ---- encode ----


def field(kind: int, values: Any = None, offsets: Any = None, data: Any = None, valid: Any = None) -> tuple[Any, ...]:
    return kind, b"\x08", b"", values, offsets, data, valid, []


def numbers() -> tuple[Any, ...]:
    return field(VARINT, np.arange(ROWS, dtype=np.uint64))


def pieces() -> dict[str, Any]:
    return {"codes": int32(0, 1, -1), "offsets": int64(0, 1, 3), "data": b"abc" + bytes(16)}


def texts() -> dict[str, Any]:
    return {"offsets": int64(0, 1, 1, 3), "data": b"abc"}


def ends() -> Any:
    return np.empty(ROWS, np.int64)


def encode(*fields: Any) -> bytes:
    return bytes(compiled.encode([(ROWS, list(fields))], int64(*range(ROWS)), ends()))


def test_fields_that_are_right() -> None:
    coded, text = pieces(), texts()
    assert encode(numbers()) == b"\x08\x00\x08\x01\x08\x02"
    assert encode(field(CODED, coded["codes"], coded["offsets"], coded["data"])) == b"\x08a\x08bc"
    assert encode(field(TEXT, None, **text)) == b"\x08a\x08\x08bc"
    assert encode((MESSAGE, b"\x0a", b"", None, None, None, np.array([True, False, True]), [numbers()])) == (
        b"\x0a\x02\x08\x00\x0a\x02\x08\x02"
    )


@pytest.mark.parametrize("what", bad_arrays("u8", ROWS))
@pytest.mark.parametrize("kind", [VARINT, FIXED])
def test_numbers_refuse_other_arrays(kind: int, what: str) -> None:
    wrong(encode, field(kind, bad_arrays("u8", ROWS)[what]), name="values")


@pytest.mark.parametrize("what", sorted(bad_arrays("?", ROWS).keys() - {"nothing"}))
def test_validity_refuses_other_arrays(what: str) -> None:
    wrong(encode, field(CONSTANT, valid=bad_arrays("?", ROWS)[what]), name="valid")


@pytest.mark.parametrize("what", bad_arrays("i4", ROWS))
def test_codes_refuse_other_arrays(what: str) -> None:
    wrong(encode, field(CODED, *(pieces() | {"codes": bad_arrays("i4", ROWS)[what]}).values()), name="codes")


@pytest.mark.parametrize(
    ("part", "value", "name"),
    [
        ("codes", int32(0, 2, -1), "offsets"),
        ("codes", int32(0, (1 << 31) - 1, -1), "offsets"),
        ("offsets", int64(0, 1), "offsets"),
        ("offsets", int64(), "offsets"),
        ("offsets", int64(-1, 1, 3), "offsets"),
        ("offsets", int64(0, 3, 1), "offsets"),
        ("offsets", int64(0, 1, 4), "data"),
        ("offsets", int64(0, 1, (1 << 63) - 1), "data"),
        ("offsets", int32(0, 1, 3), "offsets"),
        ("data", b"abc", "data"),
        ("data", b"", "data"),
        ("data", int64(0, 0, 0), "data"),
        ("data", None, "data"),
    ],
)
def test_pieces_lie_within_their_data(part: str, value: Any, name: str) -> None:
    """With as many bytes after them as a short copy takes."""
    wrong(encode, field(CODED, *(pieces() | {part: value}).values()), name=name)


@pytest.mark.parametrize(
    ("part", "value", "name"),
    [
        ("offsets", int64(0, 1, 1), "offsets"),
        ("offsets", int64(0, 2, 1, 3), "offsets"),
        ("offsets", int64(-8, 1, 1, 3), "offsets"),
        ("offsets", int64(0, 1, 1, 4), "data"),
        ("offsets", None, "offsets"),
        ("data", b"ab", "data"),
        ("data", "abc", "data"),
    ],
)
def test_texts_lie_within_their_data(part: str, value: Any, name: str) -> None:
    wrong(encode, field(TEXT, None, **(texts() | {part: value})), name=name)


@pytest.mark.parametrize("what", bad_arrays("i8", ROWS))
def test_the_order_refuses_other_arrays(what: str) -> None:
    order = bad_arrays("i8", ROWS)[what]
    wrong(
        compiled.encode, [(ROWS, [numbers()])], order, ends(), name="rows|ends" if what == "too short" else "order|ends"
    )


@pytest.mark.parametrize("order", [(0, 1, 1), (0, 1, 3), (0, 1, -1), (0, 1, 1 << 32), (0, 1, -1 << 63)])
def test_the_order_has_each_row_once(order: tuple[int, ...]) -> None:
    """A row that came twice would be written beyond the end."""
    wrong(compiled.encode, [(ROWS, [numbers()])], int64(*order), ends(), name="order")


@pytest.mark.parametrize("rows", [-1, ROWS + 1, 1 << 62])
def test_there_are_as_many_rows_as_in_the_order(rows: int) -> None:
    wrong(compiled.encode, [(rows, [field(CONSTANT)])], int64(*range(ROWS)), ends(), name="rows")


@pytest.mark.parametrize("what", bad_arrays("i8", ROWS))
def test_ends_refuse_other_arrays(what: str) -> None:
    rows = int64(*range(ROWS))
    wrong(compiled.encode, [(ROWS, [numbers()])], rows, bad_arrays("i8", ROWS)[what], name="ends")


def test_ends_are_those_of_messages() -> None:
    found = ends()
    compiled.encode([(ROWS, [field(VARINT, np.array([1, 300, 1], np.uint64))])], int64(1, 0, 2), found)
    assert found.tolist() == [3, 5, 7]
    found.flags.writeable = False
    wrong(compiled.encode, [(ROWS, [numbers()])], int64(*range(ROWS)), found, name="ends")


def test_what_is_beyond_all_memory_is_refused() -> None:
    """Sizes are added with care: an overflow would allocate a few bytes."""
    with pytest.raises((TypeError, ValueError, MemoryError)):
        compiled.encode(
            [(1 << 40, [(CONSTANT, b"x" * (1 << 24), b"", None, None, None, None, [])])], int64(0), int64(0)
        )


@pytest.mark.parametrize("kind", [-1, 6, 1 << 30])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    wrong(encode, field(kind), name="kind")


def test_messages_end_somewhere() -> None:
    fields: list[Any] = []
    fields.append((MESSAGE, b"\x0a", b"", None, None, None, None, fields))  # a message that contains itself
    wrong(compiled.encode, [(0, fields)], int64(), int64(), name="fields")


@pytest.mark.parametrize(
    "parts",
    [None, (), [None], [()], [(1,)], [(1, ())], [(1, [None])], [(1, [()])], [(1, [(0, "", "", 0, 0, 0, 0, 0)])]],
)
def test_parts_are_described_in_tuples(parts: Any) -> None:
    with pytest.raises(TypeError):
        compiled.encode(parts, int64(0), int64(0))


# ---- Events ----


@pytest.mark.parametrize("what", sorted(bad_arrays("i8", ROWS).keys() - {"too long", "too short"}))
@pytest.mark.parametrize("argument", [0, 1])
def test_moves_refuse_other_arrays(argument: int, what: str) -> None:
    moves = [int64(1, 2, 3), int64(0, 0, 0)]
    moves[argument] = bad_arrays("i8", ROWS)[what]
    wrong(compiled.Events([]).take, b"[]", 0, *moves, name="offsets|by")


def test_moves_are_pairs() -> None:
    wrong(compiled.Events([]).take, b"[]", 0, int64(1, 2), int64(1), name="by")


@pytest.mark.parametrize("text", [None, "[]", bytearray(b"[]"), memoryview(b"[]")])
def test_a_list_is_bytes(text: Any) -> None:
    """They end with a zero byte, and don't change."""
    with pytest.raises(TypeError):
        compiled.Events([]).take(text, 0, int64(), int64())


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((-1, b"x", False, [], []), "tag"),
        ((2, b"x", False, [], []), "tag"),
        ((0, b"x", False, [(b"name", 6, 0)], []), "kind"),
        ((0, b"x", False, [], [(b"name", -1, 0)]), "kind"),
        ((0, b"x", False, [(b"name", 0, 0)] * 200, [(b"name", 0, 0)] * 57), "shapes"),
        ((0, b"x", False, [b"name"], []), "column"),
        (None, "shapes"),
    ],
)
def test_shapes_are_described_in_tuples(shape: Any, name: str) -> None:
    wrong(compiled.Events, [shape], name=name)


@pytest.mark.parametrize("shape", [(0, b"x", 0, [("name", 0, 0)], []), (0, b"x", 0, (), ()), (0, "x", 0, [], []), ()])
def test_shapes_have_lists_of_keys_in_bytes(shape: Any) -> None:
    with pytest.raises(TypeError):
        compiled.Events([shape])


def test_places_beyond_64_bits_wrap_around() -> None:
    events = compiled.Events([(0, b"x", False, [], [])])
    assert events.take(b'[{"cat":"x"}]', (1 << 63) - 1, int64(0), int64(1)) == (1, 0, 0, [])
    ((_, ats, _),) = events.finish(1)
    assert np.frombuffer(ats, np.int64).tolist() == [1 - (1 << 63)]
    with pytest.raises(OverflowError):
        events.take(b"[]", 1 << 63, int64(), int64())
    with pytest.raises(OverflowError):
        events.finish(1 << 40)
