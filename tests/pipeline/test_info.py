"""`inspect`: a description that costs no more than a conversion."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SAMPLES

import ktrace
from ktrace.cli import cli
from ktrace.input.format import Format
from ktrace.model.batch import DEVICE_KINDS

_ONE_EACH = [
    "nsys/schema-2.9-calls-twice-mpi-as-a-domain.sqlite",
    "kineto/one-step-of-training.pt.trace.json",
    "doppler/prefill-and-three-decodes.log",
]


@pytest.mark.parametrize("sample", _ONE_EACH)
def test_no_format_is_asked_twice(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    probe = Format.recognised

    def counted(fmt: Format, *arguments: Any) -> Any:
        asked.append(fmt.name)
        return probe(fmt, *arguments)

    monkeypatch.setattr(Format, "recognised", counted)
    found = ktrace.inspect(SAMPLES / sample)
    assert found.matches[0].format in asked
    assert max(Counter(asked).values()) == 1
    assert found.matches[0] == ktrace.detect(SAMPLES / sample)[0]


@pytest.mark.parametrize("sample", _ONE_EACH)
def test_figures_are_those_of_the_rows(sample: str, tmp_path: Path) -> None:
    found = ktrace.inspect(SAMPLES / sample)
    kinds: Counter[tuple[str, str]] = Counter()
    work: dict[str, defaultdict[str, list[float]]] = {
        name: defaultdict(lambda: [0, 0]) for name in ("event", "summary")
    }
    ktrace.convert(SAMPLES / sample, tmp_path / "run.jsonl")
    for row in map(json.loads, (tmp_path / "run.jsonl").read_text().splitlines()):
        if row.get("record") in ("event", "summary"):
            kinds[{"event": "events", "summary": "summaries"}[row["record"]], row["kind"]] += 1
            if row["kind"] in DEVICE_KINDS and (row["record"] == "event" or row.get("metric") == "duration"):
                entry = work[row["record"]][row["name"]]
                entry[0] += row.get("count", 1)
                entry[1] += row.get("dur", 0) if row["record"] == "event" else row.get("total", 0)
    assert found.kinds == kinds
    heaviest = work["event"] or work["summary"]
    assert heaviest
    assert found.device_work == {name: (count, total) for name, (count, total) in heaviest.items()}


def test_several_inputs_are_told_the_pattern() -> None:
    result = CliRunner().invoke(cli, ["info", "rank0.json", "rank1.json"])
    assert isinstance(result.exception, ktrace.UsageError)
    assert "2 inputs are named" in str(result.exception) and "a pattern in quotes" in str(result.exception)
