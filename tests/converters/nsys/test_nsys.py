"""Nsight Systems databases: counts, sums and names against SQL on the real files; rare tables and damage on our own."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import engine
import nsys_samples as made
import pytest
from conftest import SAMPLES, SHARED
from nightly import few, is_small

import ktrace
from ktrace.converters.nsys.reader import about
from ktrace.errors import DamagedInput, UnknownFormat
from ktrace.input.detection import choose
from ktrace.input.format import builtin_formats
from ktrace.input.source import Source
from ktrace.tables import Table

CORPUS = SHARED / "corpus" / "nsys_sqlite"
FILES = sorted(CORPUS.glob("*.sqlite"))
OLD = SAMPLES / "nsys" / "schema-2.9-calls-twice-mpi-as-a-domain.sqlite"
NEW = SAMPLES / "nsys" / "schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite"

CUPTI = "CUPTI_ACTIVITY_KIND_"
PID = made.PID

#: Kind of rows -> the tables that give it in the real files, with a condition.
KINDS = {
    "kernel": [f"{CUPTI}KERNEL"],
    "memcpy": [f"{CUPTI}MEMCPY"],
    "memset": [f"{CUPTI}MEMSET"],
    "sync": [f"{CUPTI}SYNCHRONIZATION"],
    "api": [f"{CUPTI}RUNTIME WHERE eventClass IN (0, 1)"],
    "overhead": [f"{CUPTI}OVERHEAD", "PROFILER_OVERHEAD"],
}

needs_corpus = pytest.mark.skipif(not FILES, reason="the real databases are not at hand (../shared/corpus)")


class Sql:
    """A real file, asked by the module sqlite3; nothing where it hasn't got the table."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro&immutable=1", uri=True)) as connection:
            try:
                return connection.execute(query).fetchall()
            except sqlite3.OperationalError as error:
                assert "no such table" in str(error), error
                return []

    def tables(self) -> list[str]:
        return [name for (name,) in self("SELECT name FROM sqlite_master WHERE type = 'table'")]


def rows(trace: ktrace.Trace, record: str = "events") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = trace.to_arrow()[record].to_pylist()
    return found


def of(trace: ktrace.Trace, *kinds: str) -> list[dict[str, Any]]:
    return [row for row in rows(trace) if row["kind"] in kinds]


def args(row: dict[str, Any]) -> dict[str, Any]:
    return json.loads(row["args"]) if row["args"] else {}


@pytest.fixture(scope="module", params=few(FILES, is_small), ids=lambda path: path.stem)
def both(request: pytest.FixtureRequest) -> tuple[Sql, ktrace.Trace]:
    return Sql(request.param), ktrace.read(request.param)


@needs_corpus
def test_counts_and_durations_are_those_of_sql(both: tuple[Sql, ktrace.Trace]) -> None:
    sql, trace = both
    for kind, tables in KINDS.items():
        answers = [sql(f"SELECT count(*), coalesce(sum(end - start), 0) FROM {table}") for table in tables]
        wanted = [sum(answer[0][part] for answer in answers if answer) for part in (0, 1)]
        found = of(trace, kind)
        assert [len(found), sum(row["dur"] for row in found)] == wanted, kind
    answer = sql("SELECT count(*), coalesce(sum(end - start), 0) FROM NVTX_EVENTS WHERE eventType IN (59, 60)")
    ranges = [row for row in of(trace, "range") if not str(row["track"]).startswith("CPU ")]
    assert (len(ranges), sum(row["dur"] for row in ranges)) == (answer or [(0, 0)])[0]


@needs_corpus
def test_every_row_of_every_table_is_a_record(both: tuple[Sql, ktrace.Trace]) -> None:
    sql, trace = both
    counts = {table: sql(f'SELECT count(*) FROM "{table}"')[0][0] for table in sql.tables()}
    structure = {"StringIds", "UnwindMethodType", *(table for table in counts if table.startswith("ENUM_"))}
    assert trace.report.reader.taken == sum(counts.values())
    assert trace.report.reader.removed["structure"] == sum(counts[table] for table in structure & counts.keys())
    assert trace.report.read == sum(count for table, count in counts.items() if table not in structure)
    assert trace.report.balanced()


@needs_corpus
def test_kernels_are_those_of_sql(both: tuple[Sql, ktrace.Trace]) -> None:
    sql, trace = both
    launch = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "dynamicSharedMemory")
    wanted = sql(
        "SELECT d.value, NULL, k.start, k.end - k.start, k.globalPid >> 24 & 0xffffff, deviceId, contextId, "
        f"streamId, correlationId, {', '.join(launch)}, staticSharedMemory + dynamicSharedMemory FROM {CUPTI}KERNEL k "
        "JOIN StringIds d ON d.id = demangledName"
    )
    columns = ("name", "short_name", "ts", "dur", "pid", "device", "context", "stream", "correlation")
    columns += tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")
    columns += ("registers", "shared_dynamic", "shared_memory")
    found = [tuple(row[name] for name in columns) for row in of(trace, "kernel")]
    assert found == wanted


@needs_corpus
def test_launches_meet_their_work(both: tuple[Sql, ktrace.Trace], tmp_path: Path) -> None:
    """Pairs of a call and device work of one process and correlation: by SQL, in the rows, as arrows."""
    sql, trace = both
    pairs = 0
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        answer = sql(
            f"SELECT count(*) FROM {CUPTI}{table} k JOIN {CUPTI}RUNTIME r ON r.correlationId = k.correlationId "
            "AND r.globalTid >> 24 = k.globalPid >> 24 WHERE eventClass IN (0, 1)"
        )
        pairs += answer[0][0] if answer else 0
    calls = Counter((row["pid"], row["correlation"]) for row in of(trace, "api"))
    work = [(row["pid"], row["correlation"]) for row in of(trace, "kernel", "memcpy", "memset")]
    assert sum(calls[key] for key in work) == pairs > 0
    assert len(work) == sum(
        (sql(f"SELECT count(*) FROM {CUPTI}{table}") or [(0,)])[0][0] for table in ("KERNEL", "MEMCPY", "MEMSET")
    )
    ktrace.convert(sql.path, tmp_path / "out.trace.json")
    events = json.loads((tmp_path / "out.trace.json").read_bytes())["traceEvents"]
    names = {row["name"] for row in of(trace, "sync")}
    slices = {(event["pid"], event["tid"], event["ts"]): event["name"] for event in events if event["ph"] == "X"}
    arrivals = [event for event in events if event["ph"] == "f"]
    assert sum(slices[event["pid"], event["tid"], event["ts"]] not in names for event in arrivals) == pairs


@needs_corpus
def test_names_of_ranges_and_calls(both: tuple[Sql, ktrace.Trace]) -> None:
    sql, trace = both
    wanted = Counter(
        dict(
            sql(
                "SELECT coalesce(text, value), count(*) FROM NVTX_EVENTS LEFT JOIN StringIds s ON s.id = textId "
                "WHERE eventType IN (59, 60) GROUP BY 1"
            )
        )
    )
    ranges = [row for row in of(trace, "range") if not str(row["track"]).startswith("CPU ")]
    assert Counter(row["name"] for row in ranges) == wanted
    called = sql(
        f"SELECT value, count(*) FROM {CUPTI}RUNTIME JOIN StringIds s ON s.id = nameId "
        "WHERE eventClass IN (0, 1) GROUP BY 1"
    )
    assert Counter(row["name"] for row in of(trace, "api")) == Counter(dict(called))


@needs_corpus
def test_the_engine_takes_the_timeline(both: tuple[Sql, ktrace.Trace], tmp_path: Path) -> None:
    sql, trace = both
    ktrace.convert(sql.path, tmp_path / "out.perfetto")
    (counted,) = engine.query(tmp_path / "out.perfetto", "SELECT count(*) AS slices FROM slice")
    assert counted[0]["slices"] == len([row for row in rows(trace) if row["kind"] != "counter"])
    # The engine of 2025 doesn't know two fields of kernels.
    assert {row["name"] for row in engine.errors(tmp_path / "out.perfetto")} <= {"unknown_extension_fields"}


@needs_corpus
def test_samples_have_their_stacks() -> None:
    path = CORPUS / "saxpy-mpi-cuda_nsys_perlmutter0.sqlite"
    trace = ktrace.read(path)
    stacks = {row["name"]: json.loads(row["facts"]) for row in rows(trace, "catalog") if row["entity"] == "stack"}
    wanted: Counter[tuple[str, ...]] = Counter()
    chains: dict[int, list[tuple[int, str]]] = {}
    for number, depth, name in Sql(path)(
        "SELECT c.id, stackDepth, value FROM SAMPLING_CALLCHAINS c JOIN StringIds s ON s.id = symbol"
    ):
        chains.setdefault(number, []).append((-depth, name))
    for chain in chains.values():
        wanted[tuple(name for _, name in sorted(chain))] += 1
    found = Counter(tuple(stacks[args(row)["stack"]]["frames"]) for row in of(trace, "sample"))
    assert found == wanted
    calls = [row for row in of(trace, "api") if "stack" in args(row)]
    # Those that stand twice, and of whose chains there are frames.
    chained = Sql(path)(f"SELECT count(*) FROM {CUPTI}RUNTIME WHERE callchainId IN (SELECT id FROM CUDA_CALLCHAINS)")
    assert len(calls) == chained[0][0] == 37
    leaves = Sql(path)(
        "SELECT DISTINCT value FROM CUDA_CALLCHAINS JOIN StringIds s ON s.id = symbol WHERE stackDepth = 0"
    )
    assert {stacks[args(row)["stack"]]["frames"][-1] for row in calls} <= {name for (name,) in leaves}


@needs_corpus
def test_the_real_clock_devices_processes_and_warnings() -> None:
    trace = ktrace.read(CORPUS / "mock.sqlite")
    known = {row["entity"]: row for row in rows(trace, "catalog") if row["entity"] != "stream"}
    assert json.loads(known["clock"]["facts"]) == {"kind": "session", "at_ns": 0, "unix_ns": 1776781226557295056}
    device = json.loads(known["device"]["facts"])
    assert known["device"]["name"] == "NVIDIA GeForce RTX 3080"
    assert (device["sm_count"], device["memory"], device["compute_capability"]) == (68, 10736893952, "8.6")
    assert (known["process"]["name"], known["process"]["pid"]) == ("python", 91186)
    warnings = trace.report.issues["capture-warning"]
    assert [place for place, _ in warnings.places] == ["DIAGNOSTIC_EVENT row 9"]
    assert "Unified Memory cannot be traced" in warnings.places[0][1]
    assert len(of(trace, "log")) == 15
    secrets = json.dumps(rows(trace, "catalog"))
    assert "GEMINI_CLI_IDE_AUTH_TOKEN" not in secrets
    assert trace.report.issues["environment"].rows == 55


@needs_corpus
def test_a_synchronisation_is_on_the_device_of_its_context() -> None:
    """The table says device 0 for all of them; the second process works on device 1."""
    trace = ktrace.read(CORPUS / "h100_2gpu_1s.sqlite")
    assert {(row["pid"], row["device"]) for row in of(trace, "sync", "kernel")} == {(111, 0), (112, 1)}


# Our own databases, in the shape of schema 2.9 and 3.25.


@pytest.fixture(scope="module")
def old() -> ktrace.Trace:
    return ktrace.read(OLD)


@pytest.fixture(scope="module")
def new() -> ktrace.Trace:
    return ktrace.read(NEW)


def named(trace: ktrace.Trace, name: str) -> dict[str, Any]:
    (found,) = [row for row in rows(trace) if row["name"] == name]
    return found


def test_the_samples_are_what_the_script_makes(tmp_path: Path) -> None:
    for path, tables, more in ((OLD, made.old(), made.OLD_MORE), (NEW, made.new(), made.MORE)):
        again = made.make(tmp_path / path.name, tables, more=more)
        with closing(sqlite3.connect(again)) as ours, closing(sqlite3.connect(path)) as theirs:
            assert list(ours.iterdump()) == list(theirs.iterdump())


def test_a_call_that_stands_twice_is_one(old: ktrace.Trace) -> None:
    calls = Counter(row["name"] for row in of(old, "api"))
    assert calls["cudaMemcpy_v3020"] == 2
    assert calls["cudaMemcpy"] == calls["cudaLaunchKernel"] == 0
    assert old.report.issues["folded"].rows == old.report.reader.removed["folded"] == 2
    launch = next(row for row in of(old, "api") if row["correlation"] == 12)
    assert (launch["name"], launch["short_name"], launch["ts"]) == (
        "cudaLaunchKernel_v7000",
        "cudaLaunchKernel",
        31_000,
    )
    stack = next(
        row for row in rows(old, "catalog") if row["entity"] == "stack" and row["name"] == args(launch)["stack"]
    )
    assert json.loads(stack["facts"])["frames"] == ["__libc_start_main", "main", "saxpy"]


def test_a_driver_call_within_a_runtime_call_starts_nothing(old: ktrace.Trace) -> None:
    inner = named(old, "cuLaunchKernel")
    assert inner["correlation"] is None
    assert args(inner)["correlationId"] == 12


def test_records_of_events_without_times(old: ktrace.Trace) -> None:
    (link,) = rows(old, "links")
    assert (link["link"], link["role"], link["key"], link["ts"]) == ("event", "out", f"{PID}:3", None)
    assert link["event"] == named(old, "cudaEventRecord_v3020")["id"]


def test_exports_with_zeros_for_nulls(tmp_path: Path) -> None:
    """As those of 2019 to 2021; without the table of processes, a process is called as its main thread is."""
    tables = made.old()
    text = made.Strings()
    tables["NVTX_EVENTS"] = [
        made.nvtx(34, 5_000, 0, "", textId=text("mark")),
        made.nvtx(59, 6_000, 0, "open", textId=0),
        made.nvtx(59, 7_000, 6_000, "backwards"),
    ]
    tables["ThreadNames"] = [{"nameId": text("app"), "globalTid": made.GLOBAL_TID}]
    tables["StringIds"] = text.rows()
    kept = {name: tables[name] for name in ("NVTX_EVENTS", "ThreadNames", "StringIds")}
    trace = ktrace.read(made.make(tmp_path / "a.sqlite", kept))
    assert [(row["kind"], row["name"], row["ts"], row["dur"]) for row in rows(trace)] == [
        ("instant", "mark", 5_000, None),
        ("range", "open", 6_000, None),
    ]
    assert trace.report.issues["negative-duration"].places == [("NVTX_EVENTS row 3", "end: 6000")]
    (process,) = [row for row in rows(trace, "catalog") if row["entity"] == "process"]
    assert (process["pid"], process["name"]) == (PID, "app")


def test_domains_threads_and_ranges_without_an_end(old: ktrace.Trace) -> None:
    assert (named(old, "MPI_Init")["track"], named(old, "step 1")["track"]) == ("MPI", None)
    assert named(old, "never popped")["dur"] is None
    (thread,) = [row for row in rows(old, "catalog") if row["entity"] == "thread"]
    assert thread["name"] == "MPI Rank 0"


def test_time_on_cores(old: ktrace.Trace) -> None:
    on_cores = [
        (row["track"], row["ts"], row["dur"], args(row)["tid"]) for row in rows(old) if row["cat"] == "scheduling"
    ]
    assert on_cores == [("CPU 3", 400, 29_600, PID), ("CPU 5", 30_200, None, PID)]
    assert old.report.issues["end-without-begin"].places == [("SCHED_EVENTS row 1", "cpu 3")]
    ranges = [row[0] for table in _ranges(OLD) for row in table.rows]
    assert "MPI_Init" in ranges and not {row["name"] for row in rows(old) if row["cat"] == "scheduling"} & {*ranges}


def test_a_trace_without_ranges_lists_no_threads_as_ranges(tmp_path: Path) -> None:
    path = tmp_path / "without-nvtx.sqlite"
    with closing(sqlite3.connect(OLD)) as old, closing(sqlite3.connect(path)) as other:
        old.backup(other)
        other.execute("DELETE FROM NVTX_EVENTS")
        other.commit()
    scheduled = [row for row in rows(ktrace.read(path)) if row["cat"] == "scheduling"]
    assert [(row["track"], row["dur"]) for row in scheduled] == [("CPU 3", 29_600), ("CPU 5", None)]
    (note,) = ktrace.summary(path, by=["range"]).notes
    assert note.startswith("This input has no range information. Ranges: torch.profiler.record_function")
    assert _ranges(path) == []


def _ranges(path: Path) -> list[Table]:
    return [table for table in ktrace.summary(path, by=["range"]).tables() if table.name == "range"]


def test_what_a_process_printed_and_its_name(old: ktrace.Trace) -> None:
    (process,) = [row for row in rows(old, "catalog") if row["entity"] == "process"]
    assert process["name"] == "saxpy"
    assert json.loads(process["facts"]) == {"command": "/opt/app/saxpy", "stdout": "ok\n"}
    assert "not-to-be-shown" not in json.dumps(rows(old, "catalog"))


def test_a_graph_is_a_row_with_its_launch(new: ktrace.Trace) -> None:
    (graph,) = of(new, "graph")
    assert (graph["name"], graph["dur"], graph["correlation"]) == ("CUDA graph 5", 11_000, 24)
    assert named(new, "cudaGraphLaunch_v10000")["correlation"] == 24


def test_devices_have_the_ordinals_of_cuda(new: ktrace.Trace) -> None:
    assert {row["device"] for row in of(new, "kernel", "memcpy", "graph", "sync", "alloc")} == {0}
    assert {args(row)["gpuId"] for row in of(new, "kernel")} == {3}
    device = next(row for row in rows(new, "catalog") if row["entity"] == "device" and row["device"] == 0)
    assert json.loads(device["facts"])["cuda_devices"] == [
        {"cudaId": 0, "pid": PID, "uuid": "MIG-0", "numMultiprocessors": 16}
    ]
    assert device["facts"].count('"uuid":"00000000') == 1


def test_ordinals_of_old_files_are_those_of_all_processes(tmp_path: Path) -> None:
    tables = made.old()
    tables["TARGET_INFO_GPU"] = [{**made.gpu(4), "cuDevice": 0}, {**made.gpu(0, "a display"), "cuDevice": None}]
    trace = ktrace.read(made.make(tmp_path / "a.sqlite", tables, more=made.OLD_MORE))
    assert {row["device"] for row in of(trace, "kernel", "memcpy")} == {0}
    assert {args(row)["gpuId"] for row in of(trace, "kernel", "memcpy")} == {4}


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        ("Device-to-Host", ("[CUDA memcpy Device-to-Host]", "DtoH")),
        ("Unified HtoD", ("[CUDA Unified Memory memcpy HtoD]", "HtoD")),
        ("CUDA_MEMCPY_KIND_PTOP", ("[CUDA memcpy CUDA_MEMCPY_KIND_PTOP]", "PtoP")),
        ("sideways", ("[CUDA memcpy sideways]", "sideways")),
    ],
)
def test_words_for_copies(tmp_path: Path, label: str, wanted: tuple[str, str]) -> None:
    tables = made.new()
    tables["ENUM_CUDA_MEMCPY_OPER"] = [{"id": 1, "name": label}]
    trace = ktrace.read(made.make(tmp_path / "a.sqlite", tables, more=made.MORE))
    copy = of(trace, "memcpy")[0]
    assert (copy["name"], copy["copy_kind"]) == wanted


def test_copies(new: ktrace.Trace) -> None:
    batched, moved = of(new, "memcpy")
    assert (batched["name"], batched["copy_kind"], args(batched)["copyCount"]) == (
        "[CUDA memcpy Host-to-Device]",
        "HtoD",
        4,
    )
    assert (moved["name"], moved["copy_kind"]) == ("[CUDA Unified Memory memcpy Host-to-Device]", "HtoD")
    assert (moved["stream"], moved["correlation"], args(moved)["migrationCause"]) == (None, None, "Page fault")


def test_a_stream_that_waits_meets_the_call_that_recorded_the_event(new: ktrace.Trace) -> None:
    ends = {row["role"]: row for row in rows(new, "links")}
    assert {row["link"] for row in ends.values()} == {"wait"}
    assert ends["out"]["key"] == ends["in"]["key"]
    assert ends["out"]["event"] == named(new, "cudaEventRecord_v3020")["id"]
    assert ends["in"]["event"] == named(new, "Stream wait sync")["id"]
    assert named(new, "Context sync")["stream"] is None
    assert named(new, "CUDA event")["ts"] == 23_400


def test_ranges_of_processes_marks_and_payloads(new: ktrace.Trace) -> None:
    request = named(new, "request 1")
    assert (request["pid"], request["tid"], request["track"]) == (PID, None, "NVTX")
    assert args(request) == {"tid": made.TID, "endTid": made.TID + 1, "rangeId": 1}
    assert (named(new, "done")["kind"], args(named(new, "done"))["jsonText"]) == ("instant", "a text")
    collective = named(new, "ncclAllReduce")
    assert (collective["track"], collective["cat"], collective["comm"], collective["bytes"]) == (
        *("NCCL", "communication", "77", 4096),
    )
    assert args(collective) == {"jsonText": {"Rank": 0}}
    assert args(named(new, "iteration 7")) == {"color": "#FF00FF00", "uint32Value": 7}


def test_memory_runs_by_kind(new: ktrace.Trace) -> None:
    allocs = of(new, "alloc")
    assert [row["bytes"] for row in allocs] == [4096, 512, 1024, -4096]
    totals = {row["parent"]: (row["track"], row["value"]) for row in of(new, "counter") if row["name"] == "allocated"}
    device, pinned = "allocated (Device)", "allocated (Pinned)"
    assert [totals[row["id"]] for row in allocs] == [(device, 4096), (pinned, 512), (device, 5120), (device, 1024)]


def test_metrics_of_gpus_and_cards(new: ktrace.Trace) -> None:
    found = [(row["name"], row["ts"], row["value"], row["unit"], row["device"]) for row in of(new, "counter")]
    sms, clock = "SMs Active [Throughput %]", "GPC Clock Frequency [MHz]"
    assert [row for row in found if row[0] == sms] == [
        (sms, time, time / 500, "%", 0) for time in (20_000, 30_000, 40_000)
    ]
    assert [row for row in found if row[0] == clock] == [
        (clock, time, 1980, "MHz", 0) for time in (20_000, 30_000, 40_000)
    ]
    assert ("IB: Bytes sent", 20_000, 900, "B", None) in found


def test_cards_by_their_names(tmp_path: Path) -> None:
    """A column of 2025: the number of the card, whose name stands in a table of its own."""
    sample = {"start": 1, "end": 5, "globalId": 8, "metricsListId": 1, "metricsIdx": 0, "value": 9, "nicId": 2}
    tables: dict[str, list[made.Row]] = {
        "NET_NIC_METRIC": [sample, sample | {"nicId": 3}],
        "TARGET_INFO_NIC_INFO": [{"nicId": 2, "name": "mlx5_0"}],
        "TARGET_INFO_NETWORK_METRICS": [{"metricsListId": 1, "metricsIdx": 0, "name": "sent", "unit": "B"}],
        "StringIds": [],
    }
    more = {"NET_NIC_METRIC": f"{made.TABLES['NET_NIC_METRIC']} nicId", "TARGET_INFO_NIC_INFO": "nicId name:TEXT"}
    trace = ktrace.read(made.make(tmp_path / "a.sqlite", tables, more=more))
    assert [(row["name"], row["track"], row["value"], row["unit"], row["dur"]) for row in rows(trace)] == [
        ("sent", "sent (mlx5_0)", 9, "B", 4),
        ("sent", "sent (NIC 3)", 9, "B", 4),
    ]


def test_tables_that_nobody_knows(new: ktrace.Trace) -> None:
    beam = named(new, "beam")
    assert (beam["kind"], beam["dur"], args(beam)) == ("range", 500, {"power": 5})
    assert [place for place, _ in new.report.issues["unknown-kind"].places] == ["HOLODECK_EVENTS"]
    source = next(row for row in rows(new, "catalog") if row["entity"] == "source")
    assert json.loads(source["facts"])["HOLODECK_SETTINGS"] == [{"key": "safety", "value": "on"}]
    assert (named(new, "power")["kind"], args(named(new, "power"))) == (
        "instant",
        {"rawTimestamp": 1, "data": {"watts": 310.5}},
    )


def test_the_capture_warns_and_the_clock_was_moved(new: ktrace.Trace) -> None:
    assert new.report.issues["capture-warning"].places == [
        ("DIAGNOSTIC_EVENT row 2", "Not all CUDA events were collected.")
    ]
    clock = next(row for row in rows(new, "catalog") if row["entity"] == "clock")
    assert json.loads(clock["facts"]) == {
        "kind": "session",
        "at_ns": 1000,
        "unix_ns": 1_780_000_000_000_000_000,
        "shift_ns": 1000,
    }
    source = next(row for row in rows(new, "catalog") if row["entity"] == "source")
    facts = json.loads(source["facts"])
    assert (facts["version"], facts["command"], facts["rank"]) == ("2026.2.1.210", ["python3", "train.py"], 3)
    stream = next(row for row in rows(new, "catalog") if row["entity"] == "stream" and row["stream"] == 8)
    assert (stream["name"], json.loads(stream["facts"])["priority"]) == ("communication", -5)


def test_normalised_times_are_unix_times(tmp_path: Path) -> None:
    tables = made.new()
    tables["META_DATA_EXPORT"].append({"name": "EXPORT_PARAM_TIME_NORMALIZE", "value": "true"})
    trace = ktrace.read(made.make(tmp_path / "a.sqlite", tables, more=made.MORE))
    clock = next(row for row in rows(trace, "catalog") if row["entity"] == "clock")
    start = 1_780_000_000_000_000_000
    assert json.loads(clock["facts"]) == {"kind": "unix", "at_ns": start + 1000, "unix_ns": start, "shift_ns": 1000}


# Bad input.


def kernels(path: Path, *changes: dict[str, Any], more: Sequence[str] = ()) -> Path:
    """A database with a good kernel and some others."""
    text = made.Strings()
    good = made.kernel(text, "good", 1_000, 2_000, 1)
    tables = {f"{CUPTI}KERNEL": [good, *(good | change for change in changes)], "StringIds": text.rows()}
    made.make(path, tables)
    with closing(sqlite3.connect(path)) as database:
        for statement in more:
            database.execute(statement)
        database.commit()
    return path


@pytest.mark.parametrize(
    ("change", "kind", "detail"),
    [
        ({"start": None}, "bad-record", "start is null"),
        ({"end": None}, "bad-record", "end is null"),
        ({"end": 999}, "negative-duration", "end: 999"),
        ({"start": -(1 << 63)}, "time-range", "start: -9223372036854775808"),
        ({"end": (1 << 63) - 1}, "time-range", "end: 9223372036854775807"),
        ({"start": "soon"}, "bad-record", "start is 'soon', not an integer"),
    ],
)
def test_a_row_with_a_bad_time_is_left_out(tmp_path: Path, change: dict[str, Any], kind: str, detail: str) -> None:
    trace = ktrace.read(kernels(tmp_path / "a.sqlite", change))
    assert [row["name"] for row in of(trace, "kernel")] == ["good"]
    assert trace.report.issues[kind].places == [(f"{CUPTI}KERNEL row 2", detail)]
    assert trace.report.balanced()


def test_zero_durations_and_negative_times_are_legal(tmp_path: Path) -> None:
    trace = ktrace.read(kernels(tmp_path / "a.sqlite", {"start": -50, "end": -50}))
    assert [(row["ts"], row["dur"]) for row in of(trace, "kernel")] == [(1_000, 1_000), (-50, 0)]
    assert not trace.report.issues


def test_names_that_the_file_has_not_got(tmp_path: Path) -> None:
    lost = {"demangledName": 77, "shortName": 77, "mangledName": None}
    trace = ktrace.read(kernels(tmp_path / "a.sqlite", lost, lost, {"demangledName": None}))
    assert [row["name"] for row in of(trace, "kernel")] == ["good", "[string 77]", "[string 77]", "[no name]"]
    issue = trace.report.issues["missing-string"]
    assert issue.rows == 3
    assert (f"{CUPTI}KERNEL row 2", "[string 77]") in issue.places


def test_nulls_where_none_belong(tmp_path: Path) -> None:
    nothing = dict.fromkeys(
        ("deviceId", "contextId", "streamId", "correlationId", "globalPid", "gridX", "registersPerThread")
    )
    trace = ktrace.read(kernels(tmp_path / "a.sqlite", nothing | {"staticSharedMemory": None}))
    bad = of(trace, "kernel")[1]
    columns = ("pid", "device", "context", "stream", "correlation", "grid_x", "registers", "shared_memory")
    assert {name: bad[name] for name in columns} == dict.fromkeys(columns)


def test_numbers_of_64_bits(tmp_path: Path) -> None:
    great = (1 << 63) - 1
    change = {"correlationId": great, "globalPid": great, "gridX": great, "launchType": great, "demangledName": great}
    change |= {"staticSharedMemory": great, "registersPerThread": 1 << 40}
    trace = ktrace.read(kernels(tmp_path / "a.sqlite", change))
    bad = of(trace, "kernel")[1]
    assert (bad["correlation"], bad["pid"], bad["grid_x"]) == (great, 0xFFFFFF, great)
    assert (args(bad)["launchType"], bad["name"]) == (str(great), f"[string {great}]")
    assert bad["shared_memory"] is None
    assert args(bad)["staticSharedMemory"] == great
    assert bad["registers"] is None
    assert args(bad)["registersPerThread"] == 1 << 40


def test_numbers_that_are_texts_and_fractions(tmp_path: Path) -> None:
    good = {"start": "5", "end": 9.0, "deviceId": "1"}
    path = made.make(
        tmp_path / "a.sqlite",
        {f"{CUPTI}KERNEL": [good, good | {"start": "a"}, good | {"end": 9.5}], "StringIds": []},
        more={f"{CUPTI}KERNEL": "start:TEXT end:REAL deviceId:TEXT"},
    )
    trace = ktrace.read(path)
    assert [(row["ts"], row["dur"], row["device"]) for row in rows(trace)] == [(5, 4, 1)]
    assert trace.report.issues["bad-record"].places == [
        (f"{CUPTI}KERNEL row 2", "start is 'a', not an integer"),
        (f"{CUPTI}KERNEL row 3", "end is 9.5, not an integer"),
    ]


def test_tables_that_are_not_there(tmp_path: Path) -> None:
    """A trimmed file: kernels alone, without strings, with a column's name in other letters."""
    path = made.make(
        tmp_path / "a.sqlite",
        {f"{CUPTI}KERNEL": [{"START": 5, "end": 9, "deviceid": 1}], "StringIds": []},
        more={f"{CUPTI}KERNEL": "START end deviceid"},
    )
    trace = ktrace.read(path)
    (row,) = rows(trace)
    assert (row["ts"], row["dur"], row["device"], row["name"]) == (5, 4, 1, "[no name]")


def test_a_database_that_is_empty_of_rows(tmp_path: Path) -> None:
    path = made.make(tmp_path / "a.sqlite", {table: [] for table in made.TABLES})
    trace = ktrace.read(path)
    assert not rows(trace)
    assert trace.report.balanced()


def test_a_locked_database_is_read() -> None:
    with closing(sqlite3.connect(f"file:{NEW}?mode=ro", uri=True, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM StringIds").fetchone()[0]
        assert rows(ktrace.read(NEW))


def test_damage_names_table_and_row(tmp_path: Path) -> None:
    text = made.Strings()
    many = [made.kernel(text, f"kernel {n % 7}", 10 * n, 10 * n + 5, n + 1) for n in range(5_000)]
    path = made.make(tmp_path / "a.sqlite", {"StringIds": text.rows(), f"{CUPTI}KERNEL": many})
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 8192] = b"\xff" * 8192
    path.write_bytes(data)
    with pytest.raises(DamagedInput, match=rf"{CUPTI}KERNEL after row \d+: the database can't be read"):
        ktrace.read(path)


def test_encrypted_and_foreign_databases(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(NEW.read_bytes()[:16] + bytes(byte ^ 0xA5 for byte in NEW.read_bytes()[16:]))
    with pytest.raises(DamagedInput, match="unencrypted"):
        ktrace.read(path)
    made.make(path, {"albums": [{"id": 1}]}, more={"albums": "id"})
    with pytest.raises(UnknownFormat, match="albums"):
        ktrace.read(path)
    with pytest.raises(DamagedInput, match="no table of Nsight Systems"):
        ktrace.read(path, from_="nsys")


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"META_DATA_EXPORT": "name value"}, "META_DATA_EXPORT of an export of Nsight Systems"),
        ({"StringIds": "id value", "MPI_P2P_EVENTS": "start"}, "StringIds and MPI_P2P_EVENTS"),
        ({f"{CUPTI}KERNEL": "start end globalPid"}, "the column globalpid"),
        ({"TARGET_INFO_SESSION_START_TIME": "utcEpochNs"}, "TARGET_INFO_SESSION_START_TIME"),
    ],
)
def test_what_tells_a_trimmed_file(tmp_path: Path, tables: dict[str, str], reason: str) -> None:
    path = made.make(tmp_path / "a.db", {table: [] for table in tables}, more=tables)
    detected = choose(Source(str(path)))
    assert detected.name == "nsys"
    match = detected.recognised(Source(str(path)).sample())
    assert match is not None
    assert reason in match.reason


def test_the_visual_profiler_is_somebody_else(tmp_path: Path) -> None:
    """nvprof's databases have tables of the same names, but StringTable in place of StringIds."""
    tables = {f"{CUPTI}KERNEL": [{"start": 1}], "StringTable": [{"_id_": 1}]}
    path = made.make(
        tmp_path / "a.nvvp", tables, more={f"{CUPTI}KERNEL": "_id_ start", "StringTable": "_id_ value:TEXT"}
    )
    (nsys,) = [fmt for fmt in builtin_formats() if fmt.name == "nsys"]
    assert nsys.recognised(Source(str(path)).sample()) is None


#: Values that stand where they don't belong.
_STRANGE = (None, "x", "12", b"\xff\x00", 1.5, float("inf"), (1 << 63) - 1, -(1 << 63), -1, "", '{"a":')


@pytest.mark.parametrize("seed", few(range(24), 12))
def test_any_value_anywhere(seed: int, tmp_path: Path) -> None:
    """Cells and whole columns of any type: rows may be left out, but nothing breaks and the accounts add up."""
    chosen = random.Random(seed)
    path = tmp_path / "a.sqlite"
    path.write_bytes(chosen.choice((OLD, NEW)).read_bytes())
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(10):
            table, value = chosen.choice(tables), chosen.choice(_STRANGE)
            column = chosen.choice([name for _, name, *_ in database.execute(f'PRAGMA table_info("{table}")')])
            row = chosen.choice(("", f"WHERE rowid = {chosen.randint(1, 5)}"))
            with suppress(sqlite3.IntegrityError):
                database.execute(f'UPDATE "{table}" SET "{column}" = ? {row}', (value,))
        database.commit()
    trace = ktrace.read(path)
    assert trace.report.balanced()
    assert ktrace.convert(path, tmp_path / "out.perfetto").balanced()


def test_info_names_schema_warnings_and_tables() -> None:
    said = about(Source(str(NEW)))
    assert said["schema"] == ["3.25.0"]
    assert said["warnings of the profiler"] == ["Not all CUDA events were collected."]
    assert [line.split() for line in said["tables"] if "KERNEL" in line] == [["2", f"{CUPTI}KERNEL_V2"]]
    assert not any("HOLODECK" in line for line in about(Source(str(OLD)))["tables"])
