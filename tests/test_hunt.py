"""Every real file that ../shared/hunt/INDEX.tsv lists as here: read as its line says, or refused with what was seen."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from conftest import SHARED

import ktrace
from ktrace.errors import DamagedInput, InputError, UnknownFormat
from ktrace.report import Severity

HUNT = SHARED / "hunt"


def _lines() -> list[dict[str, str]]:
    if not (HUNT / "INDEX.tsv").is_file():
        return []
    with (HUNT / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file, delimiter="\t") if row["here"] == "yes"]


LINES = _lines()

#: Files that the list calls unread, or no profile, whose formats ktrace has learned since.
LEARNED = frozenset(
    {
        "ascend/mi/hccl_raw_0.csv",
        "ascend/mi/step_trace_raw_0_detail_time.csv",
        "ascend/mstt/cluster_communication.json",
        "llama/llama-bench.md",
        "rocm/rocprof_compute_23ed6f36.db",
        "rocm/ruv/decode_clean_tps.json",
        "rocm/ruv/prefill_clean_tps.json",
        "tenstorrent/bh20_oft.csv",
        "tenstorrent/bh_64_clip_encoder_1.csv",
        "tenstorrent/bh_p100_dlv3.csv",
        "tenstorrent/wh_clip_encoder_2.csv",
    }
)
ROCM = [row["path"] for row in LINES if row["format"] == "rocprofv3 csv"]

pytestmark = pytest.mark.skipif(not LINES, reason="the real files are not at hand (../shared/hunt)")


@pytest.mark.parametrize("row", [pytest.param(row, id=row["path"]) for row in LINES])
def test_each_file_is_read_as_a_whole_or_refused_with_what_was_seen(row: dict[str, str], tmp_path: Path) -> None:
    path = HUNT / row["path"]
    is_xctrace = row["format"].startswith("xctrace")
    if is_xctrace and "<row>" not in path.read_text("utf-8"):
        with pytest.raises((InputError, DamagedInput)):
            ktrace.convert(path, tmp_path / "out.perfetto")
    elif row["verdict"].startswith(("not read", "not a profile")) and not (is_xctrace or row["path"] in LEARNED):
        with pytest.raises(UnknownFormat, match=r"begins with|headings|with the keys?|tables"):
            ktrace.read(path)
    else:
        trace = ktrace.read(path)
        lost = {kind for kind, issue in trace.report.issues.items() if issue.severity > Severity.NOTE}
        assert not lost
        assert len(trace.events) + len(trace.summaries) > 0
        assert trace.report.balanced()


@pytest.mark.parametrize("name", ROCM)
def test_rows_times_and_counters_of_rocprofv3(name: str) -> None:
    """Counts, sums of ns, the first start and sums of counters by arithmetic over the CSV itself."""
    with (HUNT / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    events = ktrace.read(HUNT / name).events
    if "Counter_Name" in rows[0]:
        sums: defaultdict[str, float] = defaultdict(float)
        for row in rows:
            sums[row["Counter_Name"]] += float(row["Counter_Value"])
        counters = events[events["kind"] == "counter"]
        assert Counter(counters["name"]) == Counter(row["Counter_Name"] for row in rows)
        assert counters.groupby("name")["value"].sum().to_dict() == pytest.approx(dict(sums))
        rows = list({row["Dispatch_Id"]: row for row in rows}.values())
    kind = "kernel" if "Kernel_Name" in rows[0] else "api"
    work = events[events["kind"] == kind]
    times = [(int(row["Start_Timestamp"]), int(row["End_Timestamp"])) for row in rows]
    assert (len(work), work["dur"].sum()) == (len(rows), sum(end - start for start, end in times))
    assert work["ts"].min() == min(times)[0]


def test_a_timeline_of_msprof_of_2022() -> None:
    """Tasks of Ascend Hardware by type, in ns, and the collective for its 57 copies. Four without a type are models."""
    events = ktrace.read(HUNT / "ascend/mi/msprof_0_2_1.json").events
    sums = {kind: (len(some), int(some["dur"].sum())) for kind, some in events.groupby("kind") if kind != "range"}
    assert sums["kernel"] == (137 + 2 + 1, 5_911_230 + 1_039_500 + 41_534_300)
    assert sums["memcpy"] == (30 + 29 - 57, 12_692_940 + 14_297_660 - 26_987_580)
    assert sums["sync"] == (140 + 140 + 12, 138_220_550 + 38_470 + 270)
