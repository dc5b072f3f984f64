"""JSON documents as a stream of elements: what json says of the whole, element by element."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from ktrace.input.source import Source
from ktrace.kit.text import json_items as module
from ktrace.kit.text.json_items import Item, beginning, json_items, plain_value
from ktrace.report import Report
from tests.helpers.timing import cpu_seconds, lasting


def items(tmp_path: Path, text: str | bytes) -> tuple[list[Item], Report]:
    path = tmp_path / "some.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    report = Report()
    return list(json_items(Source(str(path)), report)), report


def test_a_list_longer_than_a_chunk(tmp_path: Path) -> None:
    values = [{"name": f"é{number}" * 40, "time": number / 8} for number in range(2_000)]
    found, report = items(tmp_path, json.dumps(values, ensure_ascii=False))
    assert [item.value for item in found] == values and report.issues == {}
    assert [item.number for item in found] == list(range(1, 2001)) and {item.key for item in found} == {""}


def test_an_object_with_lists_and_members(tmp_path: Path) -> None:
    text = '{"calls": [1, {"a": []}], "empty": [], "about": {"b": [2]}, "text": "x"}'
    found, report = items(tmp_path, text)
    assert [(item.key, item.value, item.listed) for item in found] == [
        ("calls", 1, True),
        ("calls", {"a": []}, True),
        ("about", {"b": [2]}, False),
        ("text", "x", False),
    ]
    assert report.issues == {} and found[1].where == "calls element 2" and found[2].where == "member about"


def test_documents_and_other_text_follow_one_another(tmp_path: Path) -> None:
    found, report = items(tmp_path, '[1]\n[2, 3] rest of a line\n{"a": 4}')
    assert [(item.document, item.value, item.problem) for item in found] == [
        (0, 1, ""),
        (1, 2, ""),
        (1, 3, ""),
        (1, None, "unrecognised"),
        (2, 4, ""),
    ]
    assert found[3].text == "rest of a line" and report.issues == {}


def test_a_broken_element_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    for separator in (", ", "\n, ", ",\n"):
        text = "[" + separator.join(('{"a": 1}', '{"b": "x"y"}', '{"c": 3}')) + "]"
        found, report = items(tmp_path, text)
        assert [item.value for item in found] == [{"a": 1}, None, {"c": 3}]
        assert found[1].problem == "bad-record" and '"x"y"' in found[1].text and report.issues == {}


@pytest.mark.parametrize(
    "text", ["[", "{", '{"a"', '{"a": [', '[{"a": 1}', '[{"a": 1}, {"b', '{"a": {"b": 1', "[[[" * 9000]
)
def test_a_cut_document_is_reported(tmp_path: Path, text: str) -> None:
    found, report = items(tmp_path, text)
    assert "cut" in report.issues or found[-1].problem == "cut"
    assert all(item.value == {"a": 1} for item in found if not item.problem)


def test_an_element_beyond_the_limit_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST", 1 << 17)
    found, _ = items(tmp_path, json.dumps([{"a": 1}, {"b": "x" * (1 << 19)}, {"c": 3}]))
    assert [item.problem for item in found] == ["", "bad-record", ""] and found[2].value == {"c": 3}


def test_bare_numbers_of_cpp(tmp_path: Path) -> None:
    found, report = items(tmp_path, '[{"a": nan, "b": -inf}, -nan, inf, {"nan": "nan", "c": NaN}]')
    assert [item.value for item in found] == [
        {"a": "NaN", "b": "-Infinity"},
        *("NaN", "Infinity"),
        {"nan": "nan", "c": "NaN"},
    ]
    assert len(report.issues["json-repair"].places) == 4


def test_damage_takes_a_time_that_grows_with_the_text(tmp_path: Path) -> None:
    for unit in ("\n", " ", "} ", "] ", ", ", "nan ", '{"', "\n{"):

        def too_slow(unit: str = unit) -> tuple[float, float] | None:
            short, long = (cpu_seconds(items, tmp_path, '[{"a": x' + unit * times) for times in (1_000, 24_000))
            return (short, long) if long >= 150 * max(short, 0.002) else None  # its square: 576 times

        slow = lasting(too_slow)
        assert not slow, (unit, slow)


def test_encodings(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        found, report = items(tmp_path, '[{"a": "µ"}]'.encode(encoding))
        assert [item.value for item in found] == [{"a": "µ"}] and report.issues == {}
        assert beginning(Source(str(tmp_path / "some.json"))).startswith('[{"a"')
    found, report = items(tmp_path, b'[{"a": "\xff"}]')
    assert found[0].value == {"a": "\ufffd"} and "encoding" in report.issues


def test_values_for_arguments() -> None:
    value = {"a": [Decimal("0.1"), Decimal("0.12345678901234567890"), Decimal("1e999")], "b": "x"}
    assert plain_value(value) == {"a": [0.1, "0.12345678901234567890", "1E+999"], "b": "x"}
