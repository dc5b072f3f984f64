"""Where it changed: phase and batch size, pass, cause of idle time; sentences by size, factors, calls apart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from idle_traces import Row, host, work, written
from sides import events, side, statistics
from worlds import build, plants, write

import ktrace
from ktrace.analysis.answers.diff.compare import compared
from ktrace.analysis.answers.diff.comparison import gate
from ktrace.analysis.answers.diff.sentences import verdict
from ktrace.analysis.answers.summary.nature import COUNTED, NATURES
from ktrace.tables import percent


def serving(path: Path, prefill: float, decode: float = 1.0, batch: int = 16) -> Path:
    """Batches of SGLang: their annotation, a launch, a kernel; times in us."""
    found: list[dict[str, Any]] = []
    now, place = 1000.0, {"pid": 1, "tid": 1, "ph": "X"}
    for number in range(16):
        reads = number % 4 == 0
        size = (2 if number % 8 else 4) if reads else batch
        took = (300.0 * size * prefill if reads else 100.0 * decode) + number % 3
        name = f"step[EXTEND bs={size} toks={512 * size}]" if reads else f"step[DECODE bs={size}]"
        found.append({**place, "cat": "user_annotation", "name": name, "ts": now, "dur": 30.0})
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": number + 1}}
        found.append({**place, **launch, "ts": now + 5, "dur": 5.0})
        args = {"device": 0, "stream": 7, "correlation": number + 1, "grid": [size * 64, 1, 1]}
        kernel = {"cat": "kernel", "name": "my_gemm_kernel", "ts": now + 20, "dur": took, "args": args}
        found.append({**place, **kernel, "pid": 0, "tid": 7})
        now += took + 60
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": found}), "utf-8")
    return path


def test_a_slower_phase_is_named_with_its_batch_sizes(tmp_path: Path) -> None:
    a = serving(tmp_path / "a.json", 1.0)
    slower = ktrace.diff(a, serving(tmp_path / "b.json", 1.25))
    assert slower.verdict[1].endswith(
        "Most of the change is in prefill, which takes 24.6% longer at batch 4 and 24.2% longer at batch 2."
    ), slower.verdict
    assert [(one.code, one.subject["batch"]) for one in slower.places] == [
        ("in.phase", "batch 4"),
        ("in.phase", "batch 2"),
    ]
    other = ktrace.diff(a, serving(tmp_path / "c.json", 1.0, 2.5))
    assert "Most of the change is in decode, which takes " in other.verdict[1]
    both = ktrace.diff(a, serving(tmp_path / "d.json", 1.25, 2.5))
    assert "Most of the change" not in " ".join(both.verdict)
    assert not ktrace.diff(a, a).places


def test_other_batches_and_grids_are_said_first(tmp_path: Path) -> None:
    a = serving(tmp_path / "a.json", 1.0)
    found = ktrace.diff(a, serving(tmp_path / "b.json", 1.0, 1.9, batch=32))
    assert found.verdict[0] == "Not like for like: decode is of batches of 16 in a.json, of 32 in b.json."
    assert [one.code for one in found.differences] == ["differs.batch"]
    text = a.read_text("utf-8")
    (tmp_path / "c.json").write_text(text.replace('"grid": [', '"grid": [1'), "utf-8")
    grids = ktrace.diff(a, tmp_path / "c.json")
    assert [one.code for one in grids.differences] == ["differs.grids"]
    assert grids.verdict[0].startswith("Not like for like: launches of my_gemm_kernel have different grids (")
    assert not ktrace.diff(a, a).differences


def test_most_work_of_one_side_only_is_another_kind() -> None:
    a = side("a", [events("gemm", [100_000] * 4)])
    operations = [events("gemm", [100_000] * 4)], [events("softmax", [300_000] * 4), events("gemm", [100_000])]
    a.groups["operation"] = operations[0]
    b = side("b", operations[1])
    b.groups["operation"] = operations[1]
    found = compared(a, b, by=["kernel", "operation"])
    assert found.verdict[0] == "Not like for like: 92% of the time of b is in kernels and operations that a lacks."
    assert not compared(b, b, by=["kernel", "operation"]).differences


@pytest.mark.parametrize("operation", ["conv", "gemm"])
def test_kernels_of_which_none_is_on_both_sides_are_another_kind_if_they_do_something_else(operation: str) -> None:
    """Such kernels have no table. Other kernels that do the same, as of another library, are no other work."""
    a, b = side("a", [events("sgemm_nn", [100_000] * 4)]), side("b", [events("my_kernel", [100_000] * 4)])
    a.groups["operation"], b.groups["operation"] = [events("gemm", [100_000] * 4)], [events(operation, [100_000] * 4)]
    found = compared(a, b)
    assert "kernel" not in found.rows
    assert [one.code for one in found.differences] == (["differs.kind"] if operation == "conv" else [])


def test_device_time_is_not_compared_with_that_of_the_host(tmp_path: Path) -> None:
    rows = [host("aten::mm", 100_000 * at, 100_000 * at + 90_000, at + 1, kind="op") for at in range(20)]
    kernels = [work("gemm", 100_000 * at + 5_000, 100_000 * at + 50_000, at + 1) for at in range(20)]
    a, b = written(tmp_path / "a.jsonl", [*rows, *kernels]), written(tmp_path / "b.jsonl", rows)
    found = ktrace.diff(a, b)
    words = "a.jsonl has the work of devices, b.jsonl host activity alone, so their times can't be compared."
    assert found.verdict == [f"Not like for like: {words}"]
    assert [one.code for one in found.findings] == ["differs.work"]
    (failed,) = gate(found, 5).regressions
    why = "a.jsonl has the work of devices, b.jsonl host activity"
    assert str(failed) == f"the time isn't comparable ({why}): whether it got slower isn't known"
    assert not gate(ktrace.diff(b, b), 5).failed and not ktrace.diff(a, a).is_foreign


#: What the sides count -> whether that differs, and whether their times are compared all the same.
COUNTED_ON_BOTH = {
    ("events", "events"): (False, True),
    ("events", "host"): (True, False),
    ("events", "requests"): (True, False),
    ("events", "warps"): (True, False),
    ("events", "spans"): (True, False),
    ("events", "ranges"): (True, False),
    ("events", "table"): (True, False),
    ("events", "samples"): (True, False),
    ("events", "statistics"): (True, True),
    ("requests", "host"): (True, False),
    ("warps", "spans"): (True, False),
    ("samples", "host"): (True, False),
    ("statistics", "table"): (True, True),
    ("requests", "requests"): (False, True),
    ("ranges", "host"): (False, True),
    ("table", "requests"): (False, True),
}


@pytest.mark.parametrize("both", COUNTED_ON_BOTH)
def test_what_each_side_counts_is_said_where_it_differs(both: tuple[str, str]) -> None:
    differs, compared_all_the_same = COUNTED_ON_BOTH[both]
    for pair in (both, both[::-1]):
        sides = [side(name, [events("gemm", [100_000] * 4)]) for name in "ab"]
        for one, whose in zip(sides, pair, strict=True):
            one.work, one.nature = ("host", whose) if whose in NATURES else (whose, "host")
        found = compared(*sides)
        assert any(one.code == "differs.work" for one in found.differences) is differs
        words = f"a has {COUNTED[pair[0]]}, b {COUNTED[pair[1]]}"
        assert any(words in line for line in found.verdict) is differs
        assert found.is_foreign is not compared_all_the_same
        assert any(words in str(one) for one in gate(found, 5).regressions) is not compared_all_the_same


@pytest.mark.parametrize(("rows", "gone"), [(3, False), (4, True)])
def test_what_a_cut_table_lacks_is_not_gone(rows: int, gone: bool, tmp_path: Path) -> None:
    """The last row of B is another kernel; without it its shares say that the table isn't all."""
    lines = ["kernel,calls,total_ms,percent", "gemm,10,20.0,40.0", "softmax,10,10.0,20.0", "relu,10,12.0,24.0"]
    (tmp_path / "a.csv").write_text("\n".join([*lines, "norm,10,8.0,16.0", ""]), "utf-8")
    other = ["fused,10,8.0,16.0"] if gone else []
    (tmp_path / "b.csv").write_text("\n".join([*lines, *other, ""]), "utf-8")
    found = ktrace.diff(tmp_path / "a.csv", tmp_path / "b.csv", by=["kernel"])
    (norm,) = (one for one in found.rows["kernel"] if one.key == "norm")
    assert (norm.verdict, norm.why) == (("gone", "") if gone else ("not known", "the other table is incomplete"))
    assert any("norm" in line for line in found.verdict) is gone


@pytest.mark.parametrize(("times", "count", "said"), [(2, 3, True), (1, 3, False), (2, 6, False)])
def test_copies_that_move_other_amounts_are_said_first(times: int, count: int, said: bool, tmp_path: Path) -> None:
    """As many copies a step of twice the bytes are another batch; twice as many are another program."""
    a = _copying(tmp_path / "a.json", 3, 1 << 20)
    b = _copying(tmp_path / "b.json", count, times << 20)
    found = ktrace.diff(a, b)
    words = "Not like for like: HtoD copies move 1.0 MB each in a.json, 2.1 MB in b.json."
    assert (words in found.verdict) is said
    assert [one.code for one in found.differences if one.code == "differs.copies"] == ["differs.copies"] * said


def _copying(path: Path, copies: int, size: int) -> Path:
    """Four steps of some copies and a kernel."""
    events: list[dict[str, Any]] = []
    for step in range(4):
        begin = 1_000.0 * (step + 1)
        place = {"ph": "X", "pid": 0, "tid": 7}
        for at in range(copies):
            args = {"device": 0, "stream": 7, "bytes": size}
            copy = {"cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": begin + 50 * at, "dur": 40}
            events.append({**copy, "args": args, **place})
        kernel = {"cat": "kernel", "name": "gemm", "ts": begin + 50 * copies, "dur": 100}
        events.append({**kernel, "args": {"device": 0, "stream": 7}, **place})
        mark = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1}
        events.append({**mark, "ts": begin - 10, "dur": 900})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return path


def test_a_slower_pass_is_named(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"layers": 3, "scale": 1.0, "steps": 4, "uses_graph": False}
    a = write(build(2, **shape), tmp_path / "a.json")
    b = write(build(2, run=1, plants=[plants.slow_kernel("softmax", 2.0)], **shape), tmp_path / "b.json")
    found = ktrace.diff(a, b)  # softmax is in the backward pass alone
    assert " Most of the change is in the backward pass, which takes " in found.verdict[1], found.verdict
    assert [one.subject["pass"] for one in found.places] == ["backward"]
    copies = write(build(2, run=1, plants=[plants.smaller_batch(0.2)], **shape), tmp_path / "c.json")
    assert "in the other" not in " ".join(ktrace.diff(copies, a).verdict)
    by_pass = ktrace.diff(a, b, by=["pass"]).rows["pass"]
    assert max(by_pass, key=lambda row: abs(row.delta)).key == "backward"


def test_the_cause_of_idle_time_is_named(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"layers": 3, "scale": 1.0, "steps": 5, "uses_graph": False, "syncs": False}
    a = write(build(4, **shape), tmp_path / "a.json")
    b = write(build(4, run=1, plants=[plants.synchronisation(every=2)], **shape), tmp_path / "b.json")
    found = ktrace.diff(a, b)
    assert " a step, most of the change: sync point. " in found.verdict[1], found.verdict
    (idle,) = (one for one in found.findings if one.code == "idle")
    assert idle.details["cause"] == "host synchronised"


#: What the host is in for 2 ms of each step, what is said of it: a step has a range of its own.
MEANWHILE = {
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": ", while the CPU was in enumerate(",
    "tokenise": ", while the CPU was in tokenise. ",
    "": ". ",
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_what_the_host_was_in_while_devices_are_idle_for_longer(name: str, tmp_path: Path) -> None:
    a, b = (_steps_with(tmp_path / f"{side}.jsonl", name, time) for side, time in (("a", 2_000), ("b", 2_000_000)))
    found = ktrace.diff(a, b)
    assert f" a step, most of the change: launch-bound{MEANWHILE[name]}" in f"{found.verdict[1]} ", found.verdict
    (idle,) = (one for one in found.findings if one.code == "idle")
    assert idle.details["cause"] == "host late" and idle.details.get("host_was_in") == (name or None)
    same = ktrace.diff(a, a)
    assert not any("while the CPU was in" in line for line in same.verdict)


def _steps_with(path: Path, name: str, time: int) -> Path:
    """Six steps of four kernels, before which the host is in something for so many ns."""
    rows, now, number = list[Row](), 0, 0
    for step in range(6):
        begin = now
        if name:
            rows.append(host(name, now + 10, now + time, kind="range"))
        now += time + 10
        for _ in range(4):
            number += 1
            rows += [
                host("cudaLaunchKernel", now, now + 4_000, number),
                work("gemm", now + 6_000, now + 506_000, number),
            ]
            now += 508_000
        rows.append(host(f"ProfilerStep#{step}", begin, now, kind="range"))
        now += 100
    return written(path, rows)


def test_changes_come_by_size_and_unknown_noise_is_an_attribute() -> None:
    a = side("a", [events("copy", [10_000]), events("norm", [5_000])])
    b = side("b", [events("copy", [10_000_000]), events("norm", [5_000]), events("gemm", [400_000])])
    found = compared(a, b)
    assert found.verdict[0] == "b takes 694 times as long as a: 10.4 ms instead of 15.0 us of work."
    assert found.verdict[1] == "What got slower: copy +9.99 ms (noise not known), gemm +400 us (new), 100% of all that."
    first, second = (one for one in found.findings if one.look)
    assert (first.subject, first.code) == ({"kernel": "copy"}, "change.not_known")
    assert first.details["of_changes_percent"] == percent(9_990_000, 10_390_000)
    assert second.subject == {"kernel": "gemm"}


def test_called_more_often_is_apart_from_slower() -> None:
    a = side("a", [statistics("copy", 3_000, 3), statistics("gemm", 1_000_000, 10)])
    b = side("b", [statistics("copy", 500_000, 768), statistics("gemm", 1_200_000, 10)])
    found = compared(a, b)
    assert found.verdict[1] == (
        "What is called more often: copy +497 us (768 calls instead of 3, each 34.9% shorter)."
        " What got slower: gemm +200 us, 100% of all that."
    )
    back = compared(b, a)
    assert back.verdict[1].startswith(
        "What is called less often: copy -497 us (3 calls instead of 768, each 53.6% longer"
    )
    assert "called" not in compared(a, side("b", [statistics("gemm", 1_200_000, 10)])).verdict[1]


@pytest.mark.parametrize("times", [1.9, 2.0, 650.0])
def test_twice_as_much_and_more_is_a_factor(times: float) -> None:
    found = compared(side("a", [statistics("gemm", 1e6, 10)]), side("b", [statistics("gemm", 1e6 * times, 10)]))
    said = (
        "b takes 90.0% longer than a" if times < 2 else f"b takes {'2.0' if times < 10 else '650'} times as long as a"
    )
    assert found.verdict[0].startswith(f"{said}: ")
    (slower, *_) = gate(found, 5).regressions
    grown = "+90.0%" if times < 2 else f"{'2.0' if times < 10 else '650'} times as long"
    assert str(slower).startswith(f"all work got slower: {grown}, more than 5%")


def test_a_red_job_does_not_say_within_noise(tmp_path: Path) -> None:
    """The work of a kernel takes 20 % longer, hidden beside the others: the time of a step stays as it is."""
    walls = [10_000_000, 10_400_000, 9_700_000, 10_100_000]
    a = side("a", [events("gemm", [200_000 + n for n in range(4)], steps=4)], walls=walls)
    b = side("b", [events("gemm", [240_000 + n for n in range(4)], steps=4)], walls=[ns + 99_000 for ns in walls])
    found = compared(a, b)
    assert " within noise" in found.verdict[0] and found.verdict[-1].startswith("The change is within noise (")
    found.gate = gate(found, 5)
    assert found.gate.failed
    said = verdict(found)
    assert "within noise" not in " ".join(said)
    assert said[-1].startswith("The change of this time doesn't exceed the noise (4 and 4 steps, q ")
    assert said[-1].endswith("; all work got slower: +20.0%, more than 5%.")


def test_the_command_says_so_too(tmp_path: Path) -> None:
    a = serving(tmp_path / "a.json", 1.0)
    b = serving(tmp_path / "b.json", 3.0)
    done = subprocess.run(
        [sys.executable, "-m", "ktrace", "diff", str(a), str(b), "--fail-over", "5%"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "within noise" not in done.stdout.partition("\n\n")[0]
    assert done.stdout.startswith("b.json takes 2.3 times as long as a.json: ")
    assert "slower: all work got slower: 2.5 times as long, more than 5%" in done.stderr
