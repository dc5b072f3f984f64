"""Pickles of plain values are read as Python reads them; all others are refused."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from typing import Any

import pytest

import ktrace.kit.torch as plain
from ktrace.errors import DamagedInput

VALUE: dict[str, Any] = {
    "texts": ["", "é", "x" * 300, "y" * 70_000],
    "numbers": [0, 255, 256, 65_535, 65_536, -1, 2**31, -(2**40), 2**63, 2**100, 1.5, float("-inf")],
    "rest": (None, True, False, b"", b"z" * 300, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {}, [[]], [{}]),
    "keys": {1: 2, 2.5: 3, None: 4, b"b": 5, False: 6},
    "many": list(range(3_000)),
    "pairs": {str(number): number for number in range(2_500)},
}
SHARED = [1, 2]
VALUE["shared"] = [SHARED, SHARED]


def read(data: bytes, **options: Any) -> Any:
    return plain.read_pickle(io.BytesIO(data), "x.pickle", "write it again", **options)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_are_those_that_python_reads(protocol: int) -> None:
    value = VALUE if protocol > 2 else {key: VALUE[key] for key in VALUE if key not in ("rest", "keys")}  # with bytes
    data = pickle.dumps(value, protocol)
    found = read(data)
    assert (found.value, found.is_cut) == (pickle.loads(data), False)
    assert found.value["shared"][0] is found.value["shared"][1]


def test_opcodes_in_other_orders_than_python_writes() -> None:
    """What a C++ writer may use: MARK with APPENDS for one value, LONG1 of 8 bytes, TUPLE and DICT by marks."""
    data = b"\x80\x02](\x8a\x08" + (7).to_bytes(8, "little") + b"e."
    assert read(data).value == [7] == pickle.loads(data)
    data = b"\x80\x02(K\x01(K\x02K\x03td."
    assert read(data).value == {1: (2, 3)} == pickle.loads(data)


class _Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/ktrace-was-here",)


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("value", [_Evil(), {"a": [_Evil()]}, {1, 2}, complex(1, 2), range(3), print, bytearray(b"x")])
def test_nothing_is_imported_or_called(protocol: int, value: Any) -> None:
    with pytest.raises(DamagedInput, match=r"pickle of plain values: (.* never does|opcode .*)") as caught:
        read(pickle.dumps(value, protocol))
    assert caught.value.where and caught.value.where.startswith("byte ") and caught.value.remedy == "write it again"


@pytest.mark.parametrize("code", [op.code for op in pickletools.opcodes])
def test_every_opcode_alone_is_refused_or_harmless(code: str) -> None:
    """Followed by bytes that may be its argument."""
    for rest in (b".", b"os\nsystem\n.", b"\x00" * 9 + b".", b"\xff" * 9 + b"."):
        for before in (b"\x80\x04", b"\x80\x04(", b"\x80\x04]", b"\x80\x04}K\x01K\x02"):
            try:
                found = read(before + code.encode("latin-1") + rest)
            except DamagedInput:
                continue
            assert type(found.value) in (dict, list, tuple, str, int, float, bytes, bool, type(None))


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04)" + b"\x85" * 200_000 + b".",  # deeply nested tuples
        b"\x80\x04" + b"](" * 200_000 + b"e" * 200_000 + b".",
        b"\x80\x04]\x94(" + b"h\x00" * 100_000 + b"e.",  # a list that contains itself
    ],
)
def test_depth_and_cycles_are_harmless(data: bytes) -> None:
    assert type(read(data).value) in (list, tuple)


def test_a_deeply_nested_key_is_refused() -> None:
    data = b"\x80\x04})" + b"\x85" * 300_000 + b"Ns."
    with pytest.raises(DamagedInput, match="a key that is a tuple"):
        read(data)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DamagedInput, match="a value of 18,446,744,073,709,551,615 bytes"):
        read(b"\x80\x04\x8d" + b"\xff" * 8)
    monkeypatch.setattr(plain, "MOST_MEMORY", 1 << 20)
    with pytest.raises(DamagedInput, match="more than 1 MiB"):
        read(pickle.dumps(list(range(100_000))))
    with pytest.raises(DamagedInput, match="more than 1 MiB"):
        read(b"\x80\x04" + b"(" * 100_000)


def test_a_cut_pickle_gives_what_precedes_the_cut() -> None:
    value = {"one": [1, 2, 3], "traces": [[{"a": 1}, {"a": 2}, {"a": 3}]]}
    data = pickle.dumps(value, 4)
    found = [read(data[:size]) for size in range(3, len(data))]
    assert all(one.is_cut for one in found)
    assert found[-1].value == value
    assert any(one.value == {"one": [1, 2, 3], "traces": [[{"a": 1}, {"a": 2}, {}]]} for one in found)


def test_values_can_be_replaced_as_they_are_appended() -> None:
    seen: list[Any] = []

    def appended(items: list[Any]) -> list[Any]:
        seen.extend(items)
        return ["one"] * len(items)

    assert read(pickle.dumps([{"a": 1}] * 2), appended=appended).value == ["one", "one"]
    assert seen == [{"a": 1}] * 2
