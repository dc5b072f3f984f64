"""Many devices on the page: the map of ranks by steps, who is named first, and one late rank among a thousand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SAMPLES
from summaries import training
from worlds import plants
from worlds.kineto import write
from worlds.world import build

import ktrace
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.work.groups import COURSE, MANY, DeviceUse
from ktrace.page.page import page
from ktrace.page.ranks import called

LATE = 5


def job(folder: Path, ranks: int, *planted: Any) -> Path:
    """The files of a job."""
    folder.mkdir()
    world = build(3, plants=planted, ranks=ranks, scale=0.4, batch=1 << 18, steps=6, layers=2)
    for rank in range(ranks):
        write(world, folder / f"rank{rank}.pt.trace.json", rank)
    return folder


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of twelve ranks, one of which the others wait for."""
    return job(tmp_path_factory.mktemp("ranks") / "late", 12, plants.late_rank(LATE, 1.25))


def covered(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The moments between the ends of any, and whether they are in one: by plain arithmetic."""
    ends = sorted({end for span in spans for end in span})
    for begin, end in pairwise(ends):
        if any(start <= begin and end <= stop for start, stop in spans):
            yield begin, end


def test_the_course_of_a_device_adds_up_to_its_steps(late: Path) -> None:
    summary = ktrace.summary(late, by=["operation"])
    courses = [use.course for use in summary.devices if use.course is not None]
    assert len(courses) == 12
    by_step = np.sum(courses, axis=0)
    for column, name in enumerate(("compute", "exposed_communication", "span")):
        assert by_step[:, column].tolist() == [getattr(use, name) for use in summary.step_use], name
    few = ktrace.summary([late / f"rank{rank}.pt.trace.json" for rank in range(MANY)], by=["operation"])
    assert [use.course for use in few.devices] == [None] * MANY


def test_without_steps_it_is_parts_of_the_span(late: Path, tmp_path: Path) -> None:
    """Beside the plain union of the source's own intervals."""
    paths = []
    for path in sorted(late.iterdir()):
        document = json.loads(path.read_text("utf-8"))
        document["traceEvents"] = [one for one in document["traceEvents"] if "ProfilerStep" not in one["name"]]
        paths.append(tmp_path / path.name)
        paths[-1].write_text(json.dumps(document), "utf-8")
    summary = ktrace.summary(paths, by=["operation"])
    assert not summary.steps
    (use,) = (one for one in summary.devices if one.rank == LATE)
    assert use.course is not None and use.course.shape == (COURSE, 3)
    assert use.course.sum(axis=0).tolist() == [use.compute, use.exposed_communication, use.span]
    events = ktrace.read(paths[[path.name for path in paths].index(f"rank{LATE}.pt.trace.json")]).events
    kernels = events[events.kind.isin(["kernel", "memset"]) & ~events.name.str.contains("nccl")]
    begin = int(events[events.kind.isin(["kernel", "memset", "memcpy"])].ts.min())
    until = begin + int(use.course[:20, 2].sum())
    spans = [(ts, ts + dur) for ts, dur in zip(kernels.ts.tolist(), kernels.dur.tolist(), strict=True)]
    inside = sum(min(stop, until) - start for start, stop in covered(spans) if start < until)
    assert inside == int(use.course[:20, 0].sum())


def html_of(summary: Summary) -> str:
    return page([], title="a job", subject=summary)


def names_of(html: str, anchor: str) -> list[str]:
    """What the bars of a section are called."""
    section = html.partition(f'<section id="{anchor}">')[2].partition("</section>")[0]
    lines = re.findall(r'<span class="name".*?</span></span>|<span class="name".*?</li>', section, re.S)
    return [re.sub(r"<[^>]+>", " ", line).strip() for line in lines]


def test_the_late_rank_is_first_and_marked(late: Path) -> None:
    html = html_of(ktrace.summary(late, by=["operation", "kernel"]))
    assert "<h2>Rank by step</h2>" in html
    assert html.count("◂ late") == 1 and html.count('<span class="tag">late</span>') == 1
    first, *others = names_of(html, "devices")
    assert re.sub(r"\s+", " ", first).startswith(f"rank {LATE} · GPU {LATE}")
    assert len(others) == MANY  # seven more, and the line of the others
    assert re.search(r"4 more: busy [\d.]+% to [\d.]+%, median", html)


def test_what_is_the_same_by_device_rank_and_file_is_shown_once(late: Path) -> None:
    summary = ktrace.summary(late, by=["operation", "device", "rank", "source", "stream"])
    section = html_of(summary).partition('<section id="groups">')[2].partition("</section>")[0]
    assert re.findall(r"<h3>(.*?)</h3>", section) == ["stream", "device"]
    one = ktrace.summary([late / "rank0.pt.trace.json", late / "rank1.pt.trace.json"], by=["operation", "rank"])
    assert "<h3>rank</h3>" in html_of(one)


def test_no_rank_is_called_late_where_none_is(tmp_path: Path) -> None:
    html = html_of(ktrace.summary(job(tmp_path / "even", 10), by=["operation", "kernel"]))
    assert "<h2>Rank by step</h2>" in html and "late</" not in html and "the others wait for rank" not in html


def test_few_devices_have_bars_alone() -> None:
    html = html_of(ktrace.summary(SAMPLES / "kineto/one-step-of-training.pt.trace.json", by=["operation"]))
    assert 'id="devices"' in html and 'id="ranks"' not in html


def thousand(summary: Summary) -> Summary:
    """The summary with a thousand devices, of which number 777 computes longer."""
    flat = np.tile(np.array([700, 200, 1_000], np.int64), (len(summary.steps), 1))
    slow = np.tile(np.array([890, 10, 1_000], np.int64), (len(summary.steps), 1))
    one = DeviceUse("", "s", 0, 0, 10**6, 9 * 10**5, 7 * 10**5, 2 * 10**5, 0, 2 * 10**5, 0, name="NVIDIA H100")
    uses = [
        replace(one, label=f"d{rank}", source=f"r{rank}", rank=rank, course=slow if rank == 777 else flat)
        for rank in range(1_000)
    ]
    return replace(summary, devices=uses)


def test_one_in_a_thousand_is_seen() -> None:
    """The lines are those of sixteen ranks; that with the slow one is deeper in one map and paler in the other."""
    html = html_of(thousand(training()))
    section = html.partition('<section id="ranks">')[2].partition("</section>")[0]
    assert "a line is 16 ranks" in section and len(section) < 40_000
    line = 777 // 16
    for colour, opacity in (("compute", "0.8"), ("communication", "0.05")):
        path = re.search(f'<path d="([^"]*)" class="{colour}" fill-opacity="{opacity}"', section)
        assert path and path[1] == f"M0 {line}h8v1h-8z", colour
    assert "rank 768 · GPU 0 to rank 783 · GPU 0" in section


def test_what_tells_devices_apart_stands_first() -> None:
    use = DeviceUse("r3 device 0", "r3", 0, 3, 9, 9, 9, 0, 0, 0, 0, name="NVIDIA H100")
    other = replace(use, rank=4, label="r4 device 0")
    assert called(use, [use, other]) == "rank 3 · GPU 0"
    assert called(use, [use, replace(other, name="NVIDIA A100")]) == "rank 3 · GPU 0 · NVIDIA H100"
    assert called(use, [use, replace(use, label="twice")]) == "r3 device 0"
    assert called(replace(use, rank=None), [use]) == "r3 device 0"
