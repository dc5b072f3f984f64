"""A run of an Ascend device as a timeline and as a database, with and without the tasks of collectives: one answer."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ascend_samples import build
from click.testing import CliRunner

from ktrace.cli import cli

START = 1_760_000_000_000_000_000
NONE = 4294967295
TYPES = {"AI_CORE": 1, "SDMA_SQE": 2, "NOTIFY_WAIT_SQE": 3, "MEMCPY_ASYNC": 4, "AI_CPU": 5}
SCHEMA = """
CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE ENUM_MEMCPY_OPERATION (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER,
    globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER);
CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER PRIMARY KEY, taskType INTEGER);
CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER,
    opId INTEGER PRIMARY KEY, deviceId INTEGER);
CREATE TABLE MEMCPY_INFO (globalTaskId NUMERIC, size NUMERIC, memcpyOperation NUMERIC);
CREATE TABLE CANN_API (startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER,
    connectionId INTEGER PRIMARY KEY, name INTEGER);
INSERT INTO ENUM_MEMCPY_OPERATION VALUES (1, 'host to device');
"""
LISTED = "CREATE TABLE COMMUNICATION_TASK_INFO (name INTEGER, globalTaskId INTEGER, planeId INTEGER);"


class Task(NamedTuple):
    """A task of the device, or an operator of communication (no type); times in ns from the start."""

    name: str
    type: str
    begin: int
    end: int
    stream: int = -1
    task: int = -1
    inside: bool = False


def tasks(rng: random.Random) -> list[Task]:
    """Kernels and a copy of the host on one stream, collectives whose copies and waits are on two others."""
    found, now, number = [], 0, 0
    for step in range(rng.randrange(3, 7)):
        for _ in range(rng.randrange(2, 8)):
            number += 1
            end = now + rng.randrange(5_000, 90_000)
            found.append(Task("aclnnMatmul", "AI_CORE", now, end, 2, number))
            now = end + rng.randrange(100, 900)
        number += 1
        found.append(Task("MEMCPY_ASYNC", "MEMCPY_ASYNC", now, now + 4_000, 2, number))
        begin = at = now - rng.randrange(0, 30_000)
        for piece in range(rng.randrange(2, 5)):
            wait, copy = rng.randrange(1_000, 20_000), rng.randrange(2_000, 30_000)
            found.append(Task("Notify_Wait", "NOTIFY_WAIT_SQE", at, at + wait, 8 + piece % 2, number + 2, True))
            found.append(Task("Memcpy", "SDMA_SQE", at + wait, at + wait + copy, 8 + piece % 2, number + 3, True))
            at, number = at + wait + copy, number + 2
        found.append(Task("hcom_allReduceAicpuKernel", "AI_CPU", begin, begin + 900, 10, number + 2))
        found.append(Task(f"hcom_allReduce__77_{step}_1", "", begin, at))
        now, number = at + 2_000, number + 2
    return found


def timeline(found: list[Task], path: Path, *, listed: bool) -> Path:
    """msprof's timeline, with planes or, as at its lowest level, without."""
    events: list[dict[str, Any]] = []
    for pid, name in ((5, "Ascend Hardware"), (6, "Communication")):
        events += [{"name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}, "ph": "M"}]
        events += [{"name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": "NPU 3"}, "ph": "M"}]
    events += [{"name": "thread_name", "pid": 6, "tid": 0, "args": {"name": "Group 77 Communication"}, "ph": "M"}]
    for one in found:
        ts, dur = START + one.begin, one.end - one.begin
        slice_ = {"name": one.name, "ts": f"{ts // 1000}.{ts % 1000:03}", "dur": dur / 1000, "ph": "X"}
        if not one.type:
            events.append(slice_ | {"pid": 6, "tid": 0, "args": {"connection_id": NONE, "alg_type": "RING"}})
            continue
        args = {"Task Type": one.type, "Task Id": one.task, "connection_id": NONE}
        args |= {"size(B)": 4096, "operation": "host to device"} if one.type == "MEMCPY_ASYNC" else {}
        name = one.type if one.inside else one.name
        events.append(slice_ | {"name": name, "pid": 5, "tid": one.stream, "args": args})
        if one.inside and listed:
            args = {"stream id": one.stream, "task id": one.task, "task type": one.name, "context id": "N/A"}
            events.append(slice_ | {"pid": 6, "tid": 1, "args": args})
    path.write_text(json.dumps(events))
    return path


def database(found: list[Task], path: Path, *, listed: bool) -> Path:
    """msprof's database of the same."""
    names = {name: 100 + number for number, name in enumerate({one.name for one in found})}
    script = [SCHEMA, LISTED if listed else ""]
    texts = [*TYPES.items(), *names.items(), ("77", 99)]
    script += [f"INSERT INTO STRING_IDS VALUES ({number}, '{text}');" for text, number in texts]
    for number, one in enumerate(found):
        begin, end = START + one.begin, START + one.end
        if not one.type:
            row = f"({names[one.name]}, {begin}, {end}, {NONE}, 99, {number}, 3)"
            script.append(f"INSERT INTO COMMUNICATION_OP VALUES {row};")
            continue
        row = f"({begin}, {end}, 3, {NONE}, {number}, 7, {TYPES[one.type]}, {NONE}, {one.stream}, {one.task}, {NONE})"
        script.append(f"INSERT INTO TASK VALUES {row};")
        if one.type in ("AI_CORE", "AI_CPU"):
            row = f"({names[one.name]}, {number}, {TYPES[one.type]})"
            script.append(f"INSERT INTO COMPUTE_TASK_INFO VALUES {row};")
        if one.type == "MEMCPY_ASYNC":
            script.append(f"INSERT INTO MEMCPY_INFO VALUES ({number}, 4096, 1);")
        if one.inside and listed:
            script.append(f"INSERT INTO COMMUNICATION_TASK_INFO VALUES ({names[one.name]}, {number}, 0);")
    return build(path, "".join(script))


def summary(path: Path, *options: str) -> dict[str, Any]:
    """What `ktrace summary` says, as JSON."""
    done = CliRunner().invoke(cli, ["summary", str(path), *options, "--format", "json"])
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def covered(times: list[tuple[int, int]]) -> set[int]:
    """The ns that some times cover."""
    return {at for begin, end in times for at in range(begin, end)}


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_figures_are_arithmetic_over_the_tasks_in_both(seed: int, listed: bool, tmp_path: Path) -> None:
    """Sets of ns are the measure: compute, collectives, and copies that the host asked for."""
    found = tasks(random.Random(seed))
    at = {name: covered([(one.begin, one.end) for one in found if test(one)]) for name, test in MEASURED.items()}
    said = []
    for path in (
        timeline(found, tmp_path / "msprof_1.json", listed=listed),
        database(found, tmp_path / "msprof_1.db", listed=listed),
    ):
        answer = summary(path, "--full")
        [device] = answer["tables"]["devices"]
        assert device["compute_ns"] == len(at["compute"])
        assert device["communication_ns"] == len(at["communication"])
        assert device["exposed_communication_ns"] == len(at["communication"] - at["compute"])
        assert device["copies_ns"] == len(at["copies"])
        assert device["busy_ns"] == len(at["compute"] | at["communication"] | at["copies"])
        operations = {row["operation"]: row["time_ns"] for row in answer["tables"]["operation"]}
        assert operations["collective"] == sum(one.end - one.begin for one in found if not one.type)
        findings = [{key: value for key, value in one.items() if key != "evidence"} for one in answer["findings"]]
        said.append((findings, operations, summary(path, "--by", "collective")["tables"]["collective"]))
    assert said[0] == said[1]


MEASURED = {
    "compute": lambda one: one.type == "AI_CORE",
    "communication": lambda one: not one.type,
    "copies": lambda one: one.type == "MEMCPY_ASYNC",
}
