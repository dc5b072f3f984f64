"""Memory: peaks, owners and what is left, against a plain simulation of random allocations; samples by hand."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SAMPLES

import ktrace
from ktrace.analysis.questions.memory.answer import MemoryAnswer, MemoryUse
from ktrace.cli import cli

JAX = SAMPLES / "pprof" / "memory-of-jax-unpacked.prof"
GO = SAMPLES / "pprof" / "go-cpu-inlined-and-a-location-too-few.pb.gz"
KINETO = SAMPLES / "kineto" / "memory-events-counters-profiler-range.json"


def answer(path: Path, **options: Any) -> MemoryAnswer:
    found = ktrace.summary(path, by=["memory"], **options).answers["memory"]
    assert isinstance(found, MemoryAnswer)
    return found


class Run:
    """A run of PyTorch on one thread: steps of modules with operators in them, which allocate, and frees at random."""

    def __init__(self, seed: int, *, totals: bool = True, addresses: bool = True) -> None:
        chance = Random(f"memory {seed}")
        self.events: list[dict[str, Any]] = []
        self.live: dict[int, tuple[int, tuple[str, str]]] = {}
        self.before = self.now = chance.randint(0, 10_000_000)
        self.peak, self.peak_at, self.held = 0, 0, Counter[tuple[str, str]]()
        self.course: list[tuple[int, int]] = []
        self._chance, self._totals, self._addresses, self._time = chance, totals, addresses, 1_000
        self.steps: list[tuple[str, int, int]] = []
        for step in range(4):
            begin = self._time
            for module in range(3):
                self._module(f"Block_{module}")
            self._time += 1_000
            self._slice("user_annotation", f"ProfilerStep#{step}", begin, self._time)
            self.steps.append((f"ProfilerStep#{step}", begin, self._time))
            self._time += 500

    def _module(self, name: str) -> None:
        begin = self._time
        self._time += 100
        for operator in ("aten::linear", "aten::mul"):
            start = self._time
            for _ in range(self._chance.randint(1, 3)):
                self._time += 10
                inner = self._time
                self._time += 10
                self._allocate((name, operator))
                self._time += 10
                self._slice("cpu_op", "aten::empty", inner, self._time)
                if self.live and self._chance.random() < 0.7:
                    self._time += 10
                    self._free(self._chance.choice(list(self.live)))
            self._time += 10
            self._slice("cpu_op", operator, start, self._time)
        self._time += 100
        self._slice("python_function", f"nn.Module: {name}", begin, self._time)

    def _slice(self, cat: str, name: str, begin: int, end: int) -> None:
        times = {"ts": begin / 1000, "dur": (end - begin) / 1000}
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 5, "tid": 5, **times, "args": {}})

    def _allocate(self, owner: tuple[str, str]) -> None:
        size = self._chance.randint(1, 4_000) * 512
        address = next(one for one in iter(lambda: self._chance.randint(1, 60), None) if one not in self.live)
        self.live[address] = size, owner
        self._row(address, size)
        if self.now > self.peak:
            self.peak, self.peak_at = self.now, self._time
            self.held = Counter()
            for held, one in self.live.values():
                self.held[one] += held

    def _free(self, address: int) -> None:
        size, _ = self.live.pop(address)
        self._row(address, -size)

    def _row(self, address: int, size: int) -> None:
        self.now += size
        self.course.append((self._time, self.now))
        args: dict[str, Any] = {"Bytes": size, "Device Type": 1, "Device Id": 0}
        args |= {"Addr": address} if self._addresses else {}
        args |= {"Total Allocated": self.now, "Total Reserved": 50_000_000} if self._totals else {}
        event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 5, "tid": 5, "s": "t"}
        self.events.append({**event, "ts": self._time / 1000, "args": args})

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": self.events}))
        return path


def only(found: MemoryAnswer) -> MemoryUse:
    (use,) = found.places
    return use


@pytest.mark.parametrize("seed", range(8))
def test_peak_owners_and_what_is_left(tmp_path: Path, seed: int) -> None:
    run = Run(seed)
    use = only(answer(run.write(tmp_path / "run.json")))
    start = min(int(event["ts"] * 1000) for event in run.events)
    assert (use.peak, use.peak_at + start, use.before) == (run.peak, run.peak_at, run.before)
    assert (use.end, use.reserved, use.unused) == (run.now, 50_000_000, 50_000_000 - run.peak)
    assert {(one.module, one.operator): one.bytes for one in use.owners if one.allocations} == dict(run.held)
    assert sum(one.bytes for one in use.owners) == use.peak
    left: Counter[tuple[str, str]] = Counter()
    for size, owner in run.live.values():
        left[owner] += size
    assert {(one.module, one.operator): one.bytes for one in use.leaks} == dict(left)
    assert use.left == left.total()
    last = None
    for (name, begin, end), step in zip(run.steps, use.steps, strict=True):
        until = [value for time, value in run.course if time < end]
        inside = [value for time, value in run.course if begin <= time < end]
        assert (step.label, step.end) == (name, until[-1])
        assert step.peak >= max(inside)
        assert step.growth == (None if last is None else until[-1] - last)
        last = until[-1]


def test_without_totals_it_counts_from_the_first_allocation(tmp_path: Path) -> None:
    run = Run(3, totals=False)
    found = answer(run.write(tmp_path / "run.json"))
    use = only(found)
    assert (use.peak, use.before, use.reserved) == (run.peak - run.before, None, None)
    assert found.notes == ["What was allocated before the trace isn't known: the source has no totals."]


def test_without_addresses_nobody_is_blamed(tmp_path: Path) -> None:
    run = Run(4, addresses=False)
    found = answer(run.write(tmp_path / "run.json"))
    use = only(found)
    assert (use.peak, use.owners, use.left) == (run.peak, [], None)
    assert found.notes == ["Who held memory isn't known: the source has no addresses."]


@pytest.mark.parametrize("out", ["run.parquet", "run.jsonl"])
def test_it_is_the_same_after_a_conversion(tmp_path: Path, out: str) -> None:
    path = Run(5).write(tmp_path / "run.json")
    ktrace.convert(path, tmp_path / out)
    one, other = only(answer(path)), only(answer(tmp_path / out))
    assert (one.peak, one.owners, one.leaks, one.steps) == (other.peak, other.owners, other.leaks, other.steps)


def test_owners_become_counters_of_the_timeline(tmp_path: Path) -> None:
    """The last value of each owner is what it leaves, and the sum of all at the peak what is held then."""
    run = Run(6)
    out = tmp_path / "run.parquet"
    ktrace.convert(run.write(tmp_path / "run.json"), out, explain=["memory"])
    series: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in ktrace.read(out).frame("events").to_dict("records"):
        if row["kind"] == "counter" and str(row["name"]).startswith("held by "):
            series[row["name"]].append((row["ts"], row["value"]))
    left: Counter[str] = Counter()
    for size, (module, operator) in run.live.values():
        left[f"held by {module} {operator}"] += size
    assert {name: sorted(rows)[-1][1] for name, rows in series.items()} == {name: left[name] for name in series}
    assert len(series) == 6


def test_snapshots_of_pytorch_name_the_frame() -> None:
    found = answer(SAMPLES / "torch-memory" / "two-devices-earlier-allocations-oom.pickle")
    first = found.places[0]
    assert (first.label, first.peak) == ("device 0", 8_192 + 512 + 1_536 - 512 - 1_536 + 3_145_728 + 1_536)
    assert "forward (/app/model.py:40)" in [one.frame for one in first.owners], "torch/nn isn't the program"


def test_nsys_tells_kinds_of_memory_apart() -> None:
    """All allocations of the sample have one address, so the last free of it frees the last allocation."""
    found = answer(SAMPLES / "nsys" / "schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite")
    assert {use.label: (use.peak, use.left) for use in found.places} == {
        "device 0 Device": (4_096 + 1_024, 0),
        "device 0 Pinned": (512, 512),
    }


def test_categories_of_a_memory_timeline() -> None:
    use = only(answer(SAMPLES / "kineto" / "memory-timeline-by-category.json"))
    assert use.owners[0].category == "activation"
    assert sum(one.bytes for one in use.owners) == use.peak


def test_a_snapshot_without_times_tells_what_is_held() -> None:
    path = SAMPLES / "torch-memory" / "no-times-as-json.json"
    document = json.loads(path.read_text())
    blocks = [block for segment in document["segments"] for block in segment["blocks"]]
    held = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    found = answer(path)
    use = only(found)
    assert (use.label, use.peak, use.peak_at, use.end) == ("device 0", held, None, held)
    assert use.reserved == sum(segment["total_size"] for segment in document["segments"])
    assert use.unused == use.reserved - held
    assert [(one.frame, one.bytes) for one in use.owners] == [("forward (/app/model.py:40)", held)]
    assert found.notes == ["no-times-as-json is a snapshot: its peak is what was held when it was taken."]


def test_what_a_profile_of_memory_tells_is_held_by_the_innermost_frame_of_the_users_own(tmp_path: Path) -> None:
    """The frames of JAX itself are in an installed package."""
    use = only(answer(JAX))
    assert [(one.frame, one.bytes, one.allocations) for one in use.owners] == [
        ("<module> (train.py:10)", 1_048_576, 1),
        ("make (train.py:20)", 262_144, 1),
    ]
    assert (use.label, use.peak, use.reserved) == ("cpu:0", 1_048_576 + 262_144, None)
    row = {"record": "summary", "source": "run", "kind": "alloc", "name": "__call__", "metric": "space", "unit": "B"}
    scope = ["main (/app/run.py:3)", "ones (/env/lib/python3.11/site-packages/jax/_src/numpy/array.py:7)"]
    inner = {"frame": "__call__ (/env/lib/python3.11/site-packages/jax/_src/ufunc.py:1)"}
    lines: list[dict[str, Any]] = [{"ktrace": "1.0"}, row | {"id": 0, "total": 64.0, "scope": scope, "args": inner}]
    (tmp_path / "run.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert [(one.frame, one.bytes) for one in only(answer(tmp_path / "run.jsonl")).owners] == [(scope[0], 64)]


def test_a_source_with_a_history_is_no_snapshot() -> None:
    found = answer(SAMPLES / "torch-memory" / "two-devices-earlier-allocations-oom.pickle")
    assert all(use.peak_at is not None for use in found.places)
    assert not any("snapshot" in note for note in found.notes)


#: In a page of trace_plot: 16 frames of C++ without a file around those of the program, no action of a segment.
PAGE = SAMPLES / "torch-memory" / "stacks-of-c++-in-a-page.html"


def test_the_owner_is_a_frame_of_the_program_and_what_is_reserved_is_that_of_the_segments() -> None:
    use = only(answer(PAGE))
    assert [(one.frame, one.bytes) for one in use.owners] == [
        ("step (/app/optim.py:99)", 3_145_728),
        ("forward (/app/model.py:41)", 1_048_576),
        ("", 512),
    ]
    assert (use.peak, use.reserved, use.unused) == (4_194_816, 20_971_520, 16_776_704)


def test_a_snapshot_says_what_was_held_at_most_and_who_held_it() -> None:
    found = ktrace.summary(PAGE, by=["operation"])
    assert found.verdict == [
        "Device 0 held at most 4.2 MB of the 21.0 MB that are reserved; "
        "step (/app/optim.py:99) held the most of it: 3.1 MB, 75.0%."
    ]
    facts = {one.code: (one.value, one.whole, one.unit) for one in found.findings}
    assert facts == {
        "memory.peak": (4_194_816, 20_971_520, "B"),
        "memory.owner": (3_145_728, 4_194_816, "B"),
    }
    assert {"memory", "memory owners"} <= {table.name for table in found.tables(["operation"])}
    assert not any("nothing to add up" in note for note in found.notes)
    assert ktrace.summary(JAX, by=["operation"]).verdict[0].startswith("Cpu:0 held at most 1.3 MB; <module> (train.py:")


def test_memory_beside_device_work_is_no_first_sentence() -> None:
    assert "memory" not in ktrace.summary(KINETO, by=["operation"]).proofs
    assert not any(one.code.startswith("memory") for one in ktrace.summary(KINETO).findings)
    assert not any("held at most" in one for one in ktrace.summary(GO).verdict)


def test_tables_of_a_snapshot_are_that_snapshot() -> None:
    use = only(answer(SAMPLES / "torch-memory" / "dumped-as-tables.sqlite"))
    assert (use.peak, use.reserved, use.end, use.left) == (3_072, 2_097_152, 2_048, 2_048)
    assert [(one.frame, one.bytes) for one in use.owners] == [("forward (/app/model.py:41)", 3_072)]


def test_an_input_with_nothing_to_add_up_says_how_to_record_what_is_asked_for() -> None:
    assert any(
        note.startswith("This input has no request information. ") for note in ktrace.summary(JAX, by="request").notes
    )
    assert not any("information" in note for note in ktrace.summary(JAX, by="memory").notes)


def test_an_input_without_memory_says_how_to_record_it() -> None:
    summary = ktrace.summary(SAMPLES / "kineto" / "one-step-of-training.pt.trace.json", by=["memory", "phase"])
    (note,) = [one for one in summary.notes if one.startswith("This input has no memory or phase information. ")]
    assert "profile_memory=True" in note and "--cuda-memory-usage=true" in note
    assert "name the range of each batch" in note
    assert not any("profile_memory" in note for note in ktrace.summary(KINETO, by=["memory"]).notes)
    usual = CliRunner().invoke(cli, ["summary", str(SAMPLES / "ncu" / "summaries-of-2022-and-per-gpu.txt")])
    assert "nsys --trace=cuda" not in usual.output


def test_in_every_form(tmp_path: Path) -> None:
    path = Run(7).write(tmp_path / "run.json")
    for form in ("text", "csv", "md", "json"):
        owners = ["--tables", "memory_owners"] if form == "csv" else []  # one table, else the first
        result = CliRunner().invoke(cli, ["summary", str(path), "--by", "memory", "--format", form, *owners])
        assert result.exit_code == 0
        assert "aten::linear" in result.stdout
    page = tmp_path / "page.html"
    assert CliRunner().invoke(cli, ["summary", str(path), "--by", "memory", "-o", str(page)]).exit_code == 0
    assert "what the allocator has reserved" in page.read_text()
