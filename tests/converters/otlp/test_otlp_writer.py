"""OTLP JSON as ktrace writes it: opened by opentelemetry's own message classes, and read back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.model.row_builder import to_rows
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

ONE = SAMPLES / "otlp" / "two-services-one-request-links-and-lanes.otlp.json"
KINETO = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"


def events_of(path: Path) -> list[dict[str, Any]]:
    return [row for batch in read_batches([str(path)], Report()) if batch.record == "events" for row in to_rows(batch)]


def spans_of(path: Path) -> list[dict[str, Any]]:
    return [
        span | {"resource": {item["key"]: item["value"] for item in resource["resource"]["attributes"]}}
        for resource in json.loads(path.read_text())["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def converted(source: Path, folder: Path, name: str = "out.otlp.json") -> Path:
    out = folder / name
    report = ktrace.convert(str(source), str(out))
    assert report.balanced()
    return out


@pytest.mark.parametrize("source", [ONE, KINETO], ids=lambda path: path.parent.name)
def test_opentelemetry_opens_it_and_finds_every_row(source: Path, tmp_path: Path) -> None:
    proto = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2", reason="opentelemetry-proto isn't installed")
    json_format = pytest.importorskip("google.protobuf.json_format")
    message = proto.TracesData()
    json_format.Parse(converted(source, tmp_path).read_text(), message)
    spans = [span for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans]
    rows = [row for row in events_of(source) if row["kind"] != "counter"]
    found = Counter(span.name for span in spans) + Counter(event.name for span in spans for event in span.events)
    assert found == Counter(row["name"] for row in rows)
    assert sum(span.end_time_unix_nano - span.start_time_unix_nano for span in spans) == sum(
        row.get("dur", 0) for row in rows
    )


def test_kernels_read_back_with_their_columns(tmp_path: Path) -> None:
    out = converted(KINETO, tmp_path)
    columns = ("name", "dur", "pid", "tid", "device", "stream", "correlation", "grid_x", "block_x", "registers", "cat")
    kinds = {"kernel", "memcpy", "memset", "api", "op"}
    before, after = (
        Counter(tuple(row.get(column) for column in columns) for row in events_of(path) if row["kind"] in kinds)
        for path in (KINETO, out)
    )
    assert before == after
    assert before.total() == 58


def test_a_kernel_links_to_its_launch_and_calls_to_the_operator_around_them(tmp_path: Path) -> None:
    spans = {span["spanId"]: span for span in spans_of(converted(KINETO, tmp_path))}
    assert len(spans) == len(spans_of(tmp_path / "out.otlp.json"))
    keys = [{item["key"]: item["value"] for item in span["attributes"]} for span in spans.values()]
    linked = 0
    for span, own in zip(spans.values(), keys, strict=True):
        for link in span.get("links", []):
            launch = spans[link["spanId"]]
            theirs = {item["key"]: item["value"] for item in launch["attributes"]}
            if own["ktrace.kind"]["stringValue"] == "kernel":
                linked += theirs["ktrace.correlation"] == own["ktrace.correlation"]
        if parent := spans.get(span.get("parentSpanId", "")):
            assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
            assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])
    assert linked == sum(own["ktrace.kind"]["stringValue"] == "kernel" for own in keys)
    assert linked > 10


def test_ids_parents_events_status_and_links_of_opentelemetry_survive(tmp_path: Path) -> None:
    truth = {
        span["spanId"]: span
        for resource in json.loads(ONE.read_text())["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    }
    found = {span["spanId"]: span for span in spans_of(converted(ONE, tmp_path))}
    assert found.keys() == truth.keys()
    for key, span in found.items():
        for member in ("traceId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "parentSpanId"):
            assert span.get(member) == truth[key].get(member), member
        assert [event["name"] for event in span.get("events", [])] == [
            event["name"] for event in truth[key].get("events", [])
        ]
        assert span.get("status", {}).get("code") == truth[key]["status"].get("code")
    late = found["00f067aa0ba90207"]
    assert late["links"] == [{"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "00f067aa0ba90203"}]
    assert not found["00f067aa0ba90203"].get("links")
    assert found["00f067aa0ba90203"]["resource"]["process.pid"] == {"intValue": "4242"}
    once, twice = (events_of(path) for path in (ONE, converted(tmp_path / "out.otlp.json", tmp_path, "2.otlp.json")))
    key = [(row["name"], row["ts"], row.get("dur"), row.get("pid"), row.get("host")) for row in once]
    assert sorted(key, key=str) == sorted(
        ((row["name"], row["ts"], row.get("dur"), row.get("pid"), row.get("host")) for row in twice), key=str
    )


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = converted(KINETO, tmp_path, "1.otlp.json"), converted(KINETO, tmp_path, "2.otlp.json")
    assert first.read_bytes() == second.read_bytes()


def test_counters_are_reported_and_parts_add_up(tmp_path: Path) -> None:
    source = SAMPLES / "chrome" / "flows-counters-and-rare-phases.json"
    report = ktrace.convert(str(source), str(tmp_path / "a.otlp.json"))
    counters = sum(row["kind"] == "counter" for row in events_of(source))
    assert report.issues["not-representable"].rows == counters > 0
    parts = ktrace.convert(str(KINETO), str(tmp_path / "b.otlp.json"), split_by="time=200us")
    assert len(parts.parts) > 1
    assert sum(len(spans_of(Path(part["path"]))) for part in parts.parts) >= len(
        spans_of(converted(KINETO, tmp_path, "c.otlp.json"))
    )
