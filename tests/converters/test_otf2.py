"""OTF2 by its own library: times by integers of ticks, who lies where, messages in order, damage."""

from __future__ import annotations

import json
import shutil
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SAMPLES

from ktrace.converters.otf2 import probe
from ktrace.errors import DamagedInput, InputError, StrictFailure
from ktrace.input.format import Score
from ktrace.input.source import Sample
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.trace import read
from ktrace.trace.trace import Trace

pytest.importorskip("otf2", reason="otf2 isn't installed: it has wheels for Linux on x86 and Python up to 3.11")

from otf2_samples import RESOLUTION, UNIX, trace

RANKS, ROCPROFV3 = SAMPLES / "otf2" / "two-ranks-streams-late-receives", SAMPLES / "otf2" / "rocprofv3-copies-overlap"


def ns(ticks: int) -> int:
    return ticks * 10**9 // RESOLUTION


def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RANKS, tmp_path / "run"))


def test_times_are_the_ticks_of_the_sample() -> None:
    """The figures that tests/helpers/otf2_samples.py writes, from the global offset."""
    events = read(RANKS).events
    kernels = events[events.kind == "kernel"]
    ticks = [(2_100 * rank + 6_300, 2_100 * rank + 27_300) for rank in range(2)]
    assert kernels[["pid", "device", "stream", "ts", "dur"]].values.tolist() == [
        [rank, rank, 7, ns(begin), ns(end) - ns(begin)] for rank, (begin, end) in enumerate(ticks)
    ]
    copies = events[events.kind == "memcpy"].sort_values(["pid", "ts"])
    assert (
        copies[["name", "copy_kind", "bytes"]].values.tolist()
        == [
            ["RmaGet", "HtoD", 8_192],
            ["RmaPut", "DtoH", 64],
        ]
        * 2
    )
    assert copies.dur.tolist()[1] == ns(27_511) - ns(27_301)
    assert set(events.host) == {"node07"}
    catalog = read(RANKS).catalog
    assert {"kind": "session", "at_ns": 0, "unix_ns": UNIX * 10**9, "ticks_per_s": RESOLUTION} in [
        json.loads(facts) for facts in catalog[catalog.entity == "clock"].facts
    ]


def test_every_event_is_accounted_for() -> None:
    report = read(RANKS).report
    # Of each rank 13 on the host, 6 on its stream, 6 of messages; flush, leave and end of the first; 4 of a helper.
    assert report.reader.taken == 57
    assert report.reader.balanced()
    assert dict(report.reader.removed) == {
        "structure": 4,
        "folded": 4,
        "catalog": 3,
        "end-without-begin": 1,
        "unread-packet": 1,
    }
    assert report.issues["unread-packet"].places == [(RANKS.name, "ThreadBegin (1)")]
    main = read(RANKS).events.query("name == 'main'").set_index("pid")
    assert main.dur[0] == ns(48_300) - ns(21)
    assert main.dur.isna()[1]  # never left


def test_what_a_region_did_is_at_the_region() -> None:
    events = read(RANKS).events
    assert events.query("name == 'MPI_Allreduce'").comm.tolist() == ["MPI_COMM_WORLD"] * 2
    assert events.query("name == 'solve' and tid == 0").args.tolist() == ['{"step":5}'] * 2
    assert events.query("kind == 'api'").args.tolist() == ['{"ALLOCATION_SIZE":4096}'] * 2
    assert events.query("name == 'energy'").value.tolist() == [1.5, 1.5, 2.75, 2.75]  # 10^-3 of what is written


def test_a_message_arrives_at_the_receive_that_was_posted_for_it() -> None:
    """The second receive is completed first: its message is the second one."""
    found = read(RANKS)
    names = found.events.set_index("id").name
    ends = found.links.sort_values(["key", "role"])
    assert ends.role.tolist() == ["in", "out"] * 2
    assert [json.loads(args)["bytes"] for args in ends.args] == [100, 100, 200, 200]
    assert [names[event] for event in ends.event] == ["MPI_Waitall", "MPI_Isend"] * 2
    assert ends.ts.tolist()[::2] == [ns(2_100 + 34_000), ns(2_100 + 33_000)]


def test_traces_of_rocprofv3_are_in_ns_since_boot() -> None:
    found = read(ROCPROFV3)
    rows = found.events[["kind", "host", "tid", "device", "stream", "ts", "dur", "copy_kind", "cat"]]
    rows = rows.astype(object).where(rows.notna(), None).sort_values("ts").values.tolist()
    boot = 9_000_000_000
    at = "gpu-host"
    assert rows == [
        ["range", at, 41, None, None, boot, 9_000, None, "marker_api"],
        ["api", at, 41, None, None, boot + 100, 250, None, "hip_api"],
        ["memcpy", at, None, 4, None, boot + 1_000, 2_000, "HtoD", "memory_copy"],
        ["memcpy", at, None, 4, None, boot + 2_000, 2_000, "DtoH", "memory_copy"],
        ["kernel", at, None, 4, 0, boot + 3_100, 4_000, None, "kernel_dispatch"],
        ["memcpy", at, None, 4, None, boot + 7_200, 700, "DtoH", "memory_copy"],
    ]
    clock = found.catalog[found.catalog.entity == "clock"].facts.tolist()
    assert any("boottime" in facts for facts in clock)
    assert not any("unix_ns" in facts for facts in clock)


def test_the_anchor_file_says_the_same_as_its_folder() -> None:
    for column in ("name", "ts", "dur"):
        assert read(RANKS / "traces.otf2").events[column].astype(str).tolist() == (
            read(RANKS).events[column].astype(str).tolist()
        )


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "otf2", None)
    with pytest.raises(InputError, match="reading OTF2 needs otf2") as caught:
        list(read_batches([str(RANKS)], Report()))
    assert caught.value.remedy == 'pip install "ktrace[otf2]"'


def test_the_anchor_file_alone_is_refused(tmp_path: Path) -> None:
    alone = Path(shutil.copy(RANKS / "traces.otf2", tmp_path))
    with pytest.raises(InputError, match="the other files of the trace aren't beside it") as caught:
        list(read_batches([str(alone)], Report()))
    assert "traces.def" in str(caught.value.expected)


def test_events_before_a_damage_are_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run, report = copy(tmp_path), Report()
    file = run / "traces" / "0.evt"
    file.write_bytes(file.read_bytes()[:200])
    found = Trace(read_batches([str(run)], report), report)
    assert report.reader.balanced()
    assert report.issues["cut"].rows == 0
    assert 0 < report.reader.taken < 57
    assert "solve" in set(found.events.name)
    (run / "traces.def").write_bytes((run / "traces.def").read_bytes()[:500])
    with pytest.raises(DamagedInput, match="OTF2's library can't read it"):
        list(read_batches([str(run)], Report()))
    assert capfd.readouterr().err == ""  # the library prints nothing


def without(file: Path) -> None:
    file.unlink()


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def overwritten(file: Path) -> None:
    file.write_bytes(bytes(range(256)) * 8)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def cut_in_its_head(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:20])


@pytest.mark.parametrize("suffix", ["evt", "def"])
@pytest.mark.parametrize("damage", [without, emptied, overwritten, a_folder, cut_in_its_head])
def test_the_others_are_read_without_a_location(tmp_path: Path, damage: Callable[[Path], None], suffix: str) -> None:
    """Of a location that has no own definitions while others have, the events aren't believed either."""
    if (damage, suffix) == (cut_in_its_head, "def"):
        pytest.skip("the own definitions of the samples are empty: a head alone is whole")
    run, report = copy(tmp_path), Report()
    damage(run / "traces" / f"1.{suffix}")
    found = Trace(read_batches([str(run)], report), report).events
    whole = read(RANKS).events
    lost = (whole.pid.eq(1) & whole.tid.eq(0)).fillna(False)
    assert sorted(found.name) == sorted(whole.name[~lost])
    assert report.reader.balanced()
    assert report.issues["bad-file"].rows == 19  # of 57: those of the location by its definition
    assert report.reader.taken == 57
    assert report.issues["bad-file"].places[0][0] == str(run / "traces" / "1.evt")


def test_a_location_that_is_missing_is_an_error_if_strict(tmp_path: Path) -> None:
    run = Path(shutil.copytree(ROCPROFV3, tmp_path / "run"))
    list(read_batches([str(run)], Report(strict=True)))
    (run / "40_results" / "1.evt").unlink()
    with pytest.raises(StrictFailure, match="A file of the folder can't be read"):
        list(read_batches([str(run)], Report(strict=True)))


def test_a_damaged_location_ends_alone(tmp_path: Path) -> None:
    run, report = copy(tmp_path), Report()
    for number in (0, 3):
        file = run / "traces" / f"{number}.evt"
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    list(read_batches([str(run)], report))
    places = {kind: [place for place, _ in issue.places] for kind, issue in report.issues.items()}
    traces = run / "traces"
    assert places["cut"] == [f"{traces / '0.evt'}: after 9 of 22 events", f"{traces / '3.evt'}: after 2 of 6 events"], (
        places
    )
    assert report.reader.taken == 57 - 13 - 4
    assert report.reader.balanced()


def test_fewer_events_than_are_stated_are_a_cut(tmp_path: Path) -> None:
    """A byte 0 where an event begins is the end of the events, as the library sees it."""
    run, report = copy(tmp_path), Report()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("otf2.definitions.Location.number_of_events", 30)
        list(read_batches([str(run)], report))
    assert report.issues["cut"].places[0] == (
        f"{run / 'traces' / '0.evt'}: after 22 of 30 events",
        "the file ends too early",
    )


def test_a_trace_without_any_location_is_refused(tmp_path: Path) -> None:
    run = copy(tmp_path)
    shutil.rmtree(run / "traces")
    with pytest.raises(DamagedInput, match="the file is missing") as caught:
        list(read_batches([str(run)], Report()))
    assert caught.value.path == str(run / "traces" / "0.evt")


def test_an_error_in_a_callback_ends_its_location_with_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the library's package catches and prints, and one that it raises itself, which only ctypes sees."""

    def fail(*_: object) -> None:
        raise LookupError("no such metric")

    with monkeypatch.context() as patch:
        patch.setattr("otf2.events.Metric._construct", fail)
        report = Report()
        list(read_batches([str(RANKS)], report))
        assert [why for _, why in report.issues["cut"].places] == ["LookupError: no such metric"] * 2
    monkeypatch.setitem(vars(sys.modules["_otf2.EvtReaderCallbacks"]), "CALLBACK_SUCCESS", 0)
    list(read_batches([str(RANKS)], report := Report()))
    assert {why for _, why in report.issues["cut"].places} == {"AttributeError: 'int' object has no attribute 'value'"}


def test_what_else_is_in_the_folder_is_noted(tmp_path: Path) -> None:
    run, report = copy(tmp_path), Report()
    (run / "scorep.cfg").write_text("SCOREP_ENABLE_TRACING=true\n")
    list(read_batches([str(run)], report))
    assert report.issues["no-trace"].places == [("scorep.cfg", "")]


def test_folders_that_are_no_trace_or_have_another() -> None:
    files = ("traces.def", "traces.otf2", "traces/0.evt")
    match = probe(Sample("run", listing=files))
    assert match and match.score == Score.DIALECT
    assert probe(Sample("run", listing=(*files, "pytorch.json"))) is None
    assert probe(Sample("run", listing=("a/traces.otf2", *files))) is None
    assert probe(Sample("run", listing=("traces.otf2",))) is None


def test_memory_does_not_grow_with_events(tmp_path: Path) -> None:
    list(read_batches([str(RANKS)], Report()))  # imports
    peaks = []
    for count in (5_000, 15_000):  # a batch of the library is full in each
        with trace(tmp_path / str(count), "traces", 10**9) as made:
            define = made.definitions
            process = define.location_group("p", system_tree_parent=define.system_tree_node("n", class_name="node"))
            thread, region = made.event_writer("t", group=process), define.region("work")
            for number in range(count):
                thread.enter(1 + 2 * number, region)
                thread.leave(2 + 2 * number, region)
        tracemalloc.start()
        for _ in read_batches([str(tmp_path / str(count))], Report(), batch_rows=250):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


def test_what_ends_before_it_begins_is_left_out_with_its_begin(tmp_path: Path) -> None:
    with trace(tmp_path / "run", "traces", 10**9) as made:
        define = made.definitions
        process = define.location_group("p", system_tree_parent=define.system_tree_node("n", class_name="node"))
        thread, region = made.event_writer("t", group=process), define.region("work")
        thread.enter(50, region)
        thread.leave(60, region)
        thread.enter(90, region)
        thread.leave(95, region)
    events = tmp_path / "run" / "traces" / "0.evt"  # OTF2's writer refuses such an end; a time follows a byte 5
    events.write_bytes(
        events.read_bytes().replace(b"\x05" + (95).to_bytes(8, "little"), b"\x05" + (80).to_bytes(8, "little"))
    )
    report = Report()
    found = Trace(read_batches([str(tmp_path / "run")], report), report)
    assert found.events[["ts", "dur"]].values.tolist() == [[0, 10]]
    assert report.issues["negative-duration"].rows == 2
    assert (report.reader.taken, report.reader.given) == (4, 2)


def test_a_metric_of_a_process_or_a_node_lies_there(tmp_path: Path) -> None:
    import otf2

    with trace(tmp_path / "run", "traces", 10**9) as made:
        define = made.definitions
        node = define.system_tree_node("n", class_name="node")
        process = define.location_group("p", system_tree_parent=node)
        recorder = define.location("power", type=otf2.LocationType.METRIC, group=process)
        power = define.metric_class([define.metric_member("power", value_type=otf2.Type.INT64, unit="W")])
        writer = made.event_writer_from_location(recorder)
        for number, scope in enumerate((process, node, None)):
            metric = define.metric_instance(power, recorder, scope=scope) if scope else power
            writer.metric(10 + number, metric, [100 + number])
    rows = read(tmp_path / "run").events[["host", "pid", "track", "ts", "value", "unit"]]
    assert rows.astype(object).where(rows.notna(), None).values.tolist() == [
        ["n", 0, None, 0, 100.0, "W"],
        ["n", None, None, 1, 101.0, "W"],
        ["n", 0, "power", 2, 102.0, "W"],
    ]
