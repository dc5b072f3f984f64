"""Summaries of events against plain Python, json and sqlite3: totals to the ns, percentiles, overlap, steps, waits."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from pathlib import Path

import plain
import pytest
from conftest import SAMPLES, SHARED
from nightly import few, is_small
from real_traces import NSYS, at_hand, decoded_names, kineto

import ktrace
from ktrace.analysis.work.groups import OTHER, DeviceUse, Group, Spread

KINETO = [
    SAMPLES / "kineto/one-step-of-training.pt.trace.json",
    *kineto(
        "nccl_data.json.gz",
        "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
        "worker0.1623143089861.pt.trace.json.gz",
        "sglang_Qwen3-8B_decode.json.gz",
        "mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    ),
]


def keyed(groups: list[Group]) -> dict[str, Group]:
    found = {group.key: group for group in groups}
    assert len(found) == len(groups)
    return found


def same_spread(found: Spread | None, times: list[int]) -> None:
    if not times:
        assert found is None
        return
    assert found is not None
    assert (found.count, found.total, found.max) == (len(times), sum(times), max(times))
    assert found.median == pytest.approx(plain.percentile(times, 50), rel=1e-12)
    assert found.p95 == pytest.approx(plain.percentile(times, 95), rel=1e-12)


@pytest.mark.parametrize("path", few(KINETO, is_small), ids=lambda path: path.name[:20])
def test_totals_and_percentiles_of_kineto(path: Path) -> None:
    work, _ = plain.kineto(at_hand(path))
    summary = ktrace.summary(path, by=["kernel", "stream", "device"])
    assert summary.work == "events"
    assert (summary.count, summary.total) == (len(work), sum(one.dur for one in work))
    shown = decoded_names(path)
    work = [one._replace(name=shown.get(one.name, one.name)) for one in work]
    by_name = plain.totals(work, lambda one: one.name)
    told = keyed(summary.groups["kernel"])
    whole = {group.name: (group.count, group.total) for group in told.values() if group.name}
    assert whole
    for name, figures in whole.items():
        assert by_name.pop(name) == figures
    assert sum(total for _, total in by_name.values()) == sum(one.total for one in told.values() if not one.name)
    streams = plain.totals(work, lambda one: one.stream)
    assert {
        int(key.split()[-1]): (one.count, one.total) for key, one in keyed(summary.groups["stream"]).items()
    } == streams
    for group in told.values():
        if group.name:
            own = [one.dur for one in work if one.name == group.name]
            assert group.durations is not None and group.durations.tolist() == sorted(own)
            assert (group.min, group.max) == (min(own), max(own))
            assert group.average == pytest.approx(sum(own) / len(own), rel=1e-12)
            for percent, figure in ((50, group.median), (95, group.p95), (99, group.p99)):
                assert figure == pytest.approx(plain.percentile(own, percent), rel=1e-12)
    totals = [group.total for group in summary.groups["kernel"]]
    assert totals == sorted(totals, reverse=True)


def role(one: plain.Work) -> str:
    if one.kind == "memcpy":
        return "copies"
    return "communication" if ktrace.classify(one.name).operation == "collective" else "compute"


def same_use(use: DeviceUse, work: list[plain.Work]) -> None:
    """The use of a device against a walk over all begins and ends."""
    parts = plain.sweep((one.ts, one.ts + one.dur, role(one)) for one in work)
    assert use.span == max(one.ts + one.dur for one in work) - min(one.ts for one in work)
    assert use.busy == sum(time for roles, time in parts.items() if roles)
    assert use.idle == use.span - use.busy
    for name in ("compute", "communication", "copies"):
        assert getattr(use, name) == sum(time for roles, time in parts.items() if name in roles)
    for name, others in (("communication", {"compute"}), ("copies", {"compute", "communication"})):
        alone = sum(time for roles, time in parts.items() if name in roles and not others & set(roles))
        assert getattr(use, f"exposed_{name}") == alone
    same_spread(use.gaps, plain.gaps((one.ts, one.ts + one.dur) for one in work))
    first: dict[tuple[int, ...], int] = {}  # of the work of one call, such as a graph, the first waits
    for one in work:
        if one.call:
            first[one.call] = min(first.get(one.call, one.ts), one.ts)
    waits = [max(begin - call[0] - call[1], 0) for call, begin in first.items()]
    same_spread(use.queueing, waits)


@pytest.mark.parametrize("path", few(KINETO, is_small), ids=lambda path: path.name[:20])
def test_use_of_devices_of_kineto(path: Path) -> None:
    work, _ = plain.kineto(at_hand(path))
    summary = ktrace.summary(path, by=[])
    assert {use.device for use in summary.devices} == {one.device for one in work}
    for use in summary.devices:
        mine = [one for one in work if one.device == use.device]
        same_use(use, mine)
        said = [
            (float(one.arguments["est. achieved occupancy %"]), one.dur)
            for one in mine
            if "est. achieved occupancy %" in one.arguments
        ]
        weight = sum(dur for _, dur in said)
        if weight:
            assert use.occupancy == pytest.approx(sum(figure * dur for figure, dur in said) / weight, rel=1e-6)
        else:
            assert use.occupancy is None


@pytest.mark.parametrize("path", few(KINETO, is_small), ids=lambda path: path.name[:20])
def test_steps_of_kineto(path: Path) -> None:
    work, steps = plain.kineto(at_hand(path))
    summary = ktrace.summary(path, by=["step", "kernel"])
    assert summary.steps == sorted(steps, key=lambda name: int(name.split("#")[1]))
    of: defaultdict[str, list[plain.Work]] = defaultdict(list)
    for one in work:
        at = one.call[0] if one.call else one.ts
        of[next((name for name, (begin, dur) in steps.items() if begin <= at < begin + dur), OTHER)].append(one)
    if not steps:
        assert "step" not in summary.groups
        return
    told = {key: (group.count, group.total) for key, group in keyed(summary.groups["step"]).items()}
    assert told == {name: (len(mine), sum(one.dur for one in mine)) for name, mine in of.items()}
    for group in summary.groups["kernel"]:
        if group.name:
            assert group.steps is not None
            each = [sum(one.dur for one in of[step] if one.name == group.name) for step in summary.steps]
            assert group.steps.tolist() == each
    for use in summary.step_use:
        mine = of[use.label]
        assert (use.wall, use.count) == (steps[use.label][1], 1)
        devices = {one.device for one in mine}
        busy = compute = 0
        for device in devices:
            parts = plain.sweep((one.ts, one.ts + one.dur, role(one)) for one in mine if one.device == device)
            busy += sum(time for roles, time in parts.items() if roles)
            compute += sum(time for roles, time in parts.items() if "compute" in roles)
        assert (use.busy, use.compute) == (busy, compute)


def test_nsys_by_sql() -> None:
    summary = ktrace.summary(at_hand(NSYS), by=["kernel", "device", "layer"])
    with sqlite3.connect(f"file:{NSYS}?mode=ro&immutable=1", uri=True) as base:
        tables = ("KERNEL", "MEMCPY", "MEMSET")
        every = " union all ".join(
            f"select start, end, deviceId, correlationId, globalPid from CUPTI_ACTIVITY_KIND_{table}"
            for table in tables
        )
        devices = base.execute(f"select deviceId, count(*), sum(end - start) from ({every}) group by 1").fetchall()
        kernels = base.execute(
            "select value, count(*), sum(end - start) from CUPTI_ACTIVITY_KIND_KERNEL join StringIds s "
            "on s.id = demangledName group by 1"
        ).fetchall()
        waits = base.execute(
            f"select w.deviceId, w.start - r.end from ({every}) w join CUPTI_ACTIVITY_KIND_RUNTIME r "
            "on r.correlationId = w.correlationId and r.globalTid / 0x1000000 = w.globalPid / 0x1000000"
        ).fetchall()
        spans = base.execute(f"select deviceId, start, end from ({every})").fetchall()
        launched = base.execute(
            f"select r.globalTid, r.start, w.end - w.start from ({every}) w join CUPTI_ACTIVITY_KIND_RUNTIME r "
            "on r.correlationId = w.correlationId and r.globalTid / 0x1000000 = w.globalPid / 0x1000000"
        ).fetchall()
        ranges = base.execute(
            "select globalTid, start, end, coalesce(text, value) from NVTX_EVENTS "
            "left join StringIds s on s.id = textId where eventType = 59 and end is not null"
        ).fetchall()
    assert {f"device {device}": (count, total) for device, count, total in devices} == {
        group.key: (group.count, group.total) for group in summary.groups["device"]
    }
    named = {group.name: (group.count, group.total) for group in summary.groups["kernel"]}
    for name, count, total in kernels:
        if name in named:
            assert named[name] == (count, total)
    assert len(named.keys() & {name for name, _, _ in kernels}) > 5
    for use in summary.devices:
        own = [(begin, end) for device, begin, end in spans if device == use.device]
        busy = plain.sweep((begin, end, "busy") for begin, end in own)
        assert use.busy == busy[frozenset({"busy"})]
        same_spread(use.gaps, plain.gaps(own))
        same_spread(use.queueing, [max(wait, 0) for device, wait in waits if device == use.device])
    found = [(thread, begin, end, block(name)) for thread, begin, end, name in ranges if block(name)]
    layers: defaultdict[str, int] = defaultdict(int)
    for thread, at, time in launched:
        around = [one for one in found if one[0] == thread and one[1] <= at < one[2]]
        if around:
            layers[max(around, key=lambda one: one[1])[3]] += time
    told = {group.key: group.total for group in summary.groups["layer"]}
    assert told.pop(OTHER) == summary.total - sum(layers.values())
    assert told == layers
    keys = [group.key for group in summary.groups["layer"]]
    numbers = [int(key.rpartition(".")[2]) for key in keys[:-1]]
    assert keys[-1] == OTHER and numbers == sorted(numbers)


def block(name: str) -> str:
    """The layer in names such as "FSDP::forward (encoder.block.14.layer.0), op_id = 3"."""
    found = re.search(r"(?:^|[/.:\s_])(block\.\d+)(?![0-9a-z])", name)
    return found.group(1) if found else ""


def test_rocm_by_sql() -> None:
    path = at_hand(SHARED / "corpus/rpd/matmul_result.rpd")
    summary = ktrace.summary(path, by=["kernel"])
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as base:
        kernels = base.execute(
            "select s.string, count(*), sum(o.end - o.start) from rocpd_op o join rocpd_string t on t.id = opType_id "
            "join rocpd_string s on s.id = description_id where t.string = 'KernelExecution' group by 1"
        ).fetchall()
        waits = base.execute(
            "select max(o.start - a.end, 0) from rocpd_op o join rocpd_api_ops x on x.op_id = o.id "
            "join rocpd_api a on a.id = x.api_id"
        ).fetchall()
        total = base.execute("select count(*), sum(end - start) from rocpd_op").fetchone()
    assert (summary.count, summary.total) == total
    told = {group.name: (group.count, group.total) for group in summary.groups["kernel"] if group.name}
    assert {name: (count, time) for name, count, time in kernels if name in told}
    for name, count, time in kernels:
        assert told.get(name, (count, time)) == (count, time)
    same_spread(summary.devices[0].queueing, [wait for (wait,) in waits])
