"""Merged timelines as viewers see them: nothing of two sources meets, hosts are machines, ranks come in order."""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from pathlib import Path

import engine
import pytest
from conftest import SAMPLES
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

import ktrace

STEP = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"
RANKS = [SAMPLES / "kineto" / f"collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]

#: Of the statistics that may complain: fields that only engines from v55 on know.
KNOWN = {"unknown_extension_fields"}


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A step of four ranks on two hosts, all with the same pids and ids; the files come in another order."""
    folder = tmp_path_factory.mktemp("four")
    document = json.loads(STEP.read_text())
    paths = []
    for rank in (2, 10, 3, 0):
        document["distributedInfo"]["rank"] = rank
        document["host_name"] = "node1" if rank > 2 else "node9"
        document["baseTimeNanoseconds"] = 1_724_000_000_000_000_000 + 1000 * rank
        paths.append(folder / f"part-{rank}.json")
        paths[-1].write_text(json.dumps(document))
    return paths


@pytest.fixture(scope="module")
def merged(four: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("merged") / "run.perfetto"
    assert ktrace.merge(four, path).balanced()
    return path


def test_processes_are_sorted_and_named_by_host_and_rank(merged: Path) -> None:
    machines, processes, labels = engine.query(
        merged,
        "select raw_id from machine where raw_id > 0 order by raw_id",
        "select upid, pid, p.name, m.raw_id as machine from process p join machine m on p.machine_id = m.id"
        " where p.name glob '*: python3'",
        "select string_value as label, count(*) as n from args where key like 'chrome.process_label%' group by 1",
    )
    assert len(machines) == 2
    told = trace.Trace.FromString(merged.read_bytes()).packet  # the order is in no table of older engines
    order = {packet.track_descriptor.process.process_name: packet.track_descriptor.process for packet in told}
    processes = sorted(processes, key=lambda row: order[row["name"]].legacy_sort_index)
    assert [row["name"] for row in processes] == [
        "rank 0, on node9: python3",
        "rank 2, on node9: python3",
        "rank 3, on node1: python3",
        "rank 10, on node1: python3",
    ]
    assert [row["machine"] for row in processes] == [processes[0]["machine"]] * 2 + [processes[2]["machine"]] * 2
    assert processes[0]["machine"] != processes[2]["machine"]
    for machine in {row["machine"] for row in processes}:  # the real pid where it is free on its machine
        pids = [row["pid"] for row in processes if row["machine"] == machine]
        assert len(set(pids)) == 2
        assert 4242 in pids
    said = {word for row in labels for word in row["label"].split(",")}
    assert said == {"rank 0", "rank 2", "rank 3", "rank 10", "node1", "node9"}


def test_queues_and_gpus_are_told_apart(merged: Path) -> None:
    sql = "select distinct name from track where type = 'gpu_render_stage' order by lower(name)"  # as the viewer does
    (queues,) = engine.query(merged, sql)
    assert [row["name"].lstrip(" ") for row in queues] == [
        f"rank {rank} GPU 0 stream {stream}" for rank in (0, 2, 3, 10) for stream in (7, 20)
    ]
    text = merged.read_bytes()
    for rank in (0, 2, 3, 10):
        assert f"rank {rank}: GPU 0 · NVIDIA H100 80GB HBM3".encode() in text


def test_no_arrow_and_no_process_is_of_two_sources(merged: Path, four: list[Path], tmp_path: Path) -> None:
    """The engine draws four times the arrows of one rank, each within a process, and as many slices in each."""
    ktrace.convert(four[0], tmp_path / "one.perfetto")
    counts = "select (select count(*) from slice) as slices, (select count(*) from flow) as flows"
    crossing = (
        "select count(*) as n from flow join slice a on slice_out = a.id join slice b on slice_in = b.id"
        " join thread_track ta on a.track_id = ta.id join thread_track tb on b.track_id = tb.id"
        " join thread x on ta.utid = x.utid join thread y on tb.utid = y.utid where x.upid != y.upid"
    )
    per_process = (
        "select upid, count(*) as n, count(distinct t.tid) as threads from slice s join thread_track k on"
        " s.track_id = k.id join thread t using (utid) group by upid"
    )
    ((one,),) = engine.query(tmp_path / "one.perfetto", counts)
    (whole,), (wrong,), processes = engine.query(merged, counts, crossing, per_process)
    assert whole == {"slices": 4 * one["slices"], "flows": 4 * one["flows"]}
    assert one["flows"] > 0
    assert wrong["n"] == 0
    assert len({row["n"] for row in processes}) == 1
    assert len(processes) == 4


def test_the_engine_complains_of_nothing_new(merged: Path) -> None:
    assert {row["name"] for row in engine.errors(merged)} <= KNOWN


def test_the_clock_snapshot_says_unix_time(merged: Path) -> None:
    found, times = engine.query(
        merged,
        "select clock_id, clock_value, ts from clock_snapshot where clock_id in (1, 6) order by ts",
        "select min(ts) as first from slice",
    )
    values = {row["clock_id"]: row["clock_value"] for row in found}
    # the first file is rank 2, whose clock the output has
    assert values[1] - values[6] == 1_724_000_000_000_002_000
    assert times[0]["first"] == 100_000 - 2_000  # rank 0 began 2 us before


@pytest.mark.parametrize("suffix", ["perfetto", "tar"])
def test_one_machine_tells_the_time_of_day_and_none_is_before_zero(
    suffix: str, four: list[Path], tmp_path: Path
) -> None:
    """An engine from v58 on joins two machines that know the time of day at REALTIME 0, 54 years before the trace."""
    path = tmp_path / f"run.{suffix}"
    ktrace.merge(four, path)
    snapshots, slices = engine.query(
        path,
        "select min(ts) as first, count(*) as n from clock_snapshot where clock_value > 1e18",
        "select min(ts) as first from slice",
    )
    assert snapshots == [{"first": slices[0]["first"], "n": 1}]
    (least,) = engine.query(path, "select min(ts) as first from clock_snapshot")
    assert least[0]["first"] >= 0
    if suffix == "perfetto":
        told = trace.Trace.FromString(path.read_bytes()).packet
        assert len([packet for packet in told if packet.HasField("clock_snapshot")]) == 1


@pytest.mark.parametrize("suffix", ["perfetto", "trace.json"])
def test_a_merged_timeline_comes_back_equal(suffix: str, four: list[Path], tmp_path: Path) -> None:
    table, timeline = tmp_path / "run.parquet", tmp_path / f"run.{suffix}"
    for path in (table, timeline):
        ktrace.merge(four, path)
    direct, back = ktrace.read(table), ktrace.read(timeline)
    keys = ["source", "id"]
    columns = ["source", "id", "host", "pid", "tid", "device", "stream", "name", "ts", "dur", "correlation"]
    frames = [trace.events[columns].sort_values(keys, ignore_index=True) for trace in (direct, back)]
    assert frames[0].equals(frames[1])
    catalogs = [trace.catalog[trace.catalog.entity.isin(["host", "source", "clock"])] for trace in (direct, back)]
    facts = [set(zip(catalog.source, catalog.entity, catalog.facts, strict=True)) for catalog in catalogs]
    assert facts[0] == facts[1]


def test_chrome_json_has_labels_and_order(four: list[Path], tmp_path: Path) -> None:
    ktrace.merge(four, tmp_path / "run.trace.json")
    events = json.loads((tmp_path / "run.trace.json").read_text())["traceEvents"]
    said = {
        kind: {event["pid"]: next(iter(event["args"].values())) for event in events if event["name"] == kind}
        for kind in ("process_name", "process_labels", "process_sort_index")
    }
    order = sorted(said["process_sort_index"], key=said["process_sort_index"].__getitem__)
    assert list(dict.fromkeys(said["process_labels"][pid] for pid in order)) == [
        "rank 0, node9",
        "rank 2, node9",
        "rank 3, node1",
        "rank 10, node1",
    ]
    slices = Counter(said["process_labels"][event["pid"]] for event in events if event["ph"] == "X")
    assert len(set(slices.values())) == 1
    ends: dict[int, set[str]] = {}
    for event in events:
        if event["ph"] in "stf":
            ends.setdefault(event["id"], set()).add(said["process_labels"][event["pid"]])
    assert ends
    assert all(len(labels) == 1 for labels in ends.values())


def test_one_rank_alone_is_written_as_ever(tmp_path: Path) -> None:
    ktrace.merge([STEP], tmp_path / "a.perfetto")
    machines, processes = engine.query(
        tmp_path / "a.perfetto", "select raw_id from machine", "select name from process where name is not null"
    )
    assert [row["raw_id"] for row in machines] == [0]
    assert sorted(row["name"] for row in processes) == ["NVIDIA H100 80GB HBM3 · GPU", "python3"]


def test_an_archive_has_a_trace_a_rank_and_a_manifest(four: list[Path], tmp_path: Path) -> None:
    one, two = tmp_path / "run.tar", tmp_path / "again.tar"
    report = ktrace.merge(four, one)
    assert report.balanced()
    assert [stage.stage for stage in report.stages] == ["align", "layout", "order", "perfetto"]
    ktrace.merge(four, two)
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as archive:
        names = archive.getnames()
        manifest = json.load(io.TextIOWrapper(archive.extractfile("perfetto_manifest.json")))["perfetto_manifest"]
        archive.extractall(tmp_path / "members", filter="data")
    assert names == ["perfetto_manifest.json", *(f"part-{rank}.perfetto" for rank in (0, 10, 2, 3))]
    assert manifest["version"] == 1
    assert [file["path"] for file in manifest["files"]] == names[1:]
    machines = [machine for file in manifest["files"] for machine in file["machines"]]
    assert [machine["name"] for machine in machines] == [
        "rank 0 on node9",
        "rank 10 on node1",
        "rank 2 on node9",
        "rank 3 on node1",
    ]
    whole = ktrace.read([tmp_path / "members" / name for name in names[1:]])
    ktrace.merge(four, tmp_path / "run.parquet")
    direct = ktrace.read(tmp_path / "run.parquet")
    both = [
        trace.events[["source", "id", "ts"]].sort_values(["source", "id"], ignore_index=True)
        for trace in (whole, direct)
    ]
    assert both[0].equals(both[1])
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    for file, machine in zip(manifest["files"], machines, strict=True):  # every packet is of a machine that is declared
        packets = Trace.FromString((tmp_path / "members" / file["path"]).read_bytes()).packet
        assert {packet.machine_id for packet in packets} == {machine["id"]}


def test_an_older_engine_merges_the_archive_too(four: list[Path], merged: Path, tmp_path: Path) -> None:
    ktrace.merge(four, tmp_path / "run.tar")
    counts = "select count(*) as slices, (select count(*) from flow) as flows, min(ts) as first from slice"
    machines, (mine,) = engine.query(tmp_path / "run.tar", "select raw_id from machine where raw_id > 0", counts)
    ((whole,),) = engine.query(merged, counts)
    assert len(machines) == 4
    assert mine == whole
    assert {row["name"] for row in engine.errors(tmp_path / "run.tar")} <= KNOWN


def test_traces_of_an_archive_have_one_origin_below_zero(tmp_path: Path) -> None:
    """One source begins below 0: all traces of the archive are moved by the same time, and so stay aligned."""
    table = tmp_path / "a.parquet"
    ktrace.merge(RANKS, table, offsets={RANKS[1].name: "-20ms"}, align="none")
    ktrace.merge([table], tmp_path / "run.perfetto", align="none")
    ktrace.merge([table], tmp_path / "run.tar", align="none")
    first = "select min(ts) as a, max(ts) as b, count(*) as n from slice"
    assert engine.query(tmp_path / "run.tar", first) == engine.query(tmp_path / "run.perfetto", first)


def test_names_of_members_are_legal_and_apart(tmp_path: Path) -> None:
    paths = []
    for name in (".hidden", "a b", "a_b", "ä" * 90):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_bytes(RANKS[0].read_bytes())
    ktrace.merge(paths, tmp_path / "run.tar")
    with tarfile.open(tmp_path / "run.tar") as archive:
        names = archive.getnames()[1:]
    assert len(set(names)) == 4
    assert all(name.isascii() and not name.startswith(".") and len(name) < 100 for name in names)


def test_counters_of_kernels_come_back_to_their_sources(tmp_path: Path) -> None:
    """Three sources with metrics on kernels that begin at the same time, and one on another machine."""
    inputs = [*sorted((SAMPLES / "rocpd").iterdir()), RANKS[0]]
    table, timeline = tmp_path / "run.parquet", tmp_path / "run.perfetto"
    for path in (table, timeline):
        ktrace.merge(inputs, path)
    counts = []
    for path in (table, timeline):
        events = ktrace.read(path).events.query("kind == 'counter'")
        counts.append(Counter(zip(events.source, events.name, events.device, events.ts, events.value, strict=True)))
    assert counts[0] == counts[1]
    assert len(counts[0]) > 20
