"""Ascend's databases against SQL; all of them are synthetic, in the shapes of the writers' sources."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ascend_samples import NEWER, OLDER, build
from conftest import SAMPLES

import ktrace
from ktrace.errors import KtraceError
from ktrace.model.json_text import decoded
from ktrace.trace.trace import Trace

NEW = SAMPLES / "ascend-db" / "schema-1.2-collective-ffts-and-a-task-backwards.db"
OLD = SAMPLES / "ascend-db" / "schema-of-2023-a-text-missing.db"
T = 1760000060000000000


def rows(trace: Trace, record: str = "events") -> list[dict[str, Any]]:
    """The rows without their nulls, the arguments as a dict."""
    table = trace.to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    found = [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]
    for row in found:
        if "args" in row:
            row["args"] = json.loads(row["args"])
    return found


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


def test_kernels_are_those_of_a_join() -> None:
    theirs = query(
        NEW,
        "SELECT name.value, startNs, endNs - startNs, deviceId, streamId, blockNum, shapes.value FROM TASK"
        " JOIN COMPUTE_TASK_INFO USING (globalTaskId) JOIN STRING_IDS name ON name.id = COMPUTE_TASK_INFO.name"
        " JOIN STRING_IDS shapes ON shapes.id = inputShapes WHERE endNs >= startNs",
    )
    ours = [
        (row["name"], row["ts"], row["dur"], row["device"], row["stream"], row["grid_x"], row["args"]["inputShapes"])
        for row in rows(ktrace.read(NEW))
        if row["kind"] == "kernel" and "stream" in row
    ]
    assert Counter(ours) == Counter(theirs)
    assert len(ours) == 2


def test_device_work_is_counted_once() -> None:
    """The parent of a subtask, a copy of the collective and the analysis of overlaps are ranges."""
    found = rows(ktrace.read(NEW))
    work = [row for row in found if row["kind"] in ("kernel", "memcpy", "sync")]
    assert sum(row["dur"] for row in work) == 42125 + 4500 + 50750 + 71000 + 6250
    ranges = {row["name"]: row.get("track") for row in found if row["kind"] == "range" and "device" in row}
    assert ranges == {
        "FFTS_PLUS": None,
        "Memcpy": None,
        "Computing": "Overlap Analysis",
        "Communication": "Overlap Analysis",
        "Free": "Overlap Analysis",
    }


def test_copies_tasks_of_collectives_and_counters_of_cores() -> None:
    found = {row["name"]: row for row in rows(ktrace.read(NEW)) if "device" in row}
    collective = found["hcom_allReduce__77_0_1"]
    assert (collective["kind"], collective["track"], collective["comm"]) == ("kernel", "Communication", "group_77")
    assert (collective["dur"], collective["correlation"]) == (71000, 45)
    copy = found["MEMCPY_ASYNC"]
    assert (copy["copy_kind"], copy["bytes"], copy["correlation"]) == ("HtoD", 4096, 42)
    task = found["Memcpy"]
    assert "correlation" not in task
    assert {key: task["args"][key] for key in ("groupName", "dstRank", "size", "linkType", "transportType")} == {
        "groupName": "group_77",
        "dstRank": 15,
        "size": 2048,
        "linkType": "HCCS",
        "transportType": "SDMA",
    }
    assert "dstRank" not in found["Notify_Wait"]["args"]
    assert found["aclnnMatmul_MatMulCommon_MatMulV2"]["args"]["aic_mac_ratio"] == 0.625
    assert found["aclnnAdd_AddAiCore_Add"]["args"]["aiv_time(us)"] == 5.75


def test_calls_operators_and_arrows() -> None:
    """globalTid is pid << 32 | tid; the times of operators are texts."""
    trace = ktrace.read(NEW)
    found = {row["name"]: row for row in rows(trace) if "tid" in row}
    launch = found["launch"]
    assert (launch["kind"], launch["pid"], launch["tid"], launch["correlation"]) == ("api", 5120, 5122, 41)
    assert launch["cat"] == "node"
    operator = found["aten::mm"]
    assert (operator["kind"], operator["ts"], operator["dur"], operator["tid"]) == ("op", T + 7, 9992, 5121)
    assert operator["args"]["inputShapes"] == "64,128;128,32"
    assert found["Enqueue@aclnnMatmul"]["kind"] == "range"
    assert (found["forward"]["kind"], found["forward"]["dur"]) == ("range", 150000)
    assert found["checkpoint"]["kind"] == "instant"
    assert (found["Python GC"]["kind"], found["Python GC"]["dur"]) == ("overhead", 1000)
    assert "dur" not in found["checkpoint"]
    kernel = next(row for row in rows(trace) if row["kind"] == "kernel" and row["correlation"] == 41)
    ends = {(row["role"], row["key"], row["event"]) for row in rows(trace, "links")}
    assert ends == {("out", "41", operator["id"]), ("in", "41", kernel["id"])}


def test_counters_allocations_steps_and_facts() -> None:
    trace = ktrace.read(NEW)
    found = rows(trace)
    counters = {(row["name"], row["ts"] - T): (row["value"], row["unit"]) for row in found if row["kind"] == "counter"}
    assert counters == {
        ("AI Core Freq", 9000): (1850.0, "MHz"),
        ("AI Core Freq", 100000): (1000.0, "MHz"),
        ("PTA Total Allocated", 5000): (1572864.0, "B"),
        ("PTA Total Reserved", 5000): (20971520.0, "B"),
        ("PTA Total Active", 5000): (2359296.0, "B"),
    }
    assert [(row["name"], row["bytes"]) for row in found if row["kind"] == "alloc"] == [("aten::mm", 4096)]
    assert [(row["dur"], row["track"]) for row in found if row["name"] == "Step 3"] == [(150000, "Steps")]
    facts = rows(trace, "catalog")
    assert next(row for row in facts if row["entity"] == "device")["name"] == "Ascend910B"
    assert any(json.loads(row.get("facts", "{}")).get("rank") == 14 for row in facts if row["entity"] == "source")


def test_what_is_left_out_is_reported() -> None:
    report = ktrace.read(NEW).report
    assert report.issues["negative-duration"].rows == 1
    assert report.issues["unrecognised"].rows == 2
    assert set(report.issues) == {"negative-duration", "unrecognised"}


def test_an_older_schema() -> None:
    """blockDim, a collective without a device, a text that is missing, a time that isn't a number."""
    trace = ktrace.read(OLD)
    found = {row["name"]: row for row in rows(trace)}
    assert (found["Cast66"]["grid_x"], found["Cast66"]["device"], found["Cast66"]["dur"]) == (9, 1, 3140)
    assert "correlation" not in found["Cast66"]
    assert found["hcom_broadcast__445_0"]["device"] == 1
    assert found["[string 99]"]["kind"] == "kernel"
    assert trace.report.issues["missing-string"].rows == 1
    assert trace.report.issues["bad-record"].rows == 1


def test_a_folder_is_its_database(tmp_path: Path) -> None:
    folder = tmp_path / "ASCEND_PROFILER_OUTPUT"
    folder.mkdir()
    build(folder / "ascend_pytorch_profiler_14.db", NEWER)
    (folder / "trace_view.json").write_text("[]")
    (folder / "op_statistic.csv").write_text("OP Type,Core Type,Count,Total Time(us)\nAdd,AI_CORE,1,2\n")
    trace = ktrace.read(tmp_path)
    assert len(rows(trace)) == len(rows(ktrace.read(NEW)))
    assert trace.report.issues["same-run"].rows == 2


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE TASK SET startNs = 'x' WHERE globalTaskId = 1",
        "UPDATE TASK SET globalTaskId = NULL, connectionId = NULL, taskType = NULL",
        "UPDATE TASK SET taskType = 1e300",
        "UPDATE COMPUTE_TASK_INFO SET name = 'text'",
        "UPDATE TASK_PMU_INFO SET value = 'x', name = x'00'",
        "UPDATE MEMCPY_INFO SET size = -1.5, memcpyOperation = 'x'",
        "UPDATE CANN_API SET globalTid = -1",
        "UPDATE CANN_API SET type = 'acl', name = 5000000000",
        "UPDATE CONNECTION_IDS SET id = 'x'",
        "UPDATE AICORE_FREQ SET freq = 'fast'",
        "UPDATE MEMORY_RECORD SET timestamp = 1e18, totalActive = 'x'",
        "DROP TABLE COMPUTE_TASK_INFO",
        "ALTER TABLE COMPUTE_TASK_INFO DROP COLUMN name",
        "ALTER TABLE TASK DROP COLUMN globalTaskId",
        "ALTER TABLE TASK DROP COLUMN taskType",
        "DROP TABLE ENUM_API_TYPE",
        "DELETE FROM STRING_IDS",
        "DELETE FROM TASK",
        "UPDATE TASK SET connectionId = 41",
    ],
)
def test_odd_databases_are_read_or_reported(change: str, tmp_path: Path) -> None:
    path = build(tmp_path / "msprof_20260101000000.db", NEWER + ";" + change)
    report = ktrace.read(path).report
    assert report.balanced
    assert report.reader.taken >= 20 - 7


def test_strings_that_are_no_texts_are_a_clear_error(tmp_path: Path) -> None:
    path = build(tmp_path / "msprof_1.db", NEWER + "; UPDATE STRING_IDS SET value = x'ff00'")
    with pytest.raises(KtraceError, match="not texts"):
        ktrace.read(path)


def test_a_database_without_their_tables(tmp_path: Path) -> None:
    path = build(tmp_path / "a.db", "CREATE TABLE STRING_IDS (id, value); CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    with pytest.raises(KtraceError, match="none of the tables"):
        ktrace.read(path, from_="ascend-db")


def test_the_samples_are_as_built(tmp_path: Path) -> None:
    for sample, script in ((NEW, NEWER), (OLD, OLDER)):
        built = build(tmp_path / sample.name, script)
        for (table,) in query(built, "SELECT name FROM sqlite_master WHERE type = 'table'"):
            assert query(sample, f'SELECT * FROM "{table}"') == query(built, f'SELECT * FROM "{table}"')


def test_task_around_its_subtask_is_no_kernel(tmp_path: Path) -> None:
    """msprof of CANN 8 writes a mix kernel twice: the task of the stream, and within it the subtask with the name."""
    path = build(
        tmp_path / "mix.db",
        """
        CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER);
        CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER,
            globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER);
        INSERT INTO STRING_IDS VALUES (1, 'AI_CORE'), (2, 'KERNEL_MIX_AIC'), (3, 'attention_mix'),
            (4, 'PLACE_HOLDER_SQE');
        INSERT INTO COMPUTE_TASK_INFO VALUES (3, 0, 24), (3, 1, 24);
        INSERT INTO TASK VALUES
            (1000, 1900, 0, -1, 10, 7, 1, 4294967295, 47, 5, 4294967295),
            (1010, 1890, 0, 70, 0, 7, 2, 0, 47, 5, 4294967295),
            (2000, 2700, 0, -1, 11, 7, 1, 4294967295, 47, 5, 4294967295),
            (2015, 2690, 0, 70, 1, 7, 2, 0, 47, 5, 4294967295),
            (3000, 3300, 0, -1, 12, 7, 1, 4294967295, 47, 5, 4294967295),
            (1000, 1910, 0, -1, 13, 7, 1, 4294967295, 48, 5, 4294967295),
            (1000, 1920, 1, -1, 14, 7, 1, 4294967295, 47, 5, 4294967295),
            (1000, 1930, 0, -1, 15, 7, 1, 4294967295, 47, 6, 4294967295),
            (1000, 1940, 0, -1, 16, 7, 4, 4294967295, 47, 5, 4294967295)
        """,
    )
    found = rows(ktrace.read(path))
    ranges = [(row["dur"], row["name"]) for row in found if row["kind"] == "range"]
    assert ranges == [(900, "AI_CORE"), (700, "AI_CORE")]
    theirs = query(path, "SELECT endNs - startNs FROM TASK WHERE globalTaskId IN (0, 1, 12, 13, 14, 15)")
    assert Counter(row["dur"] for row in found if row["kind"] == "kernel") == Counter(dur for (dur,) in theirs)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE TASK SET contextId = 4294967295")
    assert Counter(row["kind"] for row in rows(ktrace.read(path))) == {"kernel": 8, "sync": 1}
