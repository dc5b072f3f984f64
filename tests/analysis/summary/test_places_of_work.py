"""Steps, layers, launches, ranks, unfinished work: rows made by hand, of which the answer is plain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.work.groups import BY, OTHER
from ktrace.errors import InputError, UsageError

Row = dict[str, Any]

HOST = {"pid": 5, "tid": 6}
GPU = {"device": 0, "stream": 7}


def event(number: int, kind: str, name: str, ts: int, dur: int | None, **columns: Any) -> Row:
    row = {"record": "event", "source": "t", "id": number, "kind": kind, "name": name, "ts": ts, "timing": "measured"}
    return row | ({} if dur is None else {"dur": dur}) | columns


def written(folder: Path, rows: list[Row], name: str = "t.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in [{"ktrace": "1.0"}, *rows]))
    return path


def summary(folder: Path, rows: list[Row], **options: Any) -> Summary:
    found = ktrace.summary(written(folder, rows), **options)
    assert found.report is not None and found.report.balanced()
    return found


def totals(found: Summary, by: str) -> dict[str, float]:
    return {group.key: group.total for group in found.groups[by]}


STEPS = [
    event(1, "range", "ProfilerStep#10", 1000, 100, **HOST),
    event(2, "range", "ProfilerStep#9", 900, 100, **HOST),
    event(3, "api", "launch", 910, 10, **HOST, correlation=1),
    event(4, "api", "launch", 990, 5, pid=5, tid=8, correlation=2),  # another thread of the process
    event(5, "api", "launch", 1000, 10, **HOST, correlation=3),  # at the end of the one, the start of the other
    event(6, "api", "launch", 1100, 10, **HOST, correlation=4),
    event(11, "kernel", "gemm", 1050, 1, **GPU, correlation=1),  # while the next step is on
    event(12, "kernel", "gemm", 1060, 2, **GPU, correlation=2),
    event(13, "kernel", "softmax", 1070, 4, **GPU, correlation=3),
    event(14, "kernel", "softmax", 1080, 8, **GPU, correlation=4),
    event(15, "kernel", "gemm", 1085, 16, **GPU),  # no call: where it begins
    event(16, "kernel", "gemm", 2000, 32, **GPU),
]


def test_work_is_of_the_step_in_which_it_was_launched(tmp_path: Path) -> None:
    found = summary(tmp_path, STEPS)
    assert found.steps == ["ProfilerStep#9", "ProfilerStep#10"]
    assert totals(found, "step") == {"ProfilerStep#9": 3, "ProfilerStep#10": 20, OTHER: 40}
    assert [group.key for group in found.groups["step"]] == ["ProfilerStep#9", "ProfilerStep#10", OTHER]
    gemm = next(group for group in found.groups["operation"] if group.key == "gemm")
    assert gemm.steps is not None and gemm.steps.tolist() == [3, 16]
    first, second = found.step_use
    assert (first.wall, first.busy, first.count) == (100, 3, 1)
    assert (second.wall, second.busy) == (100, 4 + 16)
    assert found.devices[0].queueing is not None
    assert found.devices[0].queueing.count == 4  # the others have no call
    assert found.devices[0].queueing.max == 1050 - 920  # a wait below 0 is none


def test_times_of_a_step_of_several_ranks_are_means_of_theirs() -> None:
    ranks = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
    both, *each = (ktrace.summary(path, by=["operation"]) for path in (ranks, *ranks))

    def row(found: Summary) -> dict[str, Any]:
        table = next(table for table in found.tables() if table.name == "steps")
        return dict(zip((column.key for column in table.columns), table.rows[0], strict=True))

    mean, one, other = (row(found) for found in (both, *each))
    assert (mean["times"], one["times"]) == (2, 1)
    for name in ("wall_ns", "span_ns", "compute_ns", "busy_ns", "operation_gemm_ns"):
        assert 2 * mean[name] == one[name] + other[name]
    assert both.step_use[0].wall == each[0].step_use[0].wall + each[1].step_use[0].wall


def test_a_device_that_lags_is_never_busy_for_more_than_its_time(tmp_path: Path) -> None:
    """The host runs ahead: it is through each step in 10 ns, and the work of a step takes 30."""
    rows: list[dict[str, Any]] = []
    for step in range(3):
        rows += [
            event(10 * step, "range", f"step {step}", 100 + 10 * step, 10, pid=1, tid=1),
            event(10 * step + 1, "api", "launch", 101 + 10 * step, 2, pid=1, tid=1, correlation=step + 1),
            event(10 * step + 2, "kernel", "gemm", 105 + 32 * step, 30, **GPU, correlation=step + 1),
        ]
    found = summary(tmp_path, rows)
    assert [(use.wall, use.busy, use.span, use.idle) for use in found.step_use] == [
        (10, 30, 35, 5),  # 100 to 135: before its first work the device waits for the host
        (10, 30, 32, 2),  # 135 to 167
        (10, 30, 32, 2),
    ]
    table = next(table for table in found.tables() if table.name == "steps")
    shares = [row[[column.key for column in table.columns].index("busy_percent")] for row in table.rows]
    assert shares == pytest.approx([100 * 30 / 35, 100 * 30 / 32, 100 * 30 / 32])


def test_a_device_that_waits_is_idle_in_the_step_in_which_it_waits(tmp_path: Path) -> None:
    """The host loads data at the start of one step, and writes a file at the end of another."""
    rows = [
        event(1, "range", "step 1", 0, 100, pid=1, tid=1),
        event(2, "api", "launch", 70, 2, pid=1, tid=1, correlation=1),
        event(3, "kernel", "gemm", 75, 20, **GPU, correlation=1),
        event(4, "range", "step 2", 100, 100, pid=1, tid=1),
        event(5, "api", "launch", 101, 2, pid=1, tid=1, correlation=2),
        event(6, "kernel", "gemm", 105, 20, **GPU, correlation=2),
    ]
    found = summary(tmp_path, rows)
    assert [(use.busy, use.span, use.idle) for use in found.step_use] == [(20, 100, 80), (20, 100, 80)]


def test_steps_shown_on_the_device_alone(tmp_path: Path) -> None:
    rows = [
        event(1, "range", "step 3", 100, 50, **GPU),
        event(2, "kernel", "gemm", 110, 5, **GPU),
        event(3, "kernel", "gemm", 150, 7, **GPU),
    ]
    found = summary(tmp_path, rows, by=["step"])
    assert totals(found, "step") == {"step 3": 5, OTHER: 7}
    assert found.step_use[0].wall == 50


def test_two_processes_in_a_source_have_their_own_steps_and_calls(tmp_path: Path) -> None:
    rows = []
    for pid, name in ((5, "Iteration 1"), (6, "Iteration 2")):
        rows += [
            event(10 * pid, "range", name, 100, 100, pid=pid, tid=1),
            event(10 * pid + 1, "api", "launch", 150 + pid, 5, pid=pid, tid=1, correlation=77),
            event(10 * pid + 2, "kernel", "gemm", 400, pid, pid=pid, device=0, stream=pid, correlation=77),
        ]
    found = summary(tmp_path, rows)
    assert totals(found, "step") == {"Iteration 1": 5, "Iteration 2": 6}
    queueing = found.devices[0].queueing
    assert queueing is not None and (queueing.count, queueing.total) == (2, 400 - 160 + 400 - 161)


def test_work_without_a_process_is_joined_where_one_has_the_correlation(tmp_path: Path) -> None:
    rows = [
        event(1, "api", "launch", 100, 5, pid=1, tid=1, correlation=7),
        event(2, "api", "launch", 200, 5, pid=2, tid=1, correlation=8),
        event(3, "api", "launch", 300, 5, pid=1, tid=1, correlation=9),
        event(4, "api", "launch", 300, 5, pid=2, tid=1, correlation=9),
        event(5, "kernel", "a", 400, 5, **GPU, correlation=7),
        event(6, "kernel", "a", 410, 5, **GPU, correlation=8),
        event(7, "kernel", "a", 420, 5, **GPU, correlation=9),  # two processes have it
        event(8, "kernel", "a", 430, 5, **GPU, correlation=10),
    ]
    queueing = summary(tmp_path, rows).devices[0].queueing
    assert queueing is not None and (queueing.count, queueing.total) == (2, 400 - 105 + 410 - 205)


def test_of_calls_within_each_other_the_outer_one_launched(tmp_path: Path) -> None:
    rows = [
        event(1, "api", "cuLaunchKernel", 102, 5, **HOST, correlation=7),
        event(2, "api", "cudaLaunchKernel", 100, 10, **HOST, correlation=7),
        event(3, "kernel", "a", 140, 5, **GPU, correlation=7),
    ]
    queueing = summary(tmp_path, rows).devices[0].queueing
    assert queueing is not None and queueing.total == 30


def test_launches_told_by_links(tmp_path: Path) -> None:
    def link(number: int, key: str, role: str, event: int) -> Row:
        return {
            "record": "link",
            "source": "t",
            "id": number,
            "link": "launch",
            "key": key,
            "role": role,
            "event": event,
        }

    rows = [
        event(1, "range", "layer 4", 90, 100, **HOST),
        event(2, "api", "launch", 100, 10, **HOST),
        event(3, "api", "launch", 300, 10, **HOST),
        event(4, "kernel", "unfinished", 130, None, **GPU),
        event(5, "kernel", "a", 140, 5, **GPU),
        event(6, "kernel", "b", 150, 6, **GPU),
        event(7, "kernel", "c", 160, 7, **GPU),
        link(20, "x", "out", 2),
        link(21, "x", "in", 5),
        link(22, "x", "in", 6),
        link(23, "y", "in", 7),
        link(24, "z", "out", 3),
        link(25, "z", "in", 4),
    ]
    found = summary(tmp_path, rows, by=["layer"])
    queueing = found.devices[0].queueing
    assert queueing is not None and (queueing.count, queueing.total) == (1, 30)  # b runs after a, of the same call
    assert totals(found, "layer") == {"layer 4": 11, OTHER: 7}
    assert found.notes == ["Not counted: 1 row without an end."]


def test_layers_of_the_ranges_around_calls(tmp_path: Path) -> None:
    rows = [
        event(1, "range", "nn.Module: LlamaDecoderLayer_2", 100, 1000, **HOST),
        event(2, "range", "nn.Module: LlamaAttention_2", 150, 100, **HOST),  # says no layer
        event(3, "range", "model.layers.3.self_attn", 400, 100, **HOST),  # the innermost counts
        event(4, "range", "layer 9", 100, 1000, pid=5, tid=99),  # another thread
        event(11, "api", "launch", 160, 5, **HOST, correlation=1),
        event(12, "api", "launch", 420, 5, **HOST, correlation=2),
        event(13, "api", "launch", 600, 5, **HOST, correlation=3),
        event(14, "api", "launch", 2000, 5, **HOST, correlation=4),
        event(15, "api", "launch", 700, 5, **HOST, correlation=5),
        event(21, "kernel", "a", 3000, 1, **GPU, correlation=1),
        event(22, "kernel", "a", 3010, 2, **GPU, correlation=2),
        event(23, "kernel", "a", 3020, 4, **GPU, correlation=3),
        event(24, "kernel", "a", 3030, 8, **GPU, correlation=4),
        event(25, "kernel", "a", 3040, 16, **GPU, correlation=5, layer="mine"),  # the source's own word stays
    ]
    found = summary(tmp_path, rows, by=["layer"])
    assert totals(found, "layer") == {"decoderlayer_2": 5, "layers.3": 2, "mine": 16, OTHER: 8}


def test_several_inputs_and_ranks(tmp_path: Path) -> None:
    paths = []
    for rank in (0, 1):
        rows = [
            {"record": "catalog", "source": f"r{rank}", "id": 1, "entity": "source", "facts": {"rank": rank}},
            event(2, "kernel", "gemm", 100, 10 + rank, **GPU) | {"source": f"r{rank}"},
            event(3, "kernel", "gemm", 105, 10, device=0, stream=8) | {"source": f"r{rank}"},
        ]
        paths.append(written(tmp_path, rows, f"r{rank}.jsonl"))
    found = ktrace.summary(paths)
    assert found.sources == ["r0", "r1"]
    assert totals(found, "rank") == {"1": 21, "0": 20}
    assert totals(found, "device") == {"rank 1 device 0": 21, "rank 0 device 0": 20}
    assert [(use.label, use.rank, use.busy) for use in found.devices] == [
        ("rank 0 device 0", 0, 15),
        ("rank 1 device 0", 1, 15),
    ]
    assert totals(found, "source") == {"r1": 21, "r0": 20}
    assert (found.total, found.count) == (41, 4)


def test_nothing_to_add_up(tmp_path: Path) -> None:
    found = summary(tmp_path, [event(1, "log", "hello", 5, None)])
    assert (found.total, found.count, found.groups, found.devices) == (0, 0, {}, [])
    [note] = summary(tmp_path, [event(1, "log", "hello", 5, None)], by=["kernel"]).notes
    assert "nothing" in note
    assert found.tables()[0].rows == [("t", "nothing", 0, 0, 0)]
    with pytest.raises(InputError):
        ktrace.summary(tmp_path / "missing.jsonl")


def test_what_the_host_did_where_there_is_no_device_work(tmp_path: Path) -> None:
    rows = [
        event(1, "op", "outer", 100, 100, **HOST),
        event(2, "op", "inner", 110, 30, **HOST),
        event(3, "api", "innermost", 120, 10, **HOST),
        event(4, "op", "inner", 150, 20, **HOST),
        event(5, "op", "inner", 150, 20, pid=5, tid=7),  # another thread
        event(6, "range", "not counted", 0, 10_000, **HOST),
    ]
    found = summary(tmp_path, rows)
    assert found.work == "host" and not found.devices
    assert totals(found, "kernel") == {"inner": 20 + 20 + 20, "outer": 50, "innermost": 10}
    assert any("no device work" in note for note in found.notes)
    ranges = [event(1, "range", "a", 0, 100, **HOST), event(2, "range", "b", 10, 20, **HOST)]
    assert totals(summary(tmp_path, ranges), "kernel") == {"a": 80, "b": 20}


def test_only_what_is_asked_for_and_what_is_not_said(tmp_path: Path) -> None:
    found = summary(tmp_path, STEPS, by=["layer", "operation", "rank"])
    assert list(found.groups) == ["operation"]
    assert "This input has no layer or rank information." in found.notes
    assert [table.name for table in found.tables()] == ["verdict", "overview", "devices", "waits", "steps", "operation"]
    assert summary(tmp_path, STEPS, by=["layer"]).notes == ["This input has no layer information."]
    with pytest.raises(UsageError) as error:
        summary(tmp_path, STEPS, by=["colour"])
    assert all(by in str(error.value) for by in BY)


def test_a_trace_in_memory_says_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, STEPS)
    assert ktrace.read(path).summary().groups == ktrace.summary(path).groups
    assert ktrace.read(path).summary().devices == ktrace.summary(path).devices
    wanted = ktrace.Filter(names=("gemm",))
    assert ktrace.read(path).filter(wanted).summary(by=["kernel"]).total == 51


def test_a_part_of_it(tmp_path: Path) -> None:
    found = ktrace.summary(written(tmp_path, STEPS), crop=ktrace.Crop(step=9), filter=ktrace.Filter(names=("gemm",)))
    assert found.total == 3
    whole = ktrace.summary(written(tmp_path, STEPS), filter=ktrace.Filter(names=("gemm",)))
    assert totals(whole, "step") == {"ProfilerStep#9": 3, "ProfilerStep#10": 16, OTHER: 32}
    assert whole.devices[0].queueing is not None and whole.devices[0].queueing.count == 2
    assert whole.report is not None and whole.report.balanced()


def test_rules_of_the_user_come_first(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    wanted = [{"name": "gemm", "operation": "mine"}, {"name": "^ProfilerStep#(9)$", "layer": "l\\1"}]
    rules.write_text(json.dumps({"rules": wanted}))
    found = ktrace.summary(written(tmp_path, STEPS), rules=rules, by=["operation", "layer"])
    assert totals(found, "operation") == {"mine": 51, "softmax": 12}
    assert totals(found, "layer") == {"l9": 1, OTHER: 62}


def test_kernels_without_an_operation(tmp_path: Path) -> None:
    rows = [*STEPS, event(30, "kernel", "zzz<int>", 3000, 37, **GPU), event(31, "memcpy", "zzz", 3100, 5, **GPU)]
    found = summary(tmp_path, rows, by=["unclassified"])
    assert [(group.key, group.total, group.count) for group in found.groups["unclassified"]] == [("zzz<int>", 37, 1)]


def test_what_is_compute_and_what_is_communication(tmp_path: Path) -> None:
    rows = [
        event(1, "kernel", "mine", 0, 10, **GPU),
        event(2, "memset", "set", 20, 10, **GPU),
        event(3, "graph", "graph", 40, 10, **GPU),
        event(4, "memcpy", "copy", 45, 10, device=0, stream=8),  # 5 of it exposed
        event(5, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 10, device=0, stream=9),  # 5 of it exposed
        event(6, "kernel", "with a group", 100, 7, device=0, stream=9, comm="tp"),
        event(7, "kernel", "no time", 200, 0, **GPU),
        event(8, "kernel", "copies, yet computes", 300, 3, **GPU, operation="copy"),
    ]
    [use] = summary(tmp_path, rows).devices
    assert (use.compute, use.communication, use.copies) == (33, 17, 10)
    assert (use.exposed_communication, use.exposed_copies) == (12, 5)
    assert (use.span, use.busy) == (303, 15 + 10 + 15 + 7 + 3)
    assert use.idle == 303 - 50
    assert use.queueing is None and use.occupancy is None


def test_copies_beside_communication_count_once(tmp_path: Path) -> None:
    """Compute, exposed communication, exposed copies and idle time divide the span, of devices and of steps."""
    rows = [
        event(1, "kernel", "mine", 0, 10, **GPU),
        event(2, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 20, device=0, stream=9),  # alone from 10
        event(3, "memcpy", "copy", 15, 20, device=0, stream=8),  # alone from 25
        event(4, "kernel", "mine", 40, 10, **GPU),
        event(5, "range", "ProfilerStep#1", 0, 60, pid=1, tid=1),
    ]
    found = summary(tmp_path, rows)
    [use], [step] = found.devices, found.step_use
    assert (use.compute, use.exposed_communication, use.exposed_copies, use.idle, use.span) == (20, 15, 10, 5, 50)
    assert (step.compute, step.exposed_communication, step.exposed_copies, step.busy) == (20, 15, 10, 45)


def test_devices_of_several_hosts_and_of_none(tmp_path: Path) -> None:
    rows = [
        event(1, "kernel", "a", 0, 1, device=0, host="n1"),
        event(2, "kernel", "a", 0, 2, device=0, host="n2"),
        event(3, "kernel", "a", 0, 4, device=10, host="n2"),
        event(4, "kernel", "a", 0, 8, device=9, host="n2"),
    ]
    found = summary(tmp_path, rows, by=["device"])
    assert [use.label for use in found.devices] == ["n1 device 0", "n2 device 0", "n2 device 9", "n2 device 10"]
    assert totals(found, "device") == {"n2 device 9": 8, "n2 device 10": 4, "n2 device 0": 2, "n1 device 0": 1}
    [use] = summary(tmp_path, [event(1, "kernel", "a", 0, 1)]).devices
    assert (use.label, use.device) == ("device", None)


@pytest.mark.parametrize(("devices", "labels"), [((0, 0), ["device 0"]), ((0, 1), ["device", "device 0", "device 1"])])
def test_a_copy_that_names_no_device_is_of_the_only_one(
    devices: tuple[int, int], labels: list[str], tmp_path: Path
) -> None:
    """rocprof's copies have a process of their own. Of several devices it isn't known which one copied."""
    times = zip(("gemm", "norm"), (1_000, 5_000), devices, strict=True)
    rows = [event(at, "kernel", name, at, 4_000, device=device, stream=7) for name, at, device in times]
    rows.append(event(1, "memcpy", "CopyHostToDevice", 2_000, 2_000, stream=9))
    uses = summary(tmp_path, rows).devices
    assert [use.label for use in uses] == labels
    assert sum(use.exposed_copies for use in uses) == (0 if len(labels) == 1 else 2_000)


@pytest.mark.parametrize(
    ("later", "names", "counted"), [(0, ("a", "b"), 3), (1, ("a", "b"), 6), (0, ("mon/a", "tue/a"), 6)]
)
def test_a_file_that_is_given_twice_counts_once(
    later: int, names: tuple[str, str], counted: int, tmp_path: Path
) -> None:
    """To the ns; a run whose kernels begin 1 ns later is another one, and so are those of other names. Its launches
    aren't lost.
    """
    paths = []
    for name, by, label in (("a.jsonl", 0, names[0]), ("b.jsonl", later, names[1])):
        rows = [event(2 * n, "api", "cudaLaunchKernel", 100 * n, 10, correlation=n + 1, **HOST) for n in range(3)]
        rows += [
            event(2 * n + 1, "kernel", "gemm", 100 * n + 20 + by * (n == 1), 50, correlation=n + 1, pid=5, **GPU)
            for n in range(3)
        ]
        paths.append(written(tmp_path, rows, name))
        paths[-1].write_text(paths[-1].read_text().replace('"source": "t"', f'"source": "{label}"'))
    found = ktrace.summary(paths)
    assert (found.count, len(found.devices), found.checks) == (counted, 1 if counted == 3 else 2, [])
    assert ("Not counted: the device work of b, that of a once more, to the ns." in found.notes) is (counted == 3)


@pytest.mark.parametrize("apart", [0, 3_000_000_000])
def test_equal_work_at_another_unix_time_is_another_recording(apart: int, tmp_path: Path) -> None:
    paths = []
    for name, since in (("a", 0), ("b", apart)):
        rows = [event(n, "kernel", "gemm", 100 * n, 50, pid=5, **GPU) for n in range(1, 4)]
        paths.append(written(tmp_path, rows, f"{name}.jsonl"))
        clock = {"entity": "clock", "facts": {"at_ns": 0, "unix_ns": 1_750_000_000_000_000_000 + since}}
        fact = json.dumps({"record": "catalog", "source": "t", "id": 0, **clock})
        paths[-1].write_text(f"{paths[-1].read_text()}{fact}\n".replace('"source": "t"', f'"source": "{name}"'))
    found = ktrace.summary(paths)
    assert found.count == (6 if apart else 3)
    assert any(one.code == "check.inputs_apart" for one in found.checks) is bool(apart)


@pytest.mark.parametrize(
    ("listed", "model"),
    [
        ({0: "AMD Instinct MI300X", 1: "AMD Instinct MI300X"}, "AMD Instinct MI300X"),
        ({0: "AMD Instinct MI300X", 1: "AMD Instinct MI210"}, None),
        ({0: "AMD Instinct MI300X", 2: "AMD Instinct MI210"}, "AMD Instinct MI210"),
        ({}, None),
    ],
)
def test_the_model_of_a_device_that_is_not_listed(listed: dict[int, str], model: str | None, tmp_path: Path) -> None:
    """PyTorch on ROCm lists GPUs from 0 on, and says agent 2 of the work on the first one."""
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 2, "tid": 0, "ts": 10, "dur": 5}
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": number, "name": name} for number, name in listed.items()],
        "traceEvents": [kernel | {"args": {"device": 2, "stream": 0}}],
    }
    path = tmp_path / "run.pt.trace.json"
    path.write_text(json.dumps(document), "utf-8")
    (use,) = ktrace.summary(path).devices
    assert (use.device, use.name) == (2, model)
