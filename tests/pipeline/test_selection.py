"""`Selection`: what the commands share, and which of it changes a dataset."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace import Crop, Filter, Selection, UsageError
from ktrace.pipeline.selection import Options

STEP = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, path.read_text("utf-8").splitlines()) if row.get("record") == "event"]


@pytest.mark.parametrize(
    "change",
    [
        {"from_": "kineto"},
        {"classify": True},
        {"crop": Crop(step=3)},
        {"filter": Filter(kinds=["kernel"])},
        {"filter": Filter(min_dur=1)},
    ],
)
def test_the_fingerprint_changes_with_what_changes_a_dataset(change: dict[str, Any]) -> None:
    assert Selection(**change).fingerprint() != Selection().fingerprint()
    assert Selection(**change).fingerprint() == Selection(**change).fingerprint()


@pytest.mark.parametrize("change", [{"jobs": 3}, {"keep_export": True}])
def test_the_fingerprint_stays_where_the_dataset_does(change: dict[str, Any]) -> None:
    assert Selection(**change).fingerprint() == Selection().fingerprint()


def test_the_fingerprint_follows_the_text_of_the_rules_not_their_path(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text('{"rules": []}', "utf-8")
    other.write_text('{"rules": []}', "utf-8")
    before = Selection(rules=one).fingerprint()
    assert Selection(rules=str(other)).fingerprint() == before
    one.write_text('{"rules": [{"name": "x", "operation": "gemm"}]}', "utf-8")
    assert Selection(rules=one).fingerprint() != before


def test_a_selection_does_what_its_keywords_do_and_a_keyword_overrides_it(tmp_path: Path) -> None:
    kernels = Selection(filter=Filter(kinds=["kernel"]), jobs=1)
    for name, options in (
        ("selection", {"selection": kernels}),
        ("keyword", {"filter": Filter(kinds=["kernel"])}),
        ("override", {"selection": kernels, "filter": Filter(kinds=["op"])}),
    ):
        ktrace.convert(STEP, tmp_path / f"{name}.jsonl", **options)
    kinds = {name: {row["kind"] for row in rows(tmp_path / f"{name}.jsonl")} for name in ("selection", "override")}
    assert kinds == {"selection": {"kernel"}, "override": {"op"}}
    assert (tmp_path / "keyword.jsonl").read_bytes() == (tmp_path / "selection.jsonl").read_bytes()


def test_a_command_refuses_what_it_has_no_use_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a summary doesn't take split_by"):
        ktrace.summary(STEP, split_by="step")
    with pytest.raises(UsageError, match="a batch doesn't take metrics"):
        ktrace.batch(STEP, tmp_path / "out", selection=Selection(metrics="ncu.csv"))
    with pytest.raises(UsageError, match="--launch-skip needs --metrics"):
        Selection(launch_skip=1)
    with pytest.raises(TypeError, match="formatt"):
        ktrace.convert(STEP, tmp_path / "out.csv", formatt="kineto")  # type: ignore[call-arg]
    assert list(tmp_path.iterdir()) == []


def test_convert_aligns_where_the_selection_asks_for_it(tmp_path: Path) -> None:
    ranks = sorted((SAMPLES / "kineto").glob("collectives-of-two-ranks-rank?.json"))
    by_convert = ktrace.convert(ranks, tmp_path / "a.jsonl", align=ktrace.Align("collective"))
    by_merge = ktrace.merge(ranks, tmp_path / "b.jsonl", align="collective")
    assert by_convert.alignment == by_merge.alignment != []
    assert rows(tmp_path / "a.jsonl") == rows(tmp_path / "b.jsonl")


def test_every_field_is_a_keyword() -> None:
    assert set(Options.__annotations__) == {field.name for field in dataclasses.fields(Selection)}
