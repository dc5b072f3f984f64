"""Requests of inference servers: figures against plain arithmetic over made spans, alone and beside kernels."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SAMPLES

import ktrace
from ktrace.analysis.questions.requests import RequestsAnswer
from ktrace.cli import cli

UNIX = 1_790_000_000_000_000_000


def served(seed: int, count: int = 20) -> list[dict[str, Any]]:
    """Requests with times in ns from UNIX on, as a server measures them."""
    chance = Random(f"requests {seed}")
    found = []
    for number in range(count):
        queue, prefill, decode = (chance.randint(1_000, 9_000_000) for _ in range(3))
        first = queue + prefill + chance.randint(0, 50_000)
        found.append(
            {"id": f"r{number}", "start": chance.randint(0, 90_000_000), "queue": queue, "prefill": prefill,
             "decode": decode, "first": first, "e2e": first + decode + 10_000, "prompt": chance.randint(1, 900),
             "tokens": chance.choice((1, 2, 50))}
        )  # fmt: skip
    return found


def spans(requests: list[dict[str, Any]], path: Path) -> Path:
    """The requests as vLLM sends them, in OTLP's JSON."""

    def attribute(key: str, kind: str, value: Any) -> dict[str, Any]:
        return {"key": f"gen_ai.{key}", "value": {kind: value}}

    rows = [
        {
            "name": "llm_request", "traceId": f"{number:032x}", "spanId": f"{number + 1:016x}",
            "startTimeUnixNano": str(UNIX + one["start"]), "endTimeUnixNano": str(UNIX + one["start"] + one["e2e"]),
            "attributes": [
                attribute("request.id", "stringValue", one["id"]),
                attribute("latency.time_to_first_token", "doubleValue", one["first"] / 1e9),
                attribute("latency.e2e", "doubleValue", one["e2e"] / 1e9),
                attribute("latency.time_in_queue", "doubleValue", one["queue"] / 1e9),
                attribute("latency.time_in_model_prefill", "doubleValue", one["prefill"] / 1e9),
                attribute("latency.time_in_model_decode", "doubleValue", one["decode"] / 1e9),
                attribute("usage.prompt_tokens", "intValue", str(one["prompt"])),
                attribute("usage.completion_tokens", "intValue", str(one["tokens"])),
            ],
        }
        for number, one in enumerate(requests)
    ]  # fmt: skip
    path.write_text(json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": rows}]}]}))
    return path


def kernels(seed: int, path: Path) -> tuple[Path, list[tuple[int, int]]]:
    """A trace of PyTorch with kernels one after another, and when they ran, from UNIX on."""
    chance, at, found, events = Random(f"kernels {seed}"), 0, [], []
    while at < 120_000_000:
        begin = at + chance.randint(1_000, 900_000)
        at = begin + chance.randint(10_000, 900_000)
        found.append((begin, at))
        times = {"ts": begin / 1000, "dur": (at - begin) / 1000}
        args = {"device": 0, "stream": 7, "correlation": len(found)}
        events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, **times, "args": args})
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": UNIX, "traceEvents": events}))
    return path, found


def answer(*paths: Path) -> RequestsAnswer:
    found = ktrace.summary(paths, by=["request"]).answers["request"]
    assert isinstance(found, RequestsAnswer)
    return found


def test_times_and_tokens_are_those_that_are_stated(tmp_path: Path) -> None:
    requests = served(1)
    found = answer(spans(requests, tmp_path / "spans.json"))
    assert [
        (one.name, one.end_to_end, one.first_token, one.queue, one.prefill, one.decode, one.prompt_tokens)
        for one in found.requests
    ] == [
        (one["id"], one["e2e"], one["first"], one["queue"], one["prefill"], one["decode"], one["prompt"])
        for one in requests
    ]
    per_token = [round(one["decode"] / (one["tokens"] - 1)) for one in requests if one["tokens"] > 1]
    spread = found.spread("per_token")
    assert spread is not None
    assert (spread.count, spread.median) == (len(per_token), pytest.approx(median(per_token)))
    assert [one.busy_prefill for one in found.requests] == [None] * len(requests)
    assert found.notes == ["Give a trace with kernels as well, to see what devices did during the requests."]


def test_devices_beside_the_requests(tmp_path: Path) -> None:
    """How long the device worked in each prefill and each decode, by loops over the kernels."""
    requests = served(2)
    path, ran = kernels(2, tmp_path / "run.pt.trace.json")
    found = answer(spans(requests, tmp_path / "spans.json"), path)

    def worked(begin: int, end: int) -> int:
        return sum(max(0, min(end, b) - max(begin, a)) for a, b in ran)

    for one, stated in zip(found.requests, requests, strict=True):
        first = stated["start"] + stated["first"]
        assert one.busy_prefill == worked(first - stated["prefill"], first)
        assert one.busy_decode == worked(first, first + stated["decode"])
    assert found.notes == []


def test_kernels_of_another_time_say_nothing(tmp_path: Path) -> None:
    path, _ = kernels(5, tmp_path / "run.pt.trace.json")
    path.write_text(path.read_text().replace(str(UNIX), str(UNIX + 10**15)))
    found = answer(spans(served(5), tmp_path / "spans.json"), path)
    assert {one.busy_decode for one in found.requests} == {None}
    assert "No device work falls within the requests" in found.notes[0]


def test_sglang_states_no_queue(tmp_path: Path) -> None:
    path = spans(served(3), tmp_path / "spans.json")
    document = json.loads(path.read_text())
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["attributes"] = [one for one in span["attributes"] if not one["key"].endswith("time_in_queue")]
    path.write_text(json.dumps(document))
    found = answer(path)
    assert {one.queue for one in found.requests} == {None}
    assert found.spread("queue") is None


def test_spans_of_other_services_are_no_requests() -> None:
    path = SAMPLES / "otlp" / "two-services-one-request-links-and-lanes.otlp.json"
    summary = ktrace.summary(path, by=["request"])
    assert "request" not in summary.answers
    assert any("--otlp-traces-endpoint" in note for note in summary.notes)


def test_in_a_terminal_and_for_programs(tmp_path: Path) -> None:
    path = spans(served(4), tmp_path / "spans.json")
    shown = CliRunner().invoke(cli, ["summary", str(path), "--by", "request", "--top", "3"])
    assert shown.exit_code == 0
    assert "the longest requests" in shown.output and "... and 17 more" in shown.output
    tables = json.loads(CliRunner().invoke(cli, ["summary", str(path), "--by", "request", "--format", "json"]).stdout)
    assert len(tables["tables"]["requests"]) == 20
