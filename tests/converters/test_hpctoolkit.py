"""HPCToolkit's databases against arithmetic over their bytes by `struct`, and figures of the writer of the sample."""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from conftest import SAMPLES
from hpctoolkit_samples import METRICS, START, Context, meta, profiles, sample, traces, write

import ktrace
from ktrace.converters.hpctoolkit import probe
from ktrace.errors import DamagedInput, UnknownFormat
from ktrace.input.detection import detect
from ktrace.input.format import Score
from ktrace.input.source import Sample, Source
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.trace.trace import Trace

MADE = SAMPLES / "hpctoolkit" / "a-thread-and-two-gpu-streams"

#: A database of hpcgroup/pipit, of a run on two ranks. Another, of a run on GPUs, is too big to be kept: hatchet's
#: hpctoolkit-gamess, read where this variable says.
REAL = [SAMPLES / "real/corpus/hpctoolkit/ping-pong"]
REAL += [Path(folder) for folder in filter(None, [os.environ.get("KTRACE_HPCTOOLKIT")])]


def totals(trace: Trace) -> dict[tuple[str, str], float]:
    """The sums of all rows that add up, by kind and metric."""
    rows = trace.summaries[trace.summaries.kind != "total"]
    sums = rows.groupby(["kind", "metric"], observed=True).total.sum()
    return {(str(kind), str(metric)): total for (kind, metric), total in sums.items()}


def stated(folder: Path) -> tuple[dict[str, float], list[tuple[int, int, list[tuple[int, int]]]]]:
    """Inclusive values of all threads by metric, and the samples of trace lines, each with its profile."""
    meta_db, prof = (folder / "meta.db").read_bytes(), (folder / "profile.db").read_bytes()
    at, count, size, instance = struct.unpack_from("<QIBB", meta_db, struct.unpack_from("<Q", meta_db, 0x38)[0])
    execution: dict[int, str] = {}
    for metric in range(at, at + count * size, size):
        name, instances, _, number = struct.unpack_from("<QQQH", meta_db, metric)
        for place in range(instances, instances + number * instance, instance):
            scope, one = struct.unpack_from("<QH", meta_db, place)
            if struct.unpack_from("<QB", meta_db, scope)[1] == 2:
                execution[one] = meta_db[name : meta_db.index(b"\0", name)].decode()
    sums: Counter[str] = Counter()
    at, count, size = struct.unpack_from("<QIB", prof, struct.unpack_from("<Q", prof, 0x18)[0])
    for profile in range(at, at + count * size, size):
        _, values, contexts, index, _, flags = struct.unpack_from("<QQIxxxxQQI", prof, profile)
        if flags & 1 or not contexts:
            continue
        first, second = (struct.unpack_from("<IQ", prof, index + 12 * number) for number in (0, min(1, contexts - 1)))
        assert first[0] == 0, "the context of all"
        for number in range(first[1], second[1]):
            metric, value = struct.unpack_from("<Hd", prof, values + 10 * number)
            if metric in execution:
                sums[execution[metric]] += value
    lines = []
    if (folder / "trace.db").exists():
        data = (folder / "trace.db").read_bytes()
        at, count, size = struct.unpack_from("<QIB", data, struct.unpack_from("<Q", data, 0x18)[0])
        for header in range(at, at + count * size, size):
            profile, begin, end = struct.unpack_from("<IxxxxQQ", data, header)
            lines.append((profile, count, list(struct.iter_unpack("<QI", data[begin:end]))))
    return dict(sums), lines


@pytest.mark.parametrize("folder", [MADE, *REAL], ids=lambda path: path.name)
def test_what_contexts_have_of_their_own_adds_up_to_the_whole(folder: Path) -> None:
    found, (sums, _) = totals(ktrace.read(folder)), stated(folder)
    kinds = {"GKER": "kernel", "GXCOPY": "memcpy"}
    for name, total in sums.items():
        own, _, unit = name.partition(" ")
        if own in kinds and unit:
            assert found[kinds[own], "duration"] == pytest.approx(total * 1e9, rel=1e-12)
        elif own in ("CPUTIME", "REALTIME"):
            assert found["sample", own] == pytest.approx(total * 1e9, rel=1e-12)
    assert any(name.startswith(("CPUTIME", "REALTIME")) for name in sums)


@pytest.mark.parametrize("folder", REAL, ids=lambda path: path.name)
def test_samples_of_threads_last_until_the_next_one(folder: Path) -> None:
    _, lines = stated(folder)
    rows, last = [], 0
    for _, _, samples in lines:
        times = [ts for ts, _ in samples]
        rows += [(ts, one) for ts, one in samples if one]
        last += sum(after - ts for (ts, one), after in zip(samples, times[1:], strict=False) if one)
    events = ktrace.read(folder).events
    assert sorted(events.ts) == sorted(ts for ts, _ in rows)
    assert int(events.value.sum()) == last


def test_the_real_run_of_two_ranks() -> None:
    trace = ktrace.read(REAL[0])
    assert len(trace.events) == 44
    assert sorted(set(trace.events.pid)) == [0, 1]
    assert set(trace.events.host) == {"a8c02780"}
    assert totals(trace) == {("sample", "CPUTIME"): pytest.approx(262_070_000)}
    assert not trace.report.issues
    stack = trace.catalog[(trace.catalog.entity == "stack") & (trace.catalog.name == "1")].facts.iloc[0]
    assert '"main thread","main"' in stack
    assert '"__GI_process_vm_readv [libc-2.17.so] (src/usr/src/debug/' in stack


def test_work_of_gpu_streams() -> None:
    """hpcrun writes idle 1 ns after the end; older versions write the start alone, newer ones start and end."""
    events = ktrace.read(MADE).events
    assert set(events[events.stream.notna()].context) == {1}
    threads = events[events.stream.isna()]
    assert threads[["pid", "tid"]].values.tolist() == [[3, 0]] * 5
    assert threads.context.isna().all()
    work = events[events.stream.notna()].astype(object)
    rows = (
        work[["kind", "name", "device", "stream", "ts", "dur", "copy_kind"]].where(work.notna(), None).values.tolist()
    )
    kernel = ["kernel", "saxpy(int, float, float*)", 1]
    copy = ["memcpy", "<gpu copyin>", 1]
    assert rows == [
        [*copy, 7, START + 12_000, 2_500, "HtoD"],
        *([*kernel, 7, START + at, 4_000, None] for at in (20_000, 24_001, 30_000)),
        [*copy, 9, START + 13_000, 1_000, "HtoD"],
        [*kernel, 9, START + 14_000, 2_000, None],
        ["range", "cudaMemcpyAsync [libcudart.so]", 1, 9, START + 16_000, None, None],
    ]


def test_a_line_has_what_its_instructions_have() -> None:
    """Contexts 8, 13 and 14 aren't in the tree."""
    trace = ktrace.read(MADE)
    rows = trace.summaries[trace.summaries.kind == "sample"]
    assert [json.loads(args).get("frame") for args in rows.args.dropna()] == [
        "loop at src/app.c:20 (src/app.c:21)",
        "loop at src/app.c:20 (src/app.c:22)",
    ]
    assert rows.total.tolist() == [15e6, 5e6, 10e6]
    kernels = trace.summaries[(trace.summaries.kind == "kernel")]
    assert kernels[["name", "metric", "unit", "count", "total"]].values.tolist() == [
        ["<gpu kernel>", "duration", "ns", 3, 12_000]
    ]
    assert kernels.scope.iloc[0][-1] == "cudaLaunchKernel [libcudart.so]"
    inclusive = trace.summaries[(trace.summaries.name == "main thread") & (trace.summaries.metric == "CPUTIME")]
    assert (inclusive.kind.item(), inclusive.total.item()) == ("total", 30e6)


def test_every_value_and_sample_is_accounted_for() -> None:
    """Values: those of the file; samples: 7 of the thread, 11 and 3 of the streams."""
    prof = (MADE / "profile.db").read_bytes()
    at, count, size = struct.unpack_from("<QIB", prof, struct.unpack_from("<Q", prof, 0x18)[0])
    values = sum(struct.unpack_from("<Q", prof, profile)[0] for profile in range(at, at + count * size, size))
    report = ktrace.read(MADE).report
    assert report.reader.taken == values + 21
    assert report.reader.balanced()
    assert report.reader.removed["end of a slice"] == 2 + 6 + 1
    assert not report.issues


def test_summary_counts_samples_once() -> None:
    """A database has the samples as events and their sums as tables."""
    summary = ktrace.summary(REAL[0])
    assert (summary.work, summary.total, summary.count) == ("samples", 251_894_000, 42)


def test_only_a_folder_of_a_database_is_one(tmp_path: Path) -> None:
    files = ("FORMATS.md", "cct.db", "meta.db", "profile.db", "src/app.c", "trace.db")
    match = probe(Sample("app", listing=files))
    assert match and match.score == Score.DIALECT
    assert probe(Sample("app", listing=("meta.db", "profile.db", "trace.db"))) is None
    assert detect(MADE)[0].format == "hpctoolkit"
    with pytest.raises(UnknownFormat, match="name the folder"):
        ktrace.read(MADE / "trace.db")
    near = probe(Source(str(MADE / "cct.db")).sample())
    assert near and near.score == Score.NEAR


def test_a_database_without_traces(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(MADE, tmp_path / "run"))
    (folder / "trace.db").unlink()
    trace = ktrace.read(folder)
    assert len(trace.events) == 0
    assert totals(trace) == totals(ktrace.read(MADE))


@pytest.mark.parametrize(
    ("name", "at", "data", "message"),
    [
        ("meta.db", 14, b"\5", "version 5.0"),
        ("meta.db", 10, b"prof", "isn't a file of HPCToolkit"),
        ("meta.db", 0x38, b"\xff" * 8, "refers to"),
        ("profile.db", 14, b"\3", "version 3.0"),
        ("profile.db", 0x18, b"\xff" * 7 + b"\x7f", "refers to"),
    ],
)
def test_what_is_needed_and_damaged_is_refused(name: str, at: int, data: bytes, message: str, tmp_path: Path) -> None:
    files = sample()
    files[name] = files[name][:at] + data + files[name][at + len(data) :]
    folder, out = write(tmp_path / "run", files), tmp_path / "out.parquet"
    with pytest.raises(DamagedInput, match=message) as caught:
        ktrace.convert(folder, out)
    assert str(caught.value.path).endswith(name)
    assert caught.value.remedy == "run hpcprof again"
    assert not out.exists()


def test_damaged_traces_are_left_out_and_profiles_read(tmp_path: Path) -> None:
    files = sample()
    files["trace.db"] = files["trace.db"][:40]
    trace = ktrace.read(write(tmp_path / "cut", files))
    assert trace.report.issues["bad-file"].rows == 1
    assert totals(trace) == totals(ktrace.read(MADE))
    files["trace.db"] = traces({9: [(START, 3)], 1: [(START + 5, 3), (START, 7), (1 << 63, 7), (START, 0)]})
    report = ktrace.read(write(tmp_path / "odd", files)).report
    assert report.balanced()
    # A line of a profile that isn't there; a sample after the next one; a time far beyond, and the one before it.
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {
        "bad-record": 1,
        "negative-duration": 1,
        "time-range": 2,
    }


def test_values_that_make_no_sense_are_reported(tmp_path: Path) -> None:
    files = sample()
    thread = {"NODE": 1, "THREAD": 0}
    values = {
        0: {3: 2.0},
        1: {3: 2.0},
        2: {3: 2.0},
        3: {3: math.nan, 2: 1.0},
        6: {3: 2.0},
        7: {3: 2.0, 999: 1.0},
        77: {0: 2.0},
    }
    files["profile.db"] = profiles([({}, {}), (thread, values), (thread, values)])
    data = bytearray(files["profile.db"])
    at = data.index(struct.pack("<IQ", 7, 6), data.index(struct.pack("<IQ", 7, 6)) + 1)
    data[at + 4 : at + 12] = struct.pack("<Q", 77)  # the second profile's contexts
    files["profile.db"] = bytes(data)
    del files["trace.db"]
    trace = ktrace.read(write(tmp_path / "run", files))
    assert trace.report.balanced()
    assert [(place.split(": ")[1], why.split(",")[0]) for place, why in trace.report.issues["bad-record"].places] == [
        ("profile 1", "values of no metric"),
        ("profile 2", "its values don't belong to its contexts"),
    ]
    assert trace.report.issues["bad-record"].rows == 3
    own = trace.summaries[trace.summaries.kind == "sample"]
    assert own[["name", "total"]].values.tolist() == [["main", 2e9]]


def test_contexts_that_contain_themselves_or_are_very_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.converters.hpctoolkit.database._DEEPEST", 10)
    files = sample()
    chain: tuple[Context, ...] = ()
    for number in range(50, 1, -1):
        chain = (Context(number, 0, f"f{number}", relation=1, children=chain),)
    files["meta.db"] = meta(METRICS, {(1, "main thread"): chain}, "deep")
    files["trace.db"] = traces({1: [(START, 50), (START + 9, 0)]})
    trace = ktrace.read(write(tmp_path / "deep", files))
    (facts,) = trace.catalog[trace.catalog.entity == "stack"].facts
    assert facts.count('"f') == 10 + 1  # and the key `frames`
    assert trace.events.name.tolist() == ["f50"]
    data = bytearray(files["meta.db"])
    section = struct.unpack_from("<Q", data, 0x48)[0]
    entry = struct.unpack_from("<Q", data, section)[0]
    _, first = struct.unpack_from("<QQ", data, entry)
    struct.pack_into("<QQ", data, first, 40, first)
    files["meta.db"] = bytes(data)
    with pytest.raises(DamagedInput, match="contexts that overlap"):
        ktrace.read(write(tmp_path / "loop", files))


def test_a_context_of_a_trace_that_the_tree_does_not_have(tmp_path: Path) -> None:
    files = sample()
    files["trace.db"] = traces({1: [(START, 99), (START + 5, 0)]})
    trace = ktrace.read(write(tmp_path / "run", files))
    assert trace.events[["name", "value"]].values.tolist() == [["[context 99]", 5]]
    assert trace.report.issues["missing-string"].rows == 1


def test_memory_does_not_grow_with_samples(tmp_path: Path) -> None:
    files, peaks = sample(), []
    for count in (20_000, 60_000):
        files["trace.db"] = traces({1: [(START + 10 * number, 3 + number % 2 * 4) for number in range(count)]})
        folder = write(tmp_path / str(count), files)
        tracemalloc.start()
        for _ in read_batches([str(folder)], Report(), batch_rows=500):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
