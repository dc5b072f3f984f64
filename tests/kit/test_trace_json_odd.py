"""Traces whose members are of types and forms that nobody expects: each gives its rows, or a skip, never a fault."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.conversion import Conversion
from ktrace.converters.perfetto.writing import arguments
from ktrace.input.source import Source
from ktrace.kit.trace_json import events
from ktrace.kit.trace_json.salvage import mend, mend_quotes
from ktrace.report import Report

SLICE = '{"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 1, "dur": 2}'


def convert(folder: Path, text: bytes, format: str) -> tuple[ktrace.Report, list[dict[str, object]]]:
    """The report of a conversion, and the events that were written."""
    source, target = folder / "odd.json", folder / "odd.jsonl"
    source.write_bytes(text)
    report = ktrace.convert(source, target, from_=format, overwrite=True)
    rows = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    return report, [row for row in rows if row.get("record") == "event"]


@pytest.mark.parametrize("format", ["chrome", "kineto"])
@pytest.mark.parametrize("member", ["s", "bp", "cat", "name", "ph", "pid", "tid", "id"])
@pytest.mark.parametrize("value", ["-1", "1.5", "-1e308", "18446744073709551616", "2147483648", "true", "null", "[]"])
def test_a_member_of_any_type(tmp_path: Path, format: str, member: str, value: str) -> None:
    odd = json.dumps(json.loads(SLICE) | {member: "\0"}).replace('"\\u0000"', value)
    report, events = convert(tmp_path, f"[{SLICE},{odd},{SLICE}]".encode(), format)
    assert report.balanced()
    assert len(events) == 3


@pytest.mark.parametrize("phase", [*"XBbnSTpiIRPNODcVv(){?", None])
@pytest.mark.parametrize("name", ["a", "[memory]"])
def test_rows_that_hang_on_an_event_of_any_phase_have_ids_of_their_own(
    tmp_path: Path, phase: str | None, name: str
) -> None:
    """An end of an arrow and a wait, or two counters, on each of three events that stand side by side."""
    waits = {"wait_on_cuda_event_record_corr_id": 5, "Total Allocated": 5, "Total Reserved": 7}
    event = {"ph": phase, "name": name, "cat": "cuda_sync", "pid": 1, "tid": 2, "bind_id": 9, "flow_out": True}
    events = [{key: value for key, value in event.items() if value} | {"ts": ts, "args": waits} for ts in range(3)]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    trace = ktrace.read(path, from_="kineto").to_arrow()
    ids = trace["events"]["id"].to_pylist() + trace["links"]["id"].to_pylist()
    assert len(ids) >= 6
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("number", ["7.0", "7", '"7"'])
def test_a_whole_number_in_any_spelling_is_a_thread(tmp_path: Path, number: str) -> None:
    _, events = convert(tmp_path, SLICE.replace('"tid": 2', f'"tid": {number}').join("[]").encode(), "chrome")
    assert events[0]["tid"] == 7
    assert "track" not in events[0]


def test_a_number_that_is_not_whole_is_a_track(tmp_path: Path) -> None:
    _, events = convert(tmp_path, SLICE.replace('"tid": 2', '"tid": 7.5').join("[]").encode(), "chrome")
    assert events[0]["track"] == "7.5"


@pytest.mark.parametrize("other", ["0", '"gpu"', "2.5"])
def test_a_device_of_minus_one_is_none_and_stays_an_argument(tmp_path: Path, other: str) -> None:
    kernel = '{"ph":"X","cat":"kernel","name":"k","pid":3,"tid":7,"ts":1,"dur":2,"args":{"device":%s,"stream":7}}'
    _, events = convert(tmp_path, f"[{kernel % -1},{kernel % 3},{kernel % other}]".encode(), "kineto")
    assert "device" not in events[0]
    assert events[0]["args"] == {"device": -1, "$pid": 3}
    assert events[1]["device"] == 3
    assert "args" not in events[1]


def test_what_is_nested_too_deeply_is_skipped_alone(tmp_path: Path) -> None:
    deep = SLICE.replace('"dur": 2', '"args": {"x": ' + "[" * 100_000 + "]" * 100_000 + "}")
    report, events = convert(tmp_path, f"[{SLICE},{deep},{SLICE}]".encode(), "chrome")
    assert len(events) == 2
    assert report.issues["bad-record"].rows == 1
    assert report.balanced()


@pytest.mark.parametrize("format", ["chrome", "kineto"])
def test_what_is_nested_as_deeply_as_can_just_be_read_is_no_fault(tmp_path: Path, format: str) -> None:
    """Whether a text can be read depends on how many calls away the reader is: it must be the same for all of them."""
    path, limit = tmp_path / "odd.json", sys.getrecursionlimit()
    read = import_module(f"ktrace.converters.{'chrome_json' if format == 'chrome' else format}.reader").read
    for depth in range(limit - 250, limit):
        deep = "[" * depth + "]" * depth
        odd = SLICE.replace('"dur": 2', f'"args": {{"x": {deep}}}')
        path.write_text(f'{{"deviceProperties": {{"x": {deep}}}, "traceEvents": [{SLICE}, {odd}]}}')
        batches = read(Source(str(path)), Conversion(Report()))
        assert sum(len(batch) for batch in batches if batch.record == "events") in (1, 2)


def test_a_key_that_is_no_utf8(tmp_path: Path) -> None:
    report, events = convert(
        tmp_path, f"[{SLICE},".encode() + b'{"\xf4x": 1, "ph": "X", "ts": 3, "name": "b"}]', "chrome"
    )
    assert [event["name"] for event in events] == ["a", "b"]
    assert report.issues["encoding"].rows == 1


def test_folded_flows_with_a_strange_phase_are_not_folded(tmp_path: Path) -> None:
    flow = '{"ph": 1, "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 0, "tid": 7, "ts": 1}'
    report, events = convert(tmp_path, f'{{"schemaVersion": 1, "traceEvents": [{flow}]}}'.encode(), "kineto")
    assert report.balanced()
    assert len(events) == 1


@pytest.mark.parametrize(
    "text",
    [
        '{{"traceEvents": [{0}, [[{0}]], {0}, {0}], "traceName": "x"}}',
        '{{"traceEvents": [{0}], {0}, {0}, {0}], "traceName": "x"}}',
        '{{"traceEvents": [{0}]}}, {0}, {0}, {0}], "traceName": "x"}}',
        "[{0}], {0}, {0}, {0}]",
        "[[{0}, {0}], {0}, {0}]",
    ],
)
def test_a_list_that_ends_and_goes_on_is_read_to_its_end(tmp_path: Path, text: str) -> None:
    report, events = convert(tmp_path, text.format(SLICE).encode(), "chrome")
    assert len(events) == 4
    assert report.issues["json-repair"].rows >= 1
    assert report.balanced()


def test_text_that_is_no_utf8_in_an_event_after_a_fault(tmp_path: Path) -> None:
    for member in (b'"na\xffme": "b"', b'"x": "\xff"', b'"args": {"\xff": 1}'):
        broken = b'{"ph": "X", "ts": 3, "dur": ' + SLICE.encode() + b", "
        odd = b'{"ph": "X", "name": "c", "pid": 1, "tid": 1, "ts": 7, "dur": 1, ' + member + b"}"
        for text in (b"[%b, %b%b, %b]", b"[%b, %b%b %b]", b'[%b, "%b%b, %b'):
            report, _ = convert(tmp_path, text % (SLICE.encode(), broken, odd, SLICE.encode()), "chrome")
            assert report.balanced()


@pytest.mark.parametrize(
    ("element", "repeats"),
    [
        ('{"a":1,"b":{"c":[{"d":1},{"d":2}]}}', False),
        ('{"a":1,"b":{"c":[{"d":1},{"d":2,"d":3}]}}', True),
        ('{"a":1,"b":[[],[],{}],"a":2}', True),
        ('{"a":{"x":1,"y":{"x":[[{"x":2}]]}},"x":"no: key"}', False),
        ('{"a":[[{"p":1,"q":2,"p":3}]]}', True),
    ],
)
@pytest.mark.parametrize("long", [1, 12, 30, 1 << 20])
def test_repeated_keys_are_found_in_long_events_part_by_part(
    element: str, repeats: bool, long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONG", long)
    assert events.may_repeat(memoryview(element.encode())) is repeats


def test_control_bytes_and_bare_quotes_of_a_text_are_escaped() -> None:
    raw = bytes(range(0x20)) + b"end"
    mended, repairs = mend(b'{"a": "' + raw + b'"}')
    assert json.loads(mended) == {"a": raw.decode()}
    assert [repair.detail for repair in repairs] == ["a control byte within a text"]
    for text, wanted in ((b'f<"b">', 'f<"b">'), (b'f<"b\\n">', 'f<"b\n">'), (b'f\\"<"b">', 'f"<"b">')):
        mended, repairs = mend_quotes(b'["' + text + b'"]', [(2, 2 + len(text))])
        assert json.loads(mended) == [wanted]
        assert len(repairs) == 1


def test_a_long_list_becomes_json_text_in_perfetto_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = {"list": [{"a": [1, 2.5, None]}] * 9, "text": "x" * 99, "few": [1, 2], "number": 7}
    (tmp_path / "a.json").write_text(json.dumps([json.loads(SLICE) | {"args": args}]))
    sizes = []
    for longest in (1 << 20, 50):
        monkeypatch.setattr(arguments, "_LONGEST", longest)
        ktrace.convert(tmp_path / "a.json", tmp_path / "a.perfetto", from_="chrome", overwrite=True)
        sizes.append((tmp_path / "a.perfetto").stat().st_size)
        ktrace.convert(tmp_path / "a.perfetto", tmp_path / "a.jsonl", overwrite=True)
        rows = map(json.loads, (tmp_path / "a.jsonl").read_text("utf-8").splitlines())
        [event] = [row for row in rows if row.get("record") == "event"]
        assert event["args"] == args
    assert sizes[0] != sizes[1]


@pytest.mark.parametrize(
    ("folder", "name", "old"),
    [
        ("rocprofv3-json", "records-before-the-names-two-processes_results.json", '"node-a"'),
        ("nsys-stats", "json-of-three-reports-amid-nsys-own-words.json", "75.0"),
        ("nccl-flight-recorder", "zeros-for-unknown-times_rank_2.json", '"process_group":["0"'),
        ("proton", "own-kernels-cycles-and-metrics-of-users.hatchet", '"arch": "90"'),
        ("torch-memory", "no-times-as-json.json", '"segment_type": "small"'),
    ],
)
@pytest.mark.parametrize(
    "new", ['"a\\ud800"', "[" * 3000 + "]" * 3000, b'"a\xff"'], ids=["surrogate", "nested", "bytes"]
)
def test_one_odd_value_costs_itself(tmp_path: Path, folder: str, name: str, old: str, new: str | bytes) -> None:
    """As before, but for what the value was needed for; and it is reported with its place."""
    raw = (SAMPLES / folder / name).read_bytes()
    start = re.search(r'("[^"]*"|[0-9.]+)$', old)
    assert start
    assert old.encode() in raw
    path = tmp_path / name
    odd = new if isinstance(new, bytes) else new.encode()
    path.write_bytes(raw.replace(old.encode(), old[: start.start()].encode() + odd, 1))
    rows = sum(ktrace.read(SAMPLES / folder / name, from_=folder).report.rows.values())
    report = ktrace.read(path, from_=folder).report
    assert rows - sum(report.rows.values()) <= 1
    assert report.issues.keys() & {"json-repair", "encoding", "bad-record"}
    assert report.balanced()
