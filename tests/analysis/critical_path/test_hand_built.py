"""The path in timelines that are small enough to see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from path_timelines import Piece, Timeline

LAUNCH, BETWEEN, WAIT, UNKNOWN = "launch delay", "launch overhead", "dependency", "unknown"
NODES = "between graph nodes"
IDLE = ("between calls", "between calls")


def launched(line: Timeline, corr: int, ts: int, end: int, *work: tuple[str, int, int, int], tid: int = 1) -> None:
    """A call and its work: name, begin, end, stream."""
    line.host("api", "cudaLaunchKernel", ts, end, tid, corr)
    for name, begin, until, stream in work:
        line.work(name, begin, until, stream, corr)


@pytest.fixture
def line() -> Timeline:
    return Timeline()


def test_launch_kernels_and_synchronisation(line: Timeline, tmp_path: Path) -> None:
    line.step(1, 0, 10_000)
    line.host("op", "aten::mm", 500, 3_000)
    launched(line, 1, 1_000, 2_000, ("gemm", 2_500, 6_000, 7))
    launched(line, 2, 3_500, 4_000, ("norm", 6_200, 9_000, 7))
    line.host("api", "cudaDeviceSynchronize", 4_500, 9_400)
    assert line.path(tmp_path) == [
        (0, 500, *IDLE),
        (500, 1_000, "host operator", "aten::mm"),
        (1_000, 2_000, "API call", "cudaLaunchKernel"),
        (2_000, 2_500, LAUNCH, LAUNCH),
        (2_500, 6_000, "kernel", "gemm"),
        (6_000, 6_200, BETWEEN, BETWEEN),
        (6_200, 9_000, "kernel", "norm"),
        (9_000, 9_400, "API call", "cudaDeviceSynchronize"),
        (9_400, 10_000, *IDLE),
    ]


def test_a_synchronisation_that_needs_not_wait_is_a_call(line: Timeline, tmp_path: Path) -> None:
    line.step(1, 0, 10_000)
    launched(line, 1, 1_000, 2_000, ("gemm", 2_500, 4_000, 7))
    line.host("api", "cudaDeviceSynchronize", 5_000, 9_000)
    assert line.path(tmp_path) == [
        (0, 1_000, *IDLE),
        (1_000, 2_000, "API call", "cudaLaunchKernel"),
        (2_000, 5_000, *IDLE),
        (5_000, 9_000, "API call", "cudaDeviceSynchronize"),
        (9_000, 10_000, *IDLE),
    ]


def test_a_stream_synchronisation_waits_for_its_stream_alone(line: Timeline, tmp_path: Path) -> None:
    """The recorded synchronisation names stream 7, though other work ends later, inside the call as well."""
    line.step(1, 0, 10_000)
    launched(line, 1, 0, 100, ("gemm", 200, 6_000, 7))
    launched(line, 2, 100, 200, ("long", 300, 8_000, 20))
    line.host("api", "cudaStreamSynchronize", 1_000, 9_000, corr=3)
    without = line.path(tmp_path)
    assert (300, 8_000, "kernel", "long") in without and (8_000, 9_000, "API call", "cudaStreamSynchronize") in without
    line.work("Stream Sync", 1_100, 8_900, 7, 3, kind="sync")
    assert line.path(tmp_path)[-3:] == [
        (200, 6_000, "kernel", "gemm"),
        (6_000, 9_000, "API call", "cudaStreamSynchronize"),
        (9_000, 10_000, *IDLE),
    ]


def test_a_stream_waits_for_an_event_of_another_one(line: Timeline, tmp_path: Path) -> None:
    line.step(1, 0, 90_000)
    launched(line, 1, 1_000, 2_000, ("send", 3_000, 60_000, 20))
    record = line.host("api", "cudaEventRecord", 2_100, 2_200, corr=2)
    launched(line, 3, 2_300, 2_400, ("other", 3_500, 5_000, 7))
    line.host("api", "cudaStreamWaitEvent", 2_500, 2_600, corr=4)
    launched(line, 5, 3_000, 4_000, ("norm", 61_000, 80_000, 7))
    line.host("api", "cudaDeviceSynchronize", 5_000, 90_000)
    assert line.path(tmp_path)[-4:] == [
        (5_000, 60_000, WAIT, "while send ran"),  # without the event, nothing tells that it was waited for
        (60_000, 61_000, BETWEEN, BETWEEN),
        (61_000, 80_000, "kernel", "norm"),
        (80_000, 90_000, "API call", "cudaDeviceSynchronize"),
    ]
    wait = line.work("Stream Wait Event", 2_500, 2_600, 7, 4, kind="sync")
    line.rows[-1]["args"] = {"wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 2}
    line.arrow("wait", "2", record, wait)
    assert line.path(tmp_path)[-5:] == [
        (2_000, 3_000, LAUNCH, LAUNCH),
        (3_000, 60_000, "kernel", "send"),
        (60_000, 61_000, BETWEEN, BETWEEN),
        (61_000, 80_000, "kernel", "norm"),
        (80_000, 90_000, "API call", "cudaDeviceSynchronize"),
    ]


def test_work_that_waits_for_work_by_an_arrow(line: Timeline, tmp_path: Path) -> None:
    launched(line, 1, 0, 100, ("first", 200, 30_000, 1), tid=1)
    launched(line, 2, 100, 200, ("second", 30_500, 40_000, 2), tid=1)
    line.arrow("wait", "a", 2, 4)
    assert line.path(tmp_path)[-3:] == [
        (200, 30_000, "kernel", "first"),
        (30_000, 30_500, BETWEEN, BETWEEN),
        (30_500, 40_000, "kernel", "second"),
    ]


@pytest.mark.parametrize(
    ("name", "waits"), [("Memcpy DtoH (Device -> Pageable)", True), ("Memcpy DtoH (Device -> Pinned)", False)]
)
def test_a_copy_to_memory_that_is_not_pinned_blocks(line: Timeline, tmp_path: Path, name: str, waits: bool) -> None:
    line.step(1, 0, 10_000)
    line.host("api", "cudaMemcpyAsync", 1_000, 9_000, corr=1)
    line.work(name, 2_000, 8_000, 7, 1, kind="memcpy")
    assert ((2_000, 8_000, "copy", name) in line.path(tmp_path)) == waits


@pytest.mark.parametrize(("until", "waits"), [(30_000, True), (8_000, False)])
def test_a_copy_of_which_nothing_says_the_memory(line: Timeline, tmp_path: Path, until: int, waits: bool) -> None:
    """Its call returned before it was done, or after it, when a launch would have returned long before."""
    line.step(1, 0, 40_000)
    line.host("api", "cudaMemcpyAsync", 1_000, until, corr=1)
    line.work("[CUDA memcpy DtoH]", 5_000, 28_000, 7, 1, kind="memcpy")
    assert ((5_000, 28_000, "copy", "[CUDA memcpy DtoH]") in line.path(tmp_path)) == waits


def backward(line: Timeline, operator: str) -> list[int]:
    """A forward operator on thread 1, two backward ones on thread 2 while thread 1 does nothing, and a last one."""
    line.step(1, 0, 10_000)
    line.host("range", "loss.backward()", 1_900, 8_200)
    return [
        line.host("op", "aten::mm", 1_000, 1_800),
        line.host("op", operator, 3_000, 5_000, tid=2),
        line.host("op", operator, 5_100, 8_000, tid=2),
        line.host("op", "aten::add_", 9_000, 9_500),
    ]


def through_backward(operator: str) -> list[Piece]:
    return [
        (0, 1_000, *IDLE),
        (1_000, 1_800, "host operator", "aten::mm"),
        (1_800, 3_000, *IDLE),
        (3_000, 5_000, "host operator", operator),
        (5_000, 5_100, *IDLE),
        (5_100, 8_000, "host operator", operator),
        (8_000, 9_000, "between calls", "loss.backward()"),
        (9_000, 9_500, "host operator", "aten::add_"),
        (9_500, 10_000, *IDLE),
    ]


def test_the_backward_thread_by_arrows(line: Timeline, tmp_path: Path) -> None:
    ids = backward(line, "MmBackward0")
    alone = line.path(tmp_path)
    assert all(name != "MmBackward0" for *_, name in alone)  # nothing tells that thread 1 waits for thread 2
    line.arrow("fwdbwd", "41", ids[0], ids[1])
    assert line.path(tmp_path) == through_backward("MmBackward0")


def test_the_backward_thread_by_the_names_of_its_operators(line: Timeline, tmp_path: Path) -> None:
    name = "autograd::engine::evaluate_function: MmBackward0"
    backward(line, name)
    assert line.path(tmp_path) == through_backward(name)


def test_a_thread_that_works_at_the_same_time_is_not_gone_through(line: Timeline, tmp_path: Path) -> None:
    name = "autograd::engine::evaluate_function: MmBackward0"
    line.step(1, 0, 10_000)
    line.host("op", "aten::mm", 1_000, 9_000)
    line.host("op", name, 3_000, 8_000, tid=2)
    assert line.path(tmp_path) == [
        (0, 1_000, *IDLE),
        (1_000, 9_000, "host operator", "aten::mm"),
        (9_000, 10_000, *IDLE),
    ]


def test_kernels_of_a_graph_are_in_the_order_in_which_they_ended(line: Timeline, tmp_path: Path) -> None:
    line.step(1, 0, 40_000)
    line.host("api", "cudaGraphLaunch", 1_000, 2_000, corr=1)
    for name, begin, end, stream in (("a", 3_000, 9_000, 7), ("b", 9_500, 30_000, 20), ("c", 30_200, 38_000, 7)):
        line.work(name, begin, end, stream, 1)
    line.host("api", "cudaDeviceSynchronize", 3_000, 40_000)
    assert [(name, kind) for _, _, kind, name in line.path(tmp_path)[2:-1]] == [
        (LAUNCH, LAUNCH), ("a", "kernel"), (NODES, NODES), ("b", "kernel"), (NODES, NODES), ("c", "kernel"),
    ]  # fmt: skip


def _graphs(line: Timeline, edge: str | None) -> None:
    """A graph is launched twice: `a` and `b` begin with it, `c` follows, with an edge from `a` to `c` or without."""
    for launch, ts in enumerate((0, 2_000_000), 1):
        line.host("api", "cudaGraphLaunch", ts, ts + 20_000, corr=launch)
        works = ("a", 30_000, 430_000, 7), ("b", 30_000, 435_000, 9), ("c", 437_000, 900_000, 8)
        a, _, c = (line.work(name, ts + begin, ts + end, stream, launch) for name, begin, end, stream in works)
        if edge == "by row":
            line.arrow("wait", f"edge {launch}", a, c)
        elif edge == "by place":
            for role, at, stream in (("out", 429_999, 7), ("in", 437_000, 8)):
                place = {"device": 0, "stream": stream, "ts": ts + at}
                line.add("link", link="wait", key=f"edge {launch}", role=role, bind="enclosing", **place)
    line.host("api", "cudaDeviceSynchronize", 2_025_000, 2_905_000)


@pytest.mark.parametrize("edge", ["by row", "by place", None])
def test_a_node_of_a_graph_waits_for_the_one_that_an_edge_names(
    line: Timeline, tmp_path: Path, edge: str | None
) -> None:
    """Without edges it is the one that ended last. An edge names its nodes, or their streams and times (Kineto)."""
    _graphs(line, edge)
    path = line.path(tmp_path)
    expected = ("b", "kernel") if edge is None else ("a", "kernel")
    assert [(name, kind) for _, _, kind, name in path[-4:-1]] == [expected, (NODES, NODES), ("c", "kernel")]
    # What a launch began didn't wait for the launch before
    assert (2_020_000, 2_030_000, LAUNCH, LAUNCH) in path
    assert not any(kind == WAIT for _, _, kind, _ in path)


def test_several_nodes_wait_for_one(line: Timeline, tmp_path: Path) -> None:
    """Perfetto's stages name what they wait for: a stage may be awaited by several."""
    line.host("api", "cudaGraphLaunch", 0, 20_000, corr=1)
    works = (
        ("a", 30_000, 430_000, 7),
        ("x", 30_000, 435_000, 6),
        ("b", 437_000, 900_000, 8),
        ("c", 437_000, 500_000, 9),
    )
    a, _, b, c = (line.work(*one, 1) for one in works)
    line.add("link", link="wait", key="event", role="out", event=a)
    for one in (b, c):
        line.add("link", link="wait", key="event", role="in", event=one)
    line.host("api", "cudaDeviceSynchronize", 25_000, 905_000)
    assert [name for *_, name in line.path(tmp_path)[-4:-1]] == ["a", NODES, "b"]


def test_kernels_that_overlap_on_a_stream(line: Timeline, tmp_path: Path) -> None:
    """A kernel that began before the one before ended (programmatic dependent launch) was allowed to by that one."""
    line.step(1, 0, 10_000)
    launched(line, 1, 0, 100, ("a", 200, 5_000, 7))
    launched(line, 2, 100, 200, ("b", 4_500, 9_000, 7))
    line.host("api", "cudaDeviceSynchronize", 300, 10_000)
    assert line.path(tmp_path)[2:] == [
        (200, 4_500, "kernel", "a"),
        (4_500, 9_000, "kernel", "b"),
        (9_000, 10_000, "API call", "cudaDeviceSynchronize"),
    ]


@pytest.mark.parametrize("synced", [False, True])
def test_a_delay_that_is_too_long_is_unknown_or_was_queued_before(line: Timeline, tmp_path: Path, synced: bool) -> None:
    """The first work begins long after its launch: unless the host has waited for the device, others ran there."""
    line.step(1, 0, 5_000_000)
    if synced:
        line.host("api", "cudaDeviceSynchronize", 0, 500)
    launched(line, 1, 600, 1_000, ("a", 1_501_001, 2_000_000, 7))
    launched(line, 2, 1_000, 2_000, ("b", 3_500_000, 4_000_000, 7))
    line.host("api", "cudaDeviceSynchronize", 3_000, 5_000_000)
    found = line.path(tmp_path)
    assert found[-4:] == [
        (1_501_001, 2_000_000, "kernel", "a"),
        (2_000_000, 3_500_000, UNKNOWN, "before b"),
        (3_500_000, 4_000_000, "kernel", "b"),
        (4_000_000, 5_000_000, "API call", "cudaDeviceSynchronize"),
    ]
    if synced:
        assert found[-6:-4] == [
            (600, 1_000, "API call", "cudaLaunchKernel"),
            (1_000, 1_501_001, UNKNOWN, "before a"),
        ]
    else:
        assert found[:-4] == [(0, 1_501_001, "queued before the recording", "before a")]
    told = " ".join(line.answer(tmp_path).notes)
    assert ("Launched before profiling: the device worked" in told) is not synced


def test_devices_alone(line: Timeline, tmp_path: Path) -> None:
    line.work("a", 0, 5_000)
    line.work("b", 6_000, 90_000)
    line.work("c", 150_000, 200_000)
    answer = line.answer(tmp_path)
    assert [(one.key, one.time) for one in answer.kinds] == [("kernel", 139_000), (UNKNOWN, 61_000)]
    assert answer.is_whole and answer.wall == 200_000
    assert (
        answer.notes[0]
        == "The calls that launched the work aren't known, so the path doesn't lead from devices to the host."
    )


def test_the_last_step_lasts_until_its_work_has_ended(line: Timeline, tmp_path: Path) -> None:
    line.step(1, 0, 1_000)
    line.step(2, 1_100, 2_000)
    launched(line, 1, 100, 200, ("a", 300, 5_000, 7))
    launched(line, 2, 1_200, 1_300, ("b", 5_100, 9_000, 7))
    answer = line.answer(tmp_path)
    assert [(step.label, step.wall) for step in answer.steps] == [("ProfilerStep#1", 1_000), ("ProfilerStep#2", 7_900)]
    assert answer.steps[0].times == {"between calls": 100, "API call": 100, LAUNCH: 100, "kernel": 700}
    assert answer.steps[1].times == {"kernel": 7_800, BETWEEN: 100}  # what is between the steps doesn't count


def test_work_before_its_call_is_noted(line: Timeline, tmp_path: Path) -> None:
    line.step(1, 0, 10_000)
    launched(line, 1, 3_000, 4_000, ("a", 2_000, 9_000, 7))
    line.host("api", "cudaDeviceSynchronize", 5_000, 10_000)
    answer = line.answer(tmp_path)
    assert answer.notes == ["Work on the path begins before its call, 1 time: clocks disagree, or times are rounded."]
    assert sum(one.time for one in answer.kinds) == 10_000


def test_a_filter_is_noted(line: Timeline, tmp_path: Path) -> None:
    launched(line, 1, 0, 100, ("a", 200, 5_000, 7))
    launched(line, 2, 100, 200, ("b", 5_500, 9_000, 7))
    from ktrace.stages.select.wanted import Filter

    notes = line.answer(tmp_path, filter=Filter(names=("b",))).notes
    assert notes[0] == "A filter leaves out 1 piece of device work, so the critical path may be a different one."


def test_shares_and_totals(line: Timeline, tmp_path: Path) -> None:
    line.step(1, 0, 10_000)
    launched(line, 1, 0, 100, ("gemm", 200, 6_000, 7))
    launched(line, 2, 100, 200, ("gemm", 300, 3_000, 20))
    line.host("api", "cudaDeviceSynchronize", 300, 10_000)
    answer = line.answer(tmp_path)
    by_name = {(one.key, one.kind): (one.time, one.total, one.pieces) for one in answer.names}
    assert by_name["gemm", "kernel"] == (5_800, 8_500, 1)
    assert by_name["cudaLaunchKernel", "API call"] == (100, 200, 1)
    assert by_name["cudaDeviceSynchronize", "API call"] == (4_000, 9_700, 1)
    assert [(one.key, one.time, one.total) for one in answer.operations] == [("gemm", 5_800, 8_500)]


def test_no_work_and_no_steps_is_no_answer(line: Timeline, tmp_path: Path) -> None:
    line.host("op", "aten::mm", 0, 100)
    with pytest.raises(KeyError):
        line.answer(tmp_path)


def test_the_stream_of_an_event_by_its_record(line: Timeline, tmp_path: Path) -> None:
    """As in nsys: the synchronisation doesn't name the stream of the event, a record of the event does."""
    launched(line, 1, 0, 100, ("send", 200, 60_000, 20))
    record = line.host("api", "cudaEventRecord", 200, 300, corr=2)
    line.add("link", link="event", key="9:1", role="out", event=record, device=0, stream=20)
    wait = line.work("Stream wait event", 400, 500, 7, 3, kind="sync")
    line.arrow("wait", "a", record, wait)
    launched(line, 4, 500, 600, ("norm", 60_400, 90_000, 7))
    assert line.path(tmp_path)[-3:] == [
        (200, 60_000, "kernel", "send"),
        (60_000, 60_400, BETWEEN, BETWEEN),
        (60_400, 90_000, "kernel", "norm"),
    ]


def test_each_process_with_steps_has_its_own_path(line: Timeline, tmp_path: Path) -> None:
    for pid, end, device in ((9, 10_000, 0), (10, 30_000, 1)):
        line.host("range", "ProfilerStep#1", 0, end, pid, pid=pid)
        line.host("api", "cudaLaunchKernel", 0, 100, pid, corr=1, pid=pid)
        line.work(f"kernel_{device}", 200, end - 1_000, corr=1)
        line.rows[-1] |= {"pid": pid, "device": device}
        line.host("api", "cudaDeviceSynchronize", 300, end, pid, pid=pid)
    answer = line.answer(tmp_path)
    assert [(step.label, step.count, step.wall) for step in answer.steps] == [("ProfilerStep#1", 2, 40_000)]
    kernels = {one.key: (one.time, one.total) for one in answer.names if one.kind == "kernel"}
    assert kernels == {"kernel_0": (8_800, 8_800), "kernel_1": (28_800, 28_800)}


def test_steps_that_only_devices_have(line: Timeline, tmp_path: Path) -> None:
    line.work("ProfilerStep#1", 0, 10_000, kind="range")
    line.work("a", 1_000, 5_000)
    line.work("b", 5_500, 9_000)
    assert line.path(tmp_path) == [
        (0, 1_000, UNKNOWN, "(unknown)"),
        (1_000, 5_000, "kernel", "a"),
        (5_000, 5_500, UNKNOWN, "before b"),  # when it was launched isn't known
        (5_500, 9_000, "kernel", "b"),
        (9_000, 10_000, UNKNOWN, "(unknown)"),
    ]


def test_calls_of_another_thread_launch_work_on_the_path(line: Timeline, tmp_path: Path) -> None:
    line.step(1, 0, 10_000)
    launched(line, 1, 2_000, 3_000, ("a", 3_500, 9_000, 7), tid=2)
    line.host("api", "cudaDeviceSynchronize", 2_500, 10_000)
    assert line.path(tmp_path) == [
        (0, 2_000, "between calls", "between calls"),
        (2_000, 3_000, "API call", "cudaLaunchKernel"),
        (3_000, 3_500, LAUNCH, LAUNCH),
        (3_500, 9_000, "kernel", "a"),
        (9_000, 10_000, "API call", "cudaDeviceSynchronize"),
    ]


@pytest.mark.parametrize("name", ["Memcpy DtoH (Device -> Pageable)", "[CUDA memcpy DtoH]", "CopyDeviceToHost"])
@pytest.mark.parametrize("gap", [100, 5_400])
def test_a_call_that_returns_when_the_work_is_done_is_not_its_launch(
    gap: int, name: str, line: Timeline, tmp_path: Path
) -> None:
    """A copy to pageable memory waits in its call until the kernels before it have ended, whatever the gap is.

    Where its name doesn't say what memory that is, times do.
    """
    line.step(1, 0, 100_000)
    for number in range(20):
        launched(
            line, number, 100 * number, 100 * number + 50, ("gemm", 3_000 * number + 2_500, 3_000 * number + 5_400, 7)
        )
    begin = 3_000 * 19 + 5_400 + gap
    line.host("api", "cudaMemcpyAsync", 2_100, begin + 1_500, corr=99)
    line.work(name, begin, begin + 1_000, 7, 99, kind="memcpy")
    path = line.path(tmp_path)
    assert sum(end - start for start, end, kind, _ in path if kind == "kernel") == 20 * 2_900
    assert sum(end - start for start, end, kind, _ in path if kind == "API call") <= 550


def test_a_copy_on_an_idle_device_is_let_begin_by_its_call(line: Timeline, tmp_path: Path) -> None:
    line.step(1, 0, 10_000)
    launched(line, 1, 1_000, 1_500, ("gemm", 2_000, 3_000, 7))
    line.host("api", "cudaMemcpyAsync", 5_000, 8_500, corr=2)
    line.work("Memcpy DtoH (Device -> Pageable)", 7_000, 8_000, 7, 2, kind="memcpy")
    assert line.path(tmp_path)[-5:-1] == [
        (1_500, 5_000, *IDLE),
        (5_000, 7_000, "API call", "cudaMemcpyAsync"),
        (7_000, 8_000, "copy", "Memcpy DtoH (Device -> Pageable)"),
        (8_000, 8_500, "API call", "cudaMemcpyAsync"),
    ]


def test_a_synchronisation_waits_for_work_whose_call_is_not_known(line: Timeline, tmp_path: Path) -> None:
    line.step(1, 0, 10_000)
    launched(line, 1, 0, 100, ("gemm", 200, 1_000, 7))
    for begin in (1_100, 3_100, 5_100):
        line.work("norm", begin, begin + 1_900, 7)
    line.host("api", "cudaStreamSynchronize", 500, 7_200)
    path = line.path(tmp_path)
    assert [(start, end) for start, end, kind, name in path if (kind, name) == ("kernel", "norm")] == [
        (1_100, 3_000),
        (3_100, 5_000),
        (5_100, 7_000),
    ]
    assert (7_000, 7_200, "API call", "cudaStreamSynchronize") in path
