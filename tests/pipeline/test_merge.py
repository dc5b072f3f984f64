"""Several inputs in one output: their rows, labels, times and clocks, and what is refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import SAMPLES, SHARED
from fork_server import program
from ranks import batches, collective

import ktrace
from ktrace.errors import InputError, UsageError
from ktrace.model.batch import Batch
from ktrace.report import Report
from ktrace.stages.align import Align, aligned

RANKS = [SAMPLES / "kineto" / f"collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
NSYS = SAMPLES / "nsys" / "schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite"
DOPPLER = SAMPLES / "doppler" / "prefill-and-three-decodes.log"
REAL = SHARED / "corpus" / "pytorch_kineto" / "nccl_data.json.gz"


def rows(path: Path, record: str = "event") -> list[dict[str, Any]]:
    """The rows of one record of a Parquet file, in order of source and id, by pyarrow; the catalog is in its footer."""
    if record == "catalog":
        found = json.loads(pq.read_metadata(path).metadata[b"ktrace.catalog"])
        return sorted(found, key=lambda row: (row["source"], row["id"]))
    table = pq.read_table(path).to_pylist()
    return sorted((row for row in table if row["record"] == record), key=lambda row: (row["source"], row["id"]))


def kineto(path: Path, *, base: int | None = None, late: bool = False, rank: int = 0, **head: Any) -> Path:
    """The sample of rank 0 with another base of its times, which may stand behind the events."""
    document = json.loads(RANKS[0].read_text())
    known = document.pop("baseTimeNanoseconds")
    base = known if base is None else base
    document["distributedInfo"]["rank"] = rank
    document |= head
    first = {} if late or base < 0 else {"baseTimeNanoseconds": base}
    document = first | document | ({"baseTimeNanoseconds": base} if late else {})
    path.write_text(json.dumps(document))
    return path


def times(path: Path, tmp_path: Path) -> list[tuple[str, int, int | None]]:
    """Name, ts and dur of the events of an input alone."""
    alone = tmp_path / "alone.parquet"
    ktrace.convert(path, alone, overwrite=True)
    return [(row["name"], row["ts"], row["dur"]) for row in rows(alone)]


@pytest.mark.parametrize("late", [False, True])
def test_unix_time_moves_all_but_the_first(late: bool, tmp_path: Path) -> None:
    base = 1_724_000_000_000_000_000
    a, b = kineto(tmp_path / "a.json"), kineto(tmp_path / "b.json", base=base + 987_654_321, late=late, rank=1)
    report = ktrace.merge([a, b], tmp_path / "out.parquet")
    assert report.balanced()
    assert [(said["source"], said["rule"], said["offset_ns"]) for said in report.alignment] == [
        ("a", "reference", 0),
        ("b", "unix", 987_654_321),
    ]
    found = rows(tmp_path / "out.parquet")
    for source, offset in (("a", 0), ("b", 987_654_321)):
        moved = [(row["name"], row["ts"] - offset, row["dur"]) for row in found if row["source"] == source]
        assert moved == times(tmp_path / f"{source}.json", tmp_path)


def test_rows_that_wait_on_disk_stay_what_they_are_when_other_sources_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each source waits for its anchor, one after the other, while what was given on is still looked at."""
    monkeypatch.setattr("ktrace.stages.align.SPILL_BYTES", 0)

    def sources() -> Iterator[Batch]:
        for number in range(4):
            ends = [1_000_000 * number + 100_000 * end for end in range(1, 200)]
            facts = {"entity": "clock", "source": f"r{number}", "id": 0, "name": "own"}
            anchor = {"facts": json.dumps({"at_ns": 0, "unix_ns": 7_000 * number})}
            yield from batches([collective(f"r{number}", at, end) for at, end in enumerate(ends)], [facts | anchor])

    given = [batch for batch in aligned(sources(), Align("auto"), Report()) if batch.record == "events"]
    found = [(row["source"], row["id"], row["ts"]) for batch in given for row in batch.columns.to_pylist()]
    assert sorted(found) == [
        (f"r{number}", at, 1_000_000 * number + 100_000 * (at + 1) - 50_000 + 7_000 * number)
        for number in range(4)
        for at in range(199)
    ]


def test_anchors_agree_afterwards_and_merging_again_moves_nothing(tmp_path: Path) -> None:
    for align in ("unix", "collective", "marker ProfilerStep#7"):
        out, again = tmp_path / "out.parquet", tmp_path / "again.parquet"
        ktrace.merge(RANKS, out, align=align, overwrite=True)
        clocks = ktrace.read(out).catalog.query("entity == 'clock'").facts.map(json.loads)
        assert len({facts["unix_ns"] - facts["at_ns"] for facts in clocks}) == 1
        report = ktrace.merge([out], again, align="unix", overwrite=True)
        assert [said["offset_ns"] for said in report.alignment] == [0, 0]
        assert rows(again) == rows(out)


def test_collectives_correct_a_clock_that_is_ahead(tmp_path: Path) -> None:
    """Rank 1 of the sample is 37.25 us ahead of the unix time that it says; its all-reduces end within 0.41 us."""
    report = ktrace.merge(RANKS, tmp_path / "out.parquet", align="collective")
    said = report.alignment[1]
    assert said["matched"] == 6
    assert abs(said["offset_ns"] - (1_500_000 - 37_250)) < 100
    assert said["residual_p95_ns"] < 500
    ends: dict[int, list[int]] = {}
    for row in rows(tmp_path / "out.parquet"):
        if row["comm_seq"] is not None:
            ends.setdefault(row["comm_seq"], []).append(row["ts"] + row["dur"])
    assert all(abs(first - second) < 500 for first, second in ends.values())


def test_a_marker_begins_at_one_time_and_offsets_come_on_top(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    report = ktrace.merge(RANKS, out, align="marker ProfilerStep#*", offsets={str(RANKS[1]): "+1.5ms"})
    first, second = (row["ts"] for row in rows(out) if row["name"] == "ProfilerStep#7")
    assert second - first == 1_500_000
    assert report.alignment[1]["extra_ns"] == 1_500_000


@pytest.mark.parametrize("name", [str(RANKS[1]), RANKS[1].name, "collectives-of-two-ranks-rank1"])
def test_an_offset_is_by_path_name_or_label(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    ktrace.merge(RANKS, out, align="none", offsets={name: -2_000})
    moved = [(row["name"], row["ts"] + 2_000, row["dur"]) for row in rows(out) if row["source"].endswith("rank1")]
    assert moved == times(RANKS[1], tmp_path)


def test_links_and_counters_move_with_their_rows(tmp_path: Path) -> None:
    sample = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"
    out, alone = tmp_path / "out.parquet", tmp_path / "alone.parquet"
    ktrace.convert(sample, alone)
    ktrace.merge([RANKS[0], sample], out, offsets={str(sample): 7}, align="none")
    for record in ("event", "link"):
        mine = [row for row in rows(out, record) if row["source"].startswith("one-step")]
        assert [row["ts"] for row in mine] == [row["ts"] and row["ts"] + 7 for row in rows(alone, record)]
        assert [{**row, "ts": 0} for row in mine] == [{**row, "ts": 0} for row in rows(alone, record)]


def test_labels_of_canonical_inputs_are_told_apart(tmp_path: Path) -> None:
    first, second, out = (tmp_path / name for name in ("x.parquet", "y.jsonl", "out.parquet"))
    for path in (first, second):
        ktrace.convert(RANKS[0], path)
    report = ktrace.merge([first, second, RANKS[0]], out)
    label = "collectives-of-two-ranks-rank0"
    labels = [label, f"{label}#2", f"{label}#3"]
    assert report.issues["relabelled"].places[0] == (str(second), f"{label} is now {label}#2")
    trace = ktrace.read(out)
    for frame in (trace.events, trace.catalog):
        assert sorted(set(frame.source)) == labels
    same = [
        [{**row, "source": ""} for row in rows(out, record) if row["source"] == one]
        for record in ("event", "link", "catalog")
        for one in labels
    ]
    assert same[0] == same[1] == same[2]
    assert same[3] == same[4] == same[5]
    assert len(same[0]) == 25
    assert report.balanced()


def test_a_copy_beside_a_file_and_one_alone(tmp_path: Path) -> None:
    copy = tmp_path / RANKS[0].name
    copy.write_bytes(RANKS[0].read_bytes())
    report = ktrace.merge([RANKS[0], copy], tmp_path / "two.parquet")
    assert [said["source"][-2:] for said in report.alignment] == ["k0", "#2"]
    assert len(rows(tmp_path / "two.parquet")) == 50
    report = ktrace.merge([RANKS[0], RANKS[0]], tmp_path / "once.parquet")
    assert report.issues["same-run"].places == [(str(RANKS[0]), "is given twice")]
    assert len(rows(tmp_path / "once.parquet")) == 25
    ktrace.merge([RANKS[0]], tmp_path / "one.parquet")
    assert [(row["name"], row["ts"], row["dur"]) for row in rows(tmp_path / "one.parquet")] == times(RANKS[0], tmp_path)


def test_sources_of_different_days_are_said_to_be_far_apart(tmp_path: Path) -> None:
    """An offset of an hour between traces of 3 ms; nobody would find them on one timeline."""
    near = ktrace.merge(RANKS, tmp_path / "near.parquet")
    far = ktrace.merge(RANKS, tmp_path / "far.parquet", offsets={RANKS[1].name: "3600s"})
    assert "times-apart" not in near.issues
    assert [where for where, _ in far.issues["times-apart"].places] == [RANKS[1].stem]
    begins = {
        source: [row for row in rows(tmp_path / "far.parquet") if row["source"] == source]
        for source in (RANKS[0].stem, RANKS[1].stem)
    }
    gap = min(row["ts"] for row in begins[RANKS[1].stem]) - max(row["ts"] + row["dur"] for row in begins[RANKS[0].stem])
    assert str(gap // 10**9) in far.issues["times-apart"].places[0][1]


def test_other_formats_are_placed_by_unix_time_or_by_their_begin(tmp_path: Path) -> None:
    """nsys says unix time, as Kineto does; Doppler's log counts from the start of a page."""
    out = tmp_path / "out.parquet"
    report = ktrace.merge([RANKS[0], NSYS, DOPPLER], out)
    rules = {said["source"]: said["rule"] for said in report.alignment}
    assert list(rules.values()) == ["reference", "unix", "begin"]
    assert report.issues["begin-guessed"].places[0][0] == DOPPLER.stem
    begins = {source: min(row["ts"] for row in rows(out) if row["source"] == source) for source in rules}
    assert begins[DOPPLER.stem] == begins[RANKS[0].stem]
    facts = {
        row["source"]: row["facts"]
        for row in rows(out, "catalog")
        if row["entity"] == "clock" and "unix_ns" in row["facts"]
    }
    said = json.loads(ktrace.read(NSYS).catalog.query("entity == 'clock'").facts.iloc[0])
    base = 1_724_000_000_000_000_000
    assert report.alignment[1]["offset_ns"] == said["unix_ns"] - said["at_ns"] - base
    assert {known["unix_ns"] - known["at_ns"] for known in facts.values()} == {base}


def test_what_begins_without_a_clock_first_is_followed_by_those_that_have_one(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    report = ktrace.merge([DOPPLER, *RANKS], out)
    assert [said["rule"] for said in report.alignment] == ["reference", "begin", "unix"]
    offsets = [said["offset_ns"] for said in report.alignment]
    assert offsets[2] - offsets[1] == 1_500_000
    begins = [min(row["ts"] for row in rows(out) if row["source"] == said["source"]) for said in report.alignment]
    assert begins[0] == begins[1]


def test_a_part_is_taken_after_the_clocks_were_brought_together(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    report = ktrace.merge(
        RANKS, out, align="collective", crop=ktrace.Crop(time="0.55ms..0.56ms"), filter=ktrace.Filter(kinds=["kernel"])
    )
    assert report.balanced()
    assert [stage.stage for stage in report.stages[:3]] == ["align", "crop", "filter"]
    assert {(row["source"][-1], row["comm_seq"]) for row in rows(out)} == {("0", 3), ("1", 3)}


@pytest.mark.parametrize(
    ("align", "offsets", "error", "words"),
    [
        ("sideways", {}, UsageError, "there is no alignment 'sideways'"),
        ("marker", {}, UsageError, "a marker is for"),
        ("unix marker", {}, UsageError, "a marker is for"),
        ("marker nothing*", {}, InputError, "no event is called 'nothing*'"),
        ("marker 2*", {}, InputError, "no event is called"),
        ("auto", {"nobody.json": 5}, UsageError, "there is no input 'nobody.json'"),
        ("auto", {"rank": "5 parsecs"}, UsageError, "isn't a unit of time"),
        ("auto", {"rank": 1.5}, UsageError, "isn't an offset"),
    ],
)
def test_wrong_wishes(align: str, offsets: dict[str, Any], error: type, words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=words.replace("*", r"\*")):
        ktrace.merge(RANKS, tmp_path / "out.parquet", align=align, offsets=offsets)
    assert list(tmp_path.iterdir()) == []


def test_sources_that_can_not_be_aligned_as_wanted(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    with pytest.raises(InputError, match=f"no clock of {DOPPLER.stem} has an anchor to unix time"):
        ktrace.merge([RANKS[0], DOPPLER], out, align="unix")
    with pytest.raises(InputError, match="too few collectives"):
        ktrace.merge([RANKS[0], DOPPLER], out, align="collective")
    with pytest.raises(InputError, match=f"no event is called 'ProfilerStep#7', in {DOPPLER.stem}; .*rank0 has it"):
        ktrace.merge([RANKS[0], DOPPLER], out, align="marker ProfilerStep#7")
    assert not out.exists()


def test_traces_merge_in_memory(tmp_path: Path) -> None:
    one, two = (ktrace.read(path) for path in RANKS)
    both = one.merge(two, align="collective")
    ktrace.merge(RANKS, tmp_path / "out.parquet", align="collective")
    assert both.report.balanced()
    frame = both.events.sort_values(["source", "id"])
    assert frame.ts.tolist() == [row["ts"] for row in rows(tmp_path / "out.parquet")]
    twice = one.merge(one)
    assert sorted(set(twice.events.source)) == [RANKS[0].stem, f"{RANKS[0].stem}#2"]


def test_drift_moves_begins_and_ends_and_the_clock_says_so(tmp_path: Path) -> None:
    paths = []
    for name, ppm in (("a", 0), ("b", 100)):
        found = [
            collective(name, number, 10**9 + number * 10**6 + round((10**9 + number * 10**6) * ppm / 10**6), comm="0")
            | {"comm_seq": number}
            for number in range(1, 101)
        ]
        anchor = [{"source": name, "id": 0, "entity": "clock", "facts": '{"kind":"unix","at_ns":0,"unix_ns":5}'}]
        path = tmp_path / f"{name}.parquet"
        ktrace.Trace(batches(found, anchor)).write(path)
        paths.append(path)
    report = ktrace.merge(paths, tmp_path / "out.parquet", align="collective")
    said = report.alignment[1]
    assert said["drift_ppm"] == pytest.approx(-100, abs=0.05)
    mine = [row for row in rows(tmp_path / "out.parquet") if row["source"] == "b"]
    for number, row in enumerate(mine, 1):
        assert abs(row["ts"] + row["dur"] - (10**9 + number * 10**6)) <= 1
        assert row["dur"] in (49_995, 49_994, 49_996)
    clocks = [row["facts"] for row in rows(tmp_path / "out.parquet", "catalog") if row["entity"] == "clock"]
    assert {clock["unix_ns"] - clock["at_ns"] for clock in clocks} == {5}


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [program(), "merge", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_the_command_says_what_it_did_with_each_source(tmp_path: Path) -> None:
    out, account = tmp_path / "out.parquet", tmp_path / "account.json"
    done = command(*RANKS, "-o", out, "--align", "marker", "ProfilerStep#7", "--offset", f"{RANKS[1].name}=+2us",
                   "--report", account)  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second, last, _ = done.stderr.splitlines()
    assert first == "collectives-of-two-ranks-rank0: reference clock"
    assert second.startswith("collectives-of-two-ranks-rank1: +1.")
    assert second.endswith("by the marker, plus +2us from --offset")
    assert last == f"{out}: read 56 records, wrote 50 rows, repaired 0, skipped 0"
    said = json.loads(account.read_text())
    assert said["balanced"]
    assert [one["rule"] for one in said["alignment"]] == ["reference", "marker"]
    folder = tmp_path / "ranks"
    folder.mkdir()
    for path in RANKS:
        (folder / path.name).write_bytes(path.read_bytes())
    done = command(folder, "-o", tmp_path / "folder.perfetto", "--align", "collective")
    assert "by 6 collectives, residual 160 ns median, 391 ns p95" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--offset", "x"], 2),
        (["--offset", "x=1ms"], 2),
        (["--align", "wrong"], 2),
        (["--offset", f"{RANKS[0]}=1ms", "--offset", f"{RANKS[0]}=1ms"], 2),
        (["--align", "marker", "nothing"], 1),
    ],
)
def test_exit_codes(arguments: list[str], code: int, tmp_path: Path) -> None:
    done = command(*RANKS, "-o", tmp_path / "out.parquet", *arguments)
    assert done.returncode == code, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not REAL.exists(), reason="the real traces are not at hand (../shared/corpus)")
def test_a_real_rank_beside_itself_with_another_clock(tmp_path: Path) -> None:
    """A real file of one rank, and a copy of it whose clock is ahead and gains 20 ppm: the copy comes back."""
    whole = ktrace.read(REAL)
    copy = [batch for batch in whole.batches() if batch.record == "events"]
    source, ahead = whole.events.source.iloc[0], 123_456_789
    first = int(whole.events.ts.min())
    moved = []
    for batch in copy:
        table = batch.columns.to_pydict()
        table["ts"] = [ts + ahead + round((ts - first) * 20 / 10**6) for ts in table["ts"]]
        table["source"] = ["copy"] * len(batch)
        moved.append(table)
    other = tmp_path / "copy.parquet"
    frame = ktrace.Trace(
        type(batch)("events", batch.columns.from_pydict(table, schema=batch.columns.schema))
        for batch, table in zip(copy, moved, strict=True)
    )
    frame.write(other)
    whole.write(tmp_path / "whole.parquet")
    report = ktrace.merge([tmp_path / "whole.parquet", other], tmp_path / "out.parquet", align="collective")
    said = report.alignment[1]
    assert said["matched"] > 20
    table = pq.read_table(tmp_path / "out.parquet", columns=["record", "source", "id", "ts"]).to_pandas()
    events = table[table.record == "event"]
    both = events[events.source == source].merge(events[events.source == "copy"], on="id")
    assert len(both) == len(whole.events)
    # durations of the collectives didn't gain, so that their ends are a little off; the drift is told all the same
    assert (both.ts_x - both.ts_y).abs().max() < 20_000


def _boottime(path: Path, host: str, begin: int) -> Path:
    """A source by the boottime of a host, as tools of ROCm write it."""
    label = path.stem
    facts = [
        {"source": label, "id": 0, "entity": "clock", "facts": '{"kind":"boottime"}'},
        {"source": label, "id": 0, "entity": "host", "name": host},
    ]
    ktrace.Trace(batches([collective(label, 1, begin + 50_000)], facts)).write(path)
    return path


def test_two_sources_by_one_clock_stay_together(tmp_path: Path) -> None:
    """Two of one host's boottime, which nothing relates to the first source, and one of another host's."""
    hosts = [("b", "node0", 5_000), ("c", "node0", 7_000), ("d", "node1", 9_000)]
    paths = [_boottime(tmp_path / f"{name}.parquet", host, begin) for name, host, begin in hosts]
    report = ktrace.merge([RANKS[0], *paths], tmp_path / "out.parquet")
    assert [said["rule"] for said in report.alignment] == ["reference", "begin", "same clock", "begin"]
    begins = {row["source"]: row["ts"] for row in reversed(rows(tmp_path / "out.parquet"))}
    assert begins["c"] - begins["b"] == 2_000
    assert begins["d"] == begins["b"]
    report = ktrace.merge(paths, tmp_path / "own.parquet")
    assert [(said["rule"], said["offset_ns"]) for said in report.alignment[:2]] == [("reference", 0), ("same clock", 0)]


@pytest.mark.skipif(not REAL.exists(), reason="the real traces are not at hand (../shared/corpus)")
def test_real_files_and_other_tools_together_come_back(tmp_path: Path) -> None:
    """Real Kineto with nsys: on several machines, with columns that only some sources have."""
    inputs = [REAL, REAL.with_name("rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"), NSYS]
    table, timeline = tmp_path / "run.parquet", tmp_path / "run.perfetto"
    for path in (table, timeline):
        assert ktrace.merge(inputs, path).balanced()
    direct, back = (ktrace.read(path).events[["source", "id", "ts", "dur", "name"]] for path in (table, timeline))
    direct, back = (frame.sort_values(["source", "id"], ignore_index=True) for frame in (direct, back))
    missing = direct.merge(back, on=["source", "id"], how="left", indicator=True).query("_merge != 'both'")
    assert len(missing) == 0


UNIX = 1_795_711_387 * 10**9

#: Three kernels as PyTorch's profiler and as unitrace record them: name, start and end in us.
SEEN = {
    "kineto": [("gemm_kernel", 100, 540), ("gelu", 600, 660), ("gemm_kernel", 700, 1_131)],
    "unitrace": [("gemm_kernel", 100, 510), ("gelu", 600, 655), ("gemm_kernel", 700, 1_105)],
}


def views(folder: Path, *, late: int = 0) -> list[Path]:
    """Files of both tools; `late` moves the last kernel of the second one."""
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 0, "ts": start, "dur": end - start}
        | {"args": {"device": 0, "stream": 0}}
        for name, start, end in SEEN["kineto"]
    ]
    first = {"schemaVersion": 1, "baseTimeNanoseconds": UNIX, "deviceProperties": [{"id": 0}], "traceEvents": events}
    (folder / "kineto.json").write_text(json.dumps(first))
    lines = [
        f'{{"ph": "M", "name": "process_name", "pid": 101, "ts": {UNIX // 1000}.0, "args": {{"name": "DEVICE<n>"}}}}'
    ]
    lines.insert(0, lines[0].replace("101", "7").replace("DEVICE", "RANK 0 HOST"))
    for place, (name, start, end) in enumerate(SEEN["unitrace"]):
        ts = UNIX // 1000 + start + (late if place == 2 else 0)
        work = (
            f'"name": "{name}[SIMD16 {{64; 8; 1}} {{64; 8; 1}}]", "cat": "gpu_op", "ts": {ts}.0, "dur": {end - start}.0'
        )
        lines.append(f'{{"ph": "X", "tid": 1, "pid": 101, {work}, "args": {{"id": {place}}}}}')
    (folder / "unitrace.json").write_text('{ "traceEvents":[\n' + ",\n".join(lines) + "\n]}")
    return [folder / "kineto.json", folder / "unitrace.json"]


def test_unix_times_of_unitrace_are_used(tmp_path: Path) -> None:
    report = ktrace.merge(views(tmp_path), tmp_path / "out.parquet")
    assert [(said["rule"], said["offset_ns"]) for said in report.alignment] == [("reference", 0), ("unix", -UNIX)]
    kernels = [row for row in rows(tmp_path / "out.parquet") if row["kind"] == "kernel"]
    assert sorted(row["ts"] for row in kernels) == sorted(2 * [100_000, 600_000, 700_000])
    assert "begin-guessed" not in report.issues


@pytest.mark.parametrize("name", ["ascend-json", "ascend-csv", "ascend-db", "unitrace-json"])
def test_unix_times_have_an_anchor(name: str) -> None:
    """Of some sample of each format: others count from another time."""
    samples = [path for path in (SAMPLES / name).iterdir() if path.suffix != ".md"]
    clocks = [ktrace.read(path).catalog.query("entity == 'clock'").facts for path in samples]
    facts = [json.loads(one) for found in clocks for one in found.dropna()]
    assert any(one["kind"] == "unix" and one["at_ns"] == one["unix_ns"] == 0 for one in facts)
    assert all("at_ns" in one for one in facts if "unix_ns" in one)


def test_two_views_of_the_same_kernels_are_not_two_devices(tmp_path: Path) -> None:
    seen = ktrace.summary(views(tmp_path), by=["kernel"])
    assert (seen.total, len(seen.devices)) == (931_000, 1)
    assert seen.devices[0].label == "device 0"
    assert "Not counted: the device work of unitrace, that of kineto as another tool saw it." in seen.notes
    other = ktrace.summary(views(tmp_path, late=300), by=["kernel"])
    assert (len(other.devices), any("another tool" in note for note in other.notes)) == (2, False)


def test_ranks_of_one_tool_are_no_views_of_each_other() -> None:
    assert len(ktrace.summary(RANKS, by=["kernel"]).devices) == 2


def test_a_guess_by_more_than_the_recordings_last_says_so(tmp_path: Path) -> None:
    lines = [{"ktrace": "1.0"}]
    for number, ts in enumerate((0, 10**15)):
        row = {"record": "event", "source": "ab"[number], "id": number, "kind": "op", "name": "x", "ts": ts, "dur": 10}
        path = tmp_path / f"{'ab'[number]}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, row | {"timing": "measured"}]))
    guess = ktrace.merge([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out.parquet").issues["begin-guessed"]
    assert guess.places[0][1].endswith(
        "moved by -1000000s (11.6 days), while all sources last 20ns: times between them mean nothing"
    )
