"""RPD against SQL and rpd2tracing's own output, and on samples made by the documented tables (synthetic)."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED
from plain import asked

import ktrace
from ktrace.model.json_text import decoded
from ktrace.trace.trace import Trace

REAL = SHARED / "corpus" / "rpd" / "matmul_result.rpd"
ODD = SAMPLES / "rpd" / "two-calls-a-kernel-never-run-and-nulls.rpd"
LITE = SAMPLES / "rpd" / "rocm-trace-lite-with-markers.db"
AT = 8_306_017_000_000_000


def rows(trace: Trace, record: str = "events") -> list[dict[str, Any]]:
    """The rows without their nulls, arguments taken apart."""
    table = trace.to_arrow()[record]
    columns = {
        name: decoded(column).to_pylist() for name, column in zip(table.column_names, table.columns, strict=True)
    }
    found = [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]
    for row in found:
        if "args" in row:
            row["args"] = json.loads(row["args"])
    return found


@pytest.fixture
def real() -> Path:
    if not REAL.exists():
        pytest.skip("the real file is not at hand (../shared/corpus/rpd)")
    return REAL


def test_device_work_is_what_sql_says(real: Path) -> None:
    trace = ktrace.read(real)
    ours = sorted(
        (row["name"], row["device"], row["stream"], row["ts"], row["ts"] + row["dur"], row["pid"], row["correlation"])
        for row in rows(trace)
        if row["kind"] in ("kernel", "memcpy", "memset")
    )
    theirs = asked(
        real,
        "SELECT iif(d.string = '', t.string, d.string), o.gpuId, o.queueId, o.start, o.end, a.pid, a.id FROM rocpd_op o"
        " JOIN rocpd_string d ON d.id = o.description_id JOIN rocpd_string t ON t.id = o.opType_id"
        " JOIN rocpd_api_ops l ON l.op_id = o.id JOIN rocpd_api a ON a.id = l.api_id",
    )
    assert ours == sorted(theirs)
    assert trace.device_time() == sum(end - start for *_, start, end, _, _ in theirs) == 183_918_056
    assert trace.report.line() == "read 310 records, gave 225 rows, repaired 0, skipped 0"


def test_what_the_calls_asked_for_is_on_their_work(real: Path) -> None:
    found = rows(ktrace.read(real))
    grids = Counter(
        tuple(row[f"{of}_{axis}"] for of in ("grid", "block") for axis in "xyz")
        for row in found
        if row["kind"] == "kernel"
    )
    asked_for = asked(
        real,
        "SELECT apiName, gridX, gridY, gridZ, workgroupX, workgroupY, workgroupZ FROM rocpd_kernelapi k"
        " JOIN api ON api.id = k.api_ptr_id",
    )
    blocks = Counter(
        (x // (group_x if name == "hipExtModuleLaunchKernel" else 1), y, z, group_x, group_y, group_z)
        for name, x, y, z, group_x, group_y, group_z in asked_for
    )
    assert grids == blocks
    assert blocks[(7, 782, 1, 256, 1, 1)] == 1  # 1,792 work-items of 256 a block
    copies = Counter((row["copy_kind"], row["bytes"]) for row in found if row["kind"] == "memcpy")
    ways = {1: "HtoD", 2: "DtoH"}
    assert copies == Counter((ways[kind], size) for kind, size in asked(real, "SELECT kind, size FROM rocpd_copyapi"))


def test_calls_and_monitors_are_what_sql_says(real: Path) -> None:
    found = rows(ktrace.read(real))
    ours = sorted(
        (row["name"], row["pid"], row["tid"], row["ts"], row["dur"], row.get("args", {}).get("args", ""))
        for row in found
        if row["kind"] in ("api", "overhead", "range")
    )
    theirs = asked(real, "SELECT apiName, pid, tid, start, end - start, args FROM api")
    assert ours == sorted(theirs)
    monitors = [
        (row["name"], row["device"], row["ts"], row["dur"], row["value"]) for row in found if row["kind"] == "counter"
    ]
    assert monitors == asked(real, "SELECT monitorType, deviceId, start, end - start, value * 1.0 FROM rocpd_monitor")


def test_calls_of_the_profiler_itself_are_overhead() -> None:
    kinds = {row["name"]: row["kind"] for row in rows(ktrace.read(ODD)) if "tid" in row}
    assert {name for name, kind in kinds.items() if kind == "overhead"} == {"OpTable::writeRows"}
    assert (kinds["hipMemcpyAsync"], kinds["forward"]) == ("api", "range")


def test_the_database_and_rpd2tracing_agree(real: Path) -> None:
    """rpd2tracing writes whole microseconds, rounded down."""
    text = real.with_suffix(".json").read_text()
    slices = [event for event in json.loads(text) if event.get("ph") == "X"]
    found = rows(ktrace.read(real))
    ours = Counter((row["name"], row["ts"] // 1000, row["dur"] // 1000) for row in found if row["kind"] != "counter")
    assert ours == Counter((event["name"], int(event["ts"]), int(event["dur"])) for event in slices)
    assert ours.total() == 210


def test_odd_rows() -> None:
    trace = ktrace.read(ODD)
    found = {row["id"]: row for row in rows(trace)}
    first = min(found)
    forward, copy, launch, graph = (found[first + i] for i in range(4))
    assert (forward["kind"], forward["name"], forward["dur"]) == ("range", "forward", 90_000)
    assert (copy["name"], copy["args"]) == ("hipMemcpyAsync", {"args": "dst=0x7f00 | size=0x1000"})
    kernels = [row for row in found.values() if row["kind"] == "kernel"]
    assert [row["name"] for row in kernels] == ["void scale<float>(float*, int) [clone .kd]"] * 2 + ["Task"]
    assert [row.get("short_name") for row in kernels] == ["scale"] * 2 + [None]
    one, two, task = kernels
    assert (task["cat"], task["dur"]) == ("Task", 1_000)  # a kernel of a HIP graph
    assert (one["correlation"], one["grid_x"], one["block_x"]) == (launch["correlation"], 64, 256)
    assert (one["shared_memory"], one["registers"]) == (4096, 32)
    assert one["args"] == {
        **{"privateSegmentSize": 0, "releaseFence": "agent", "stream": "0x0", "sgpr": 48, "fbar": 0},
        **{"sequenceId": 0, "completionSignal": "0x10"},
    }
    assert two["correlation"] == graph["correlation"]
    copied = next(row for row in found.values() if row["kind"] == "memcpy")
    assert (copied["copy_kind"], copied["bytes"], copied["args"]["stream"]) == ("HtoD", 4096, "0x55")
    barrier = next(row for row in found.values() if row["kind"] == "sync")
    assert (barrier["name"], barrier["args"]) == (
        "Barrier",
        {"signalCount": 2, "releaseFence": "system", "sequenceId": 0},
    )
    counters = [
        (row.get("device"), row.get("track"), row.get("value")) for row in found.values() if row["kind"] == "counter"
    ]
    assert counters == [(2, None, 1700.0), (2, None, 210.5), (None, "cpu 0", None)]
    assert "[string 99]" in [row["name"] for row in found.values()]
    issues = {kind: issue.rows for kind, issue in trace.report.issues.items()}
    assert issues == {
        **{"bad-record": 3, "negative-duration": 1, "not-executed": 1, "time-range": 1, "missing-string": 1},
    }


def test_a_work_of_two_calls_has_an_arrow_from_the_second_and_waits_are_arrows() -> None:
    trace = ktrace.read(ODD)
    names = {row["id"]: (row["kind"], row["ts"] - AT) for row in rows(trace)}
    arrows = [(row["link"], row["role"], names[row["event"]]) for row in rows(trace, "links")]
    assert arrows == [
        ("wait", "out", ("memcpy", 7_000)),
        ("wait", "in", ("kernel", 20_000)),
        ("launch", "out", ("api", 12_000)),
        ("launch", "in", ("kernel", 23_000)),
    ]


def test_tables_that_nobody_knows_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.rpd"
    path.write_bytes(ODD.read_bytes())
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("CREATE TABLE rocpd_stackframe (api_ptr_id INT, depth INT, name_id INT)")
        writer.execute("INSERT INTO rocpd_stackframe VALUES (1, 0, 1), (1, 1, 2)")
        writer.commit()
    report = ktrace.read(path).report
    assert (report.issues["unrecognised"].rows, report.balanced()) == (2, True)


def test_schema_version_1_says_the_launch_of_work_itself(tmp_path: Path) -> None:
    """rocpd_kernelop and rocpd_copyop have the id of the work where later versions have that of the call."""
    old = tmp_path / ODD.name
    old.write_bytes(ODD.read_bytes())
    with closing(sqlite3.connect(old)) as database:
        for word in ("kernel", "copy"):
            fields = [row[1] for row in database.execute(f"PRAGMA table_info(rocpd_{word}api)")][1:]
            wanted = ", ".join(f'"{name}"' + (" AS gridz" if name == "gridZ" else "") for name in fields)
            database.execute(
                f"CREATE TABLE rocpd_{word}op AS SELECT op_id AS op_ptr_id, {wanted} FROM rocpd_{word}api "
                "JOIN rocpd_api_ops j ON api_id = api_ptr_id "
                "WHERE j.id = (SELECT min(id) FROM rocpd_api_ops o WHERE o.op_id = j.op_id)"
            )
            database.execute(f"DROP TABLE rocpd_{word}api")
        database.commit()
    columns = ("name", "ts", "grid_x", "grid_z", "block_x", "shared_memory", "registers", "bytes", "correlation")
    work = [
        [[row.get(name) for name in columns] for row in rows(ktrace.read(path)) if row["kind"] in ("kernel", "memcpy")]
        for path in (ODD, old)
    ]
    assert any(row[2] for row in work[0])
    assert work[0] == work[1]
    assert "unrecognised" not in ktrace.read(old).report.issues


def test_calls_that_are_given_work_items_have_blocks(tmp_path: Path) -> None:
    path = tmp_path / "ext.rpd"
    path.write_bytes(ODD.read_bytes())
    with sqlite3.connect(path) as database:
        name = database.execute(
            "SELECT apiName_id FROM rocpd_api a JOIN rocpd_kernelapi ON a.id = api_ptr_id"
        ).fetchone()
        database.execute("UPDATE rocpd_string SET string = 'hipExtModuleLaunchKernel' WHERE id = ?", name)
        database.execute("UPDATE rocpd_kernelapi SET gridX = 1000, gridY = 6, workgroupX = 256, workgroupY = 2")
    kernel = next(row for row in rows(ktrace.read(path)) if row["kind"] == "kernel")
    assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [4, 3, 1]
    assert kernel["args"]["gridX"] == 1000  # the last block is partly filled
    assert "gridY" not in kernel["args"]


#: opType -> kind, as the sources of rpd_tracer write it: by roctracer, by CUPTI, by rocprofiler-sdk.
TYPES = {
    **{"KernelExecution": "kernel", "Task": "kernel", "CopyHostToDevice2D": "memcpy", "FillImage": "memset"},
    **{"Kernel": "kernel", "ConcurrentKernel": "kernel", "Memcpy": "memcpy", "Memset": "memset"},
    **{"MEMORY_COPY_DEVICE_TO_HOST": "memcpy", "MarkerDispatch": "sync", "GLAcquire": "range"},
}


@pytest.mark.parametrize("word", TYPES)
def test_each_source_of_rpd_has_its_words_for_work(tmp_path: Path, word: str) -> None:
    path = tmp_path / "words.rpd"
    path.write_bytes(ODD.read_bytes())
    with sqlite3.connect(path) as database:
        database.execute("UPDATE rocpd_string SET string = ? WHERE string = 'Task'", (word,))
    (row,) = (row for row in rows(ktrace.read(path)) if row.get("cat") == word and row["dur"] == 1_000)
    assert row["kind"] == TYPES[word]
    assert row.get("copy_kind") == {"CopyHostToDevice2D": "HtoD", "MEMORY_COPY_DEVICE_TO_HOST": "DtoH"}.get(word)


@pytest.mark.parametrize(
    ("table", "column"),
    [("rocpd_op", "id"), ("rocpd_api", "id"), ("rocpd_string", "id"), ("rocpd_barrierop", "op_ptr_id")],
)
def test_a_column_that_is_not_there_costs_what_it_says(tmp_path: Path, table: str, column: str) -> None:
    path = tmp_path / "renamed.rpd"
    path.write_bytes(ODD.read_bytes())
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
    trace = ktrace.read(path)
    expected = sorted((row["ts"], row.get("dur", -1)) for row in rows(ktrace.read(ODD)))
    assert sorted((row["ts"], row.get("dur", -1)) for row in rows(trace)) == expected
    assert trace.report.balanced()


def test_a_number_that_no_column_holds_is_an_argument(tmp_path: Path) -> None:
    path = tmp_path / "wide.rpd"
    path.write_bytes(ODD.read_bytes())
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE rocpd_kernelcodeobject SET vgpr = ?", (1 << 40,))
    kernel = next(row for row in rows(ktrace.read(path)) if row["kind"] == "kernel")
    assert "registers" not in kernel
    assert kernel["args"]["$registers"] == 1 << 40


def test_clocks_have_a_unit() -> None:
    events = ktrace.read(SAMPLES / "rpd" / "two-calls-a-kernel-never-run-and-nulls.rpd").events
    counters = events[events["kind"] == "counter"].set_index("name")
    assert (counters.loc["sclk", "unit"], counters.loc["sclk", "device"]) == ("MHz", 2)
    assert counters["unit"].count() == 1


def test_operators_of_autograd_are_operators(tmp_path: Path) -> None:
    """`python -m rocpd.autograd` adds a row for each range of emit_nvtx; its call stacks repeat the calls."""
    path = tmp_path / "a.rpd"
    path.write_bytes(ODD.read_bytes())
    with closing(sqlite3.connect(path)) as writer:
        ((call,),) = writer.execute(
            "SELECT a.id FROM rocpd_api a JOIN rocpd_string s ON s.id = a.apiName_id "
            "WHERE s.string = 'UserMarker' LIMIT 1"
        )
        writer.execute("INSERT INTO rocpd_string (id, string) VALUES (9001, 'aten::mm')")
        writer.execute(
            "CREATE TABLE ext_autogradapi (api_ptr_id INTEGER PRIMARY KEY, autogradName_id INT, seq INT, op_id INT, "
            "sizes TEXT, input_op_ids TEXT)"
        )
        writer.execute(
            "INSERT INTO ext_autogradapi VALUES (?, 9001, 12, 345, '[[8, 4], [4, 2]]', '[(1,0), (2,0)]')", (call,)
        )
        writer.execute("CREATE TABLE ext_callstack (id INT, parent_id INT, child_id INT, depth INT, cpu_time INT)")
        writer.execute("INSERT INTO ext_callstack VALUES (1, ?, ?, 0, 5)", (call, call))
        writer.commit()
    trace = ktrace.read(path)
    (operator,) = [row for row in rows(trace) if row["kind"] == "op"]
    assert operator["name"] == "aten::mm"
    assert operator["args"] == {
        "Sequence number": 12, "op_id": 345, "Input Dims": [[8, 4], [4, 2]], "input_op_ids": "[(1,0), (2,0)]",
    }  # fmt: skip
    assert "unrecognised" not in trace.report.issues
    others = Counter(row["kind"] for row in rows(trace))
    assert Counter(row["kind"] for row in rows(ktrace.read(ODD))) == others - Counter(op=1) + Counter(range=1)


def test_operators_without_a_sequence_number(tmp_path: Path) -> None:
    path = tmp_path / "a.rpd"
    path.write_bytes(ODD.read_bytes())
    with closing(sqlite3.connect(path)) as writer:
        writer.execute(
            "CREATE TABLE ext_autogradapi (api_ptr_id INTEGER PRIMARY KEY, autogradName_id INT, seq INT, op_id INT, "
            "sizes TEXT, input_op_ids TEXT)"
        )
        ((call, name),) = writer.execute("SELECT id, apiName_id FROM rocpd_api ORDER BY id LIMIT 1")
        writer.execute("INSERT INTO ext_autogradapi VALUES (?, ?, '', 345, '', '')", (call, name))
        writer.commit()
    (operator,) = [row for row in rows(ktrace.read(path)) if row["kind"] == "op"]
    assert operator["args"].get("op_id") == 345
    assert "Sequence number" not in operator["args"]


def test_rocm_trace_lite_has_its_launches_in_the_signal() -> None:
    """Grids are those of the packet, in work-items: 4096 by 256 are 16 blocks, 1000 by 64 are 16, the last one part."""
    kernels = [row for row in rows(ktrace.read(LITE)) if row["kind"] == "kernel"]
    sizes = ("device", "stream", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    assert [tuple(row.get(name) for name in sizes) for row in kernels] == [
        (0, 140_000_000, 16, 2, 1, 256, 1, 1),
        (1, 140_000_064, 16, 1, 1, 64, 4, 1),
        (1, 140_000_064, None, None, None, None, None, None),
    ]
    assert [row["args"].get("hwq") for row in kernels] == ["0x7f00", "0x7f40", None]
    assert [row["args"].get("gridX") for row in kernels] == [None, 1000, None]
    assert not any("completionSignal" in row["args"] for row in kernels)
    assert [row["ts"] - AT for row in kernels] == [1_000, 2_000, 4_000]


def test_markers_among_the_ops_are_of_no_device() -> None:
    trace = ktrace.read(LITE)
    marks = [row for row in rows(trace) if row.get("cat") == "UserMarker"]
    assert [(row["kind"], row["name"], row["ts"] - AT, row.get("dur"), row["track"]) for row in marks] == [
        ("range", "step 1", 0, 5_000, "markers"),
        ("instant", "here", 100, None, "markers"),
    ]
    assert not any("device" in row or "stream" in row for row in marks)
    facts = trace.to_arrow()["catalog"].to_pylist()
    assert [row["device"] for row in facts if row["entity"] == "device"] == [0, 1]
    assert any(json.loads(row["facts"] or "{}").get("tool") == "rocm-trace-lite" for row in facts)
    assert trace.device_time() == 2_000 + 500 + 250


def test_a_signal_in_other_words_is_an_argument(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(LITE.read_bytes())
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("UPDATE rocpd_op SET completionSignal = 'hwq=1 wg=2' WHERE id = 1")
        writer.commit()
    first = rows(ktrace.read(path))[1]
    assert (first["args"]["completionSignal"], first.get("grid_x")) == ("hwq=1 wg=2", None)
