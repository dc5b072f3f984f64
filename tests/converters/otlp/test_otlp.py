"""OpenTelemetry spans: the reader, compared with arithmetic on the objects and with opentelemetry's own classes."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.errors import DamagedInput
from ktrace.input.detection import detect
from ktrace.model.row_builder import to_rows
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

CORPUS = SHARED / "corpus" / "made" / "opentelemetry"
ONE = SAMPLES / "otlp" / "two-services-one-request-links-and-lanes.otlp.json"
BEGIN = 1_724_000_000_000_000_000


def rows_of(path: Path, report: Report | None = None) -> dict[str, list[dict[str, Any]]]:
    """The rows of a file by record, read as otlp."""
    found: dict[str, list[dict[str, Any]]] = {"events": [], "links": [], "catalog": []}
    for batch in read_batches([str(path)], report or Report(), format="otlp"):
        found[batch.record] += to_rows(batch)
    return found


def spans_in(document: object) -> list[dict[str, Any]]:
    """All objects with a span's times, wherever they are."""
    if isinstance(document, list):
        return [span for item in document for span in spans_in(item)]
    if isinstance(document, dict):
        own = [document] if "startTimeUnixNano" in document else []
        return own + [span for item in document.values() for span in spans_in(item)]
    return []


def span(number: int, start: int, end: int, parent: int | None = None, **more: Any) -> dict[str, Any]:
    found = {"traceId": "a" * 32, "spanId": f"{number:016x}", "name": f"s{number}"}
    found |= {"parentSpanId": f"{parent:016x}"} if parent else {}
    return {**found, "startTimeUnixNano": str(BEGIN + start), "endTimeUnixNano": str(BEGIN + end), **more}


def document(*spans: object, service: str = "svc", **resource: Any) -> dict[str, Any]:
    values = {"service.name": service} | resource
    attributes = [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]
    scopes = [{"scope": {"name": "test"}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": scopes}]}


def written(path: Path, *documents: object) -> Path:
    path.write_text("".join(json.dumps(part) + "\n" for part in documents))
    return path


@pytest.mark.parametrize("name", ["otlp_spans.json", "otlp_spans.pb", "console_spans.txt"])
def test_three_files_of_one_run_have_the_same_spans(name: str) -> None:
    if not CORPUS.exists():
        pytest.skip("the real files are not at hand (../shared/corpus/made/opentelemetry)")
    truth = spans_in(json.loads((CORPUS / "otlp_spans.json").read_text()))
    report = Report()
    events = rows_of(CORPUS / name, report)["events"]
    found = {row["name"]: 0 for row in events}
    assert report.balanced()
    assert report.read == 24
    spans = [row for row in events if row["kind"] == "range"]
    times = {item["spanId"]: (int(item["startTimeUnixNano"]), int(item["endTimeUnixNano"])) for item in truth}
    ids = {row["id"]: json.loads(row["args"])["$span_id"] for row in spans}
    for row in spans:
        start, end = times[ids[row["id"]]]
        if name.startswith("console"):  # whole us
            assert abs(row["ts"] - start) <= 1000
            assert abs(row["ts"] + row["dur"] - end) <= 1000
        else:
            assert (row["ts"], row["dur"]) == (start, end - start)
    assert {ids[row["id"]]: ids.get(row.get("parent", -1)) for row in spans} == {
        item["spanId"]: item.get("parentSpanId") for item in truth
    }
    assert Counter(row["name"] for row in events if row["kind"] == "instant") == {"kernel": 9}
    assert {json.loads(row["args"])["us"] for row in events if row["kind"] == "instant"} == {12.5}
    assert set(found) == {"prefill", "decode", "request", "kernel"}
    if not name.startswith("console"):
        assert sum(row["dur"] for row in spans) == 398_949_436


def test_a_request_across_two_processes() -> None:
    rows = rows_of(ONE)
    spans = {(row["name"], row["ts"]): row for row in rows["events"] if row["kind"] == "range"}
    request, engine = spans["llm_request", BEGIN + 1_250_001], spans["POST engine", BEGIN + 1_000_001]
    assert request["parent"] == engine["id"]
    assert (request["host"], request["pid"], engine["host"], engine["pid"]) == ("gpu-7", 4242, "edge-1", 311)
    args = json.loads(request["args"])
    assert args["gen_ai.usage.prompt_tokens"] == 17
    assert args["gen_ai.latency.time_to_first_token"] == 0.0025
    assert args["stop"] == ["</s>", "\n"]
    assert args["sampling"] == {"top_p": 0.9, "n": 1}
    assert args["$status"] == "OK"
    assert (args["$scope"], args["$scope.version"], args["$scope.build"]) == ("vllm", "0.9.1", "dev")
    ends = {(row["link"], row["role"], row["event"]) for row in rows["links"]}
    late = spans["llm_request", BEGIN + 2_000_000]
    siblings = spans["detokenize", BEGIN + 4_000_000]
    assert ends == {
        ("async", "out", engine["id"]),
        ("async", "in", request["id"]),
        ("async", "out", request["id"]),
        ("async", "in", siblings["id"]),
        ("flow", "out", request["id"]),
        ("flow", "in", late["id"]),
    }
    assert json.loads(late["args"])["$links"] == [{"$trace_id": "f" * 32, "$span_id": "e" * 16}]
    assert json.loads(late["args"])["$status_message"] == "cancelled"
    processes = {row["pid"]: row for row in rows["catalog"] if row["entity"] == "process"}
    assert processes[4242]["name"] == "vllm.llm_engine"
    assert json.loads(processes[4242]["facts"])["command"] == "vllm serve m"


def test_children_share_the_track_of_their_parent_and_nothing_overlaps() -> None:
    tracks: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(ONE)["events"]:
        if row["kind"] == "range":
            tracks.setdefault(row["track"], []).append(row)
    names = {track: [row["name"] for row in sorted(rows, key=lambda row: row["ts"])] for track, rows in tracks.items()}
    assert names == {
        "gateway": ["POST /v1/completions", "POST engine"],
        "vllm.llm_engine": ["llm_request", "prefill", "decode"],
        "vllm.llm_engine 2": ["llm_request", "prefill"],
        "vllm.llm_engine 3": ["detokenize"],
    }


def test_a_child_that_outlives_its_parent_gets_its_own_track(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", document(span(1, 0, 100), span(2, 50, 150, 1), span(3, 60, 90, 2)))
    assert [row["track"] for row in rows_of(path)["events"]] == ["svc", "svc 2", "svc 2"]


def test_a_track_is_used_again_when_its_request_ends(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", document(*(span(n, n * 10, n * 10 + 15) for n in range(1, 9))))
    assert [row["track"] for row in rows_of(path)["events"]] == ["svc", "svc 2"] * 4


def test_ids_in_base64_names_of_enums_and_numbers_as_times() -> None:
    rows = rows_of(SAMPLES / "otlp" / "collector-lines-with-metrics-and-bad-spans.otlp.jsonl")["events"]
    row = next(row for row in rows if row["name"] == "ids in base64")
    args = json.loads(row["args"])
    assert args["$trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert args["$span_id"] == "00f067aa0ba90305"
    assert (row["cat"], row["ts"] - BEGIN, row["dur"]) == ("CLIENT", 10, 10)
    assert "dur" not in next(row for row in rows if row["name"] == "no end")


def test_the_same_spans_as_one_document_lines_indented_and_in_a_list(tmp_path: Path) -> None:
    parts = [document(span(n, n, n + 5, n - 1 or None)) for n in range(1, 30)]
    forms = {
        "lines": "\n".join(map(json.dumps, parts)),
        "indented": "\n".join(json.dumps(part, indent=2) for part in parts),
        "list": json.dumps(parts),
        "one": json.dumps({"resourceSpans": [part["resourceSpans"][0] for part in parts]}),
        "resources": "\n".join(json.dumps(part["resourceSpans"][0]) for part in parts),
        "logged": "\n".join("INFO exporter: " + json.dumps(part["resourceSpans"][0]) for part in parts),
    }
    rows = []
    for name, text in forms.items():
        path = tmp_path / name
        path.write_text("\ufeff" + text)
        report = Report()
        rows.append([{**row, "source": ""} for row in rows_of(path, report)["events"]])
        assert list(report.issues) == (["wrapped-lines"] if name == "logged" else [])
    assert all(found == rows[0] for found in rows)
    assert len(rows[0]) == 29


def test_a_large_document_is_read_span_by_span(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows_of(ONE)
    monkeypatch.setattr("ktrace.converters.otlp.documents.WHOLE", 16)
    monkeypatch.setattr("ktrace.kit.trace_json.chunks.BLOCK", 64)
    report = Report()
    assert rows_of(ONE, report) == whole
    size = ONE.stat().st_size
    assert (report.bytes.size, report.bytes.skipped) == (size, 0)
    assert report.bytes.read + report.bytes.structure == size
    assert report.bytes.structure > 100  # the brackets around resources, and the keys of their lists


@pytest.mark.parametrize("begin", [None, 1], ids=["one line", "indented"])
def test_a_control_character_makes_no_message_of_a_document(tmp_path: Path, begin: int | None) -> None:
    """ "{" and a line end are also the length of a message and its first tag."""
    path = tmp_path / "a.json"
    text = json.dumps(document(*(span(n, n, n + 1) for n in range(1, 10))), indent=begin)
    path.write_text(text.replace('"s5"', '"s5\x07"'))
    report = Report()
    names = [row["name"] for row in rows_of(path, report)["events"]]
    assert names == ["s1", "s2", "s3", "s4", "s5\x07", "s6", "s7", "s8", "s9"]
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {"json-repair": 1}
    assert [report.bytes.size, report.bytes.ranges] == [len(text) + 1, []]


def test_a_damaged_span_in_a_large_document_loses_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    text = json.dumps(document(*(span(n, n, n + 1) for n in range(1, 10))))
    path.write_text(text.replace('"name": "s5"', '"name": s 5'))
    report = Report()
    names = [row["name"] for row in rows_of(path, report)["events"]]
    assert names == ["s1", "s2", "s3", "s4", "s6", "s7", "s8", "s9"]
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {"bad-record": 1}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("old", "new", "kinds", "spans"),
    [
        ('"s8"', '"\\ud800"', ["json-repair"], 20),
        ('"s8"', "nan", ["json-repair"], 20),
        ('"s8"', "no word", ["bad-record"], 19),
        ('"s9"', "no word", ["bad-record"], 19),  # the last of its scope
        ('"test"', "@", ["bad-record"], 20),  # the name of both scopes
        ('"svc"', "no word", ["bad-record"], 20),  # in both resources
        ('"s8"', '"s8"', [], 20),
    ],
)
def test_a_damaged_value_costs_what_has_it(
    tmp_path: Path, indent: int | None, old: str, new: str, kinds: list[str], spans: int
) -> None:
    """A span, or the attributes of a resource: not what follows."""
    two = [document(*(span(n, n, n + 1) for n in numbers)) for numbers in (range(10), range(10, 20))]
    both = {"resourceSpans": [one for part in two for one in part["resourceSpans"]]}
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(both, indent=indent).replace(old, new))
    report = Report()
    assert len(rows_of(path, report)["events"]) == spans
    assert list(report.issues) == kinds
    assert report.balanced()


def test_a_cut_document_gives_its_spans(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    text = json.dumps(document(*(span(n, n, n + 1) for n in range(1, 10))))
    path.write_text(text[: text.index("s7")])
    report = Report()
    assert len(rows_of(path, report)["events"]) == 6
    assert set(report.issues) == {"cut"}
    assert report.balanced()


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        ({"startTimeUnixNano": "x"}, "bad-record"),
        ({"startTimeUnixNano": 1.5}, "bad-record"),
        ({"startTimeUnixNano": "0"}, "bad-record"),
        ({"endTimeUnixNano": str(1 << 62)}, "time-range"),
        ({"startTimeUnixNano": "-5"}, "bad-record"),
        ({"endTimeUnixNano": "5"}, "negative-duration"),
        ({"spanId": 5}, "bad-record"),
        ({"traceId": 7}, "bad-record"),
    ],
)
def test_a_span_with_a_wrong_value_is_reported(tmp_path: Path, broken: dict[str, Any], kind: str) -> None:
    report = Report()
    path = written(tmp_path / "a.json", document(span(1, 0, 5), span(2, 0, 5) | broken, "text", None))
    assert len(rows_of(path, report)["events"]) == 1
    assert report.balanced()
    expected = Counter({"bad-record": 2}) + Counter([kind])
    assert {name: issue.rows for name, issue in report.issues.items()} == expected


@pytest.mark.parametrize("shape", ["document", "list", "lines", "resources"])
def test_spans_without_ids_or_with_others(tmp_path: Path, shape: str) -> None:
    """As who publishes a trace leaves them: spans in one list, ids that are replaced or left out."""
    spans = [span(1, 0, 90), span(2, 10, 40) | {"traceId": "trace-7", "parentSpanId": "hidden"}, span(3, 50, 60, 1)]
    for item in spans[:2]:
        del item["spanId"]
    whole = {"document": {"spans": spans}, "list": spans, "resources": document(*spans)}.get(shape)
    path = tmp_path / "a.json"
    path.write_text("\n".join(map(json.dumps, spans)) if whole is None else json.dumps(whole, indent=1))
    assert detect(str(path))[0].format == "otlp"
    report = Report()
    events = rows_of(path, report)["events"]
    assert [(row["name"], row["ts"] - BEGIN, row["dur"]) for row in events] == [
        ("s1", 0, 90),
        ("s2", 10, 30),
        ("s3", 50, 10),
    ]
    assert json.loads(events[1]["args"]) | {"$scope": 0} == {
        "$trace_id": "trace-7",
        "$parent_span_id": "hidden",
        "$scope": 0,
    }
    assert not report.issues
    assert report.balanced()
    out = tmp_path / "b.otlp.json"
    ktrace.convert(path, out)
    written_spans = {item["name"]: item for item in spans_in(json.loads(out.read_text()))}
    assert all(re.fullmatch("[0-9a-f]{32}", item["traceId"]) for item in written_spans.values())
    assert all(re.fullmatch("[0-9a-f]{16}", item["spanId"]) for item in written_spans.values())
    assert len({item["spanId"] for item in written_spans.values()}) == 3
    assert written_spans["s3"]["spanId"] == f"{3:016x}"
    assert written_spans["s1"]["traceId"] == "a" * 32
    assert {"key": "$parent_span_id", "value": {"stringValue": "hidden"}} in written_spans["s2"]["attributes"]


def test_a_large_list_of_spans_is_read_one_after_the_other(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", {"spans": [span(n, n, n + 5, pad="x" * 2000) for n in range(1, 4001)]})
    assert path.stat().st_size > 4 << 20
    events = rows_of(path)["events"]
    assert sum(row["dur"] for row in events) == 4000 * 5


def test_values_nested_too_deeply_are_reported(tmp_path: Path) -> None:
    deep = '{"arrayValue":{"values":[' * 20_000 + "]}}" * 20_000
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document(span(1, 0, 5, attributes="DEEP"), span(2, 0, 5))).replace('"DEEP"', deep))
    report = Report()
    rows_of(path, report)
    assert report.balanced()
    assert report.issues


@pytest.mark.parametrize("frame", ["message", "length", "varint", "zstd"])
def test_protobuf_in_every_frame(tmp_path: Path, frame: str) -> None:
    messages = []
    data = (SAMPLES / "otlp" / "collector-messages-after-their-lengths.pb").read_bytes()
    while data:
        size = int.from_bytes(data[:4], "big")
        messages.append(data[4 : 4 + size])
        data = data[4 + size :]
    assert len(messages) == 2
    path = tmp_path / "a.pb"
    if frame == "message":
        framed = b"".join(messages)  # two messages one after the other are one with the spans of both
    elif frame == "varint":
        framed = b"".join(bytes([len(one) & 127 | 128, len(one) >> 7]) + one for one in messages)
        assert all(128 <= len(one) < 1 << 14 for one in messages)
    else:
        packed = messages if frame == "length" else [pa.compress(one, "zstd", asbytes=True) for one in messages]
        framed = b"".join(len(one).to_bytes(4, "big") + one for one in packed)
    path.write_bytes(framed)
    assert detect(str(path))[0].format == "otlp"
    report = Report()
    rows = rows_of(path, report)["events"]
    assert not report.issues
    assert [(row["name"], row["ts"] - BEGIN, row.get("dur")) for row in rows] == [
        ("request", 1000, 4001),
        ("decode", 1100, 3801),
        ("token", 2000, None),
        ("request", 2000, 8002),
        ("decode", 2100, 7802),
        ("token", 4000, None),
    ]
    decode = next(row for row in rows if row["name"] == "decode")
    args = json.loads(decode["args"])
    assert (args["ratio"], args["key"]) == (-0.5, "AP8=")
    assert json.loads(rows[2]["args"])["id"] == -1
    assert (decode["host"], decode["pid"]) == ("gpu-7", 77)


def test_protobuf_cut_anywhere_gives_its_whole_part(tmp_path: Path) -> None:
    data = (SAMPLES / "otlp" / "collector-messages-after-their-lengths.pb").read_bytes()
    path = tmp_path / "a.pb"
    for size in range(5, len(data), 7):
        path.write_bytes(data[:size])
        report = Report()
        rows_of(path, report)
        assert report.balanced()
        assert "cut" in report.issues or report.reader.taken


def test_bytes_that_are_not_protobuf_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pb"
    path.write_bytes(b"\x0a\x05\x0f\x0f\x0f\x0f\x0f")
    with pytest.raises(DamagedInput, match="wire type"):
        rows_of(path)


def test_the_classes_of_opentelemetry_agree(tmp_path: Path) -> None:
    """The same message as protobuf and as JSON by protobuf's own library gives the same rows."""
    proto = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2", reason="opentelemetry-proto isn't installed")
    json_format = pytest.importorskip("google.protobuf.json_format")
    message = proto.TracesData()
    json_format.Parse(re.sub(r'"(traceId|spanId|parentSpanId)": *"[^"]*",?', "", ONE.read_text()), message)
    for resource in message.resource_spans:
        for scope in resource.scope_spans:
            for number, one in enumerate(scope.spans, 1):
                one.trace_id, one.span_id = b"\1" * 16, bytes([number] * 8)
                del one.links[:]
    (tmp_path / "a.pb").write_bytes(message.SerializeToString())
    (tmp_path / "a.json").write_text(json_format.MessageToJson(message))
    (tmp_path / "b.json").write_text(json_format.MessageToJson(message, preserving_proto_field_name=True))
    binary, text, snake = (
        [{**row, "source": ""} for row in rows_of(tmp_path / name)["events"]] for name in ("a.pb", "a.json", "b.json")
    )
    assert binary == text == snake
    assert len(binary) == 10


def test_a_request_and_its_kernels_meet_in_one_timeline(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 4000.5, "dur": 100.0}
    kernel |= {"args": {"device": 0, "stream": 7, "correlation": 1}}
    trace = {"schemaVersion": 1, "baseTimeNanoseconds": BEGIN, "traceEvents": [kernel]}
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps(trace))
    out = tmp_path / "both.jsonl"
    report = ktrace.merge([str(ONE), str(tmp_path / "rank0.pt.trace.json")], str(out))
    assert report.balanced()
    rows = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    found = {row["name"]: row for row in rows if row["record"] == "event"}
    assert found["gemm"]["ts"] - found["detokenize"]["ts"] == 500
    assert found["gemm"]["kind"] == "kernel"


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_requests(tmp_path: Path) -> None:
    """One list of spans that is longer than what is decoded at once: 48 bytes a span are kept, and no text."""
    peaks = []
    for count in (2_000, 2_000, 40_000):
        spans = ",".join(json.dumps(span(n, n * 10, n * 10 + 15, n % 3 and n - n % 3)) for n in range(1, count))
        path = tmp_path / f"{count}.json"
        path.write_text(json.dumps(document("MARK")).replace('"MARK"', spans))
        tracemalloc.start()
        rows = sum(len(batch) for batch in read_batches([str(path)], Report(), format="otlp", batch_rows=256))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert rows >= count - 1
    assert path.stat().st_size > 6 << 20
    assert peaks[2] < peaks[1] + (12 << 20), peaks
