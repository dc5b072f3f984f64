"""Summary, page and overview of one file have the same figures: on all real traces with device work."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from conftest import SAMPLES

from ktrace.analysis.answers.summary.compute import summarise
from ktrace.analysis.answers.summary.screen import screen
from ktrace.analysis.questions.overview import Stored, store
from ktrace.analysis.questions.overview.answers import HEAVIEST, Overview
from ktrace.analysis.work.groups import OTHER, Group
from ktrace.errors import InputError
from ktrace.page.summary_page import key_figures
from ktrace.pipeline.read import read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Report
from ktrace.stages.order.pairing import pair_halves
from ktrace.tables import brief

REAL = SAMPLES / "real/corpus"
TRACES = [
    SAMPLES / "kineto/one-step-of-training.pt.trace.json",
    *sorted(path for path in REAL.glob("*/*") if path.name not in ("INDEX.tsv", "LICENCES.txt")),
]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_all_three_agree(path: Path, tmp_path: Path) -> None:
    try:
        summary = summarise(path, by=("idle", "operation", "kernel"))
    except InputError:
        pytest.skip("not read")
    if summary.work != "events":
        pytest.skip("no device work")
    uses = summary.devices

    page = {name: (figure, detail) for name, figure, detail in key_figures(summary)}
    span, busy = (sum(getattr(use, name) for use in uses) for name in ("span", "busy"))
    assert page["busy"][0] == f"{100 * busy / span:.1f}%"
    if shares := re.search(r"^busy ([\d.]+%).* idle ([\d.]+%)$", screen(summary), re.M):
        assert shares[1] == page["busy"][0]
        assert shares[2] == f"{100 * (span - busy) / span:.1f}%"
    if len(summary.step_times):
        assert brief(float(np.median(summary.step_times))) in re.sub(r"\s+", " ", screen(summary)[:300])

    (folder := tmp_path / "stored").mkdir()
    report = Report()
    store(pair_halves(read_selected([str(path)], report, Selection(classify=True)), report), folder, report)
    overview = Overview(Stored(folder), "")
    heavy = overview.heavy((0, overview.length))
    assert sorted(one["busy"] for one in heavy["devices"]) == sorted(use.busy for use in uses)
    labels = [heavy["names"][row[0]][:2] for row in heavy["device"]]
    assert len({*labels}) == len(labels)
    if heavy["totals"]["device"] == summary.total and "kernel" in summary.groups:  # no streams overlap
        shown = dict.fromkeys((name for name, _ in labels), 0)
        for (name, _), (_, time, _) in zip(labels, heavy["device"], strict=True):
            shown[name] += time
        whole = {group.key: group.total for group in summary.groups["kernel"]}
        assert {name: time for name, time in shown.items() if time > whole.get(name, time)} == {}
        assert max(shown.values()) == max(whole.values())
    if len(summary.sources) == 1:  # clocks of several differ
        assert heavy["length"] == summary.longest
    is_one = len(summary.sources) == 1  # of several some may have tables alone, which have no time to be drawn at
    if is_one and len(heavy["device"]) < HEAVIEST:  # all names are listed
        assert sum(time for _, time, _ in heavy["device"]) <= summary.total  # streams that overlap count twice there
        counts: dict[str, int] = {}
        for name, _, count in heavy["device"]:
            operation = heavy["names"][name][1]
            counts[operation] = counts.get(operation, 0) + count
        groups = summary.groups.get("operation", [Group(OTHER, summary.total, summary.count)])
        assert counts == {group.key: group.count for group in groups}
