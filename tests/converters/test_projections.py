"""Projections' logs against arithmetic over their lines: samples by us, and pipit's of a real run on two PEs."""

from __future__ import annotations

import gzip
import json
import shutil
import tracemalloc
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.converters.projections import probe, runs
from ktrace.errors import InputError, UnknownFormat
from ktrace.input.detection import detect
from ktrace.input.format import Score
from ktrace.input.source import Sample, Source
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.trace.trace import Trace

SMP = SAMPLES / "projections" / "smp-with-counters-and-user-events"
OLD = SAMPLES / "projections" / "version-5-without-cpu-times"
REAL = SAMPLES / "real/corpus/projections/ping-pong"


def lines_of(folder: Path) -> dict[int, list[list[int]]]:
    """The records of each PE, as numbers."""
    found = {}
    for path in folder.glob("*.log.gz"):
        rows = gzip.decompress(path.read_bytes()).decode().splitlines()[1:]
        found[int(path.name.split(".")[-3])] = [[int(one) for one in row.split()] for row in rows]
    return found


def written(folder: Path, log: str, sts: str = "VERSION 7.0\nEND\n") -> Trace:
    """The trace of one PE's log."""
    (folder / "app.sts").write_text(sts)
    (folder / "app.0.log").write_text(log)
    return ktrace.read(folder)


def events(trace: Trace, *names: str) -> list[list[Any]]:
    """Columns of the events, null as None."""
    rows = trace.events[list(names)].astype(object)
    return rows.where(rows.notna(), None).values.tolist()


def test_entry_methods_idle_times_and_sends_of_a_real_run() -> None:
    """Sums by PE and entry from the lines themselves: a begin of these logs is followed by its end."""
    sums: dict[str, Counter[Any]] = defaultdict(Counter)
    for pe, records in lines_of(REAL).items():
        begun: dict[int, int] = {}
        for record in records:
            kind = record[0]
            if kind in (2, 14, 16, 18):
                begun[kind] = record[3] if kind == 2 else record[1]
            elif kind == 3:
                sums["processing"][pe, record[2]] += 1000 * (record[3] - begun.pop(2))
            elif kind in (15, 17, 19):
                sums[{15: "idle", 17: "pack", 19: "unpack"}[kind]][pe] += 1000 * (record[1] - begun.pop(kind - 1))
            elif kind in (1, 20):
                sums["creation"][pe] += record[6]
                sums["send"][pe] += 1000 * record[7]
    trace = ktrace.read(REAL)
    names = {}
    for line in (REAL / "pingpong.prj.sts").read_text().splitlines():
        if line.startswith("CHARE"):
            names[line.split()[1]] = line.split('"')[1]
    entries = [line for line in (REAL / "pingpong.prj.sts").read_text().splitlines() if line.startswith("ENTRY")]
    of = {int(line.split()[2]): f"{names[line.split()[-2]]}::{line.split(chr(34))[1]}" for line in entries}
    rows = trace.events
    ran = rows[(rows.cat == "processing") & rows.dur.notna()].groupby(["pid", "name"], observed=True).dur.sum()
    wanted: Counter[Any] = Counter()
    for (pe, entry), total in sums["processing"].items():
        wanted[pe, of[entry]] += total
    assert ran.to_dict() == dict(wanted)
    assert set(rows[rows.name == "idle"].kind) == {"sync"}
    assert set(rows[rows.name.isin(["pack", "unpack"])].kind) == {"overhead"}
    for name in ("idle", "pack", "unpack"):
        assert rows[rows.name == name].groupby("pid").dur.sum().to_dict() == sums[name]
    sends = rows[rows.cat == "creation"].groupby("pid")
    assert sends.bytes.sum().to_dict() == sums["creation"]
    assert sends.dur.sum().to_dict() == sums["send"]


def test_every_record_of_a_real_run_and_its_arrows() -> None:
    trace, records = ktrace.read(REAL), [record for rows in lines_of(REAL).values() for record in rows]
    kinds = Counter(record[0] for record in records)
    links = trace.links
    assert Counter(links.role) == {"out": kinds[1] + kinds[20], "in": kinds[2]}
    sent = {(record[5], record[4], record[2]) for record in records if record[0] in (1, 20)}
    met = [record for record in records if record[0] == 2 and (record[5], record[4], record[2]) in sent]
    ends = links.groupby("key").role.agg(set)
    assert sum(links[links.role == "in"].key.isin(ends[ends.map(len) == 2].index)) == len(met) > 200
    assert not trace.report.issues
    assert trace.report.reader.balanced()
    assert dict(json.loads(trace.catalog[trace.catalog.entity == "source"].facts.iloc[0]))["version"] == "v7.0.0"


def test_a_range_has_what_it_used() -> None:
    trace = ktrace.read(SMP)
    (first,) = (json.loads(args) for name, args in events(trace, "name", "args") if name.startswith("Main::"))
    assert first == {
        "event": 0,
        "pe": 0,
        "msglen": 96,
        "index": [0, 0, 0, 0],
        "cputime": 90 - 35,
        "PAPI_TOT_CYC": 91_000 - 1_000,
        "PAPI_L1_DCM": 520 - 20,
    }
    open_one = trace.events[(trace.events.tid == 1) & (trace.events.ts == 95_000)].iloc[0]
    assert (open_one["name"], json.loads(open_one.args)["recvTime"]) == ("Ring::pass(int hop, double x)", 88)
    assert open_one.isna().dur, "its end is before its start"


def test_pes_of_a_node_are_threads_of_a_process() -> None:
    catalog = ktrace.read(SMP).catalog
    threads = catalog[catalog.entity == "thread"][["pid", "tid", "name"]].values.tolist()
    assert threads == [[0, 0, "PE 0"], [0, 1, "PE 1"], [0, 2, "communication thread of node 0"]]


def test_events_notes_and_figures_of_the_user() -> None:
    trace = ktrace.read(SMP)
    rows = events(trace, "kind", "name", "ts", "dur", "value", "unit")
    assert [row for row in rows if row[1] in ("halo", "solve A x = b", "checkpoint", "residual norm", "memory")] == [
        ["range", "halo", 65_000, 10_000, None, None],
        ["range", "solve A x = b", 60_000, 30_000, None, None],
        ["counter", "memory", 112_000, None, 1_048_576, "B"],
        ["instant", "checkpoint", 115_000, None, None, None],
        ["range", "solve A x = b", 116_000, 10_000, None, None],
        ["counter", "residual norm", 130_000, None, 0.0078125, None],
        ["counter", "residual norm", 131_000, None, -3, None],
    ]
    assert [row[1:3] for row in rows[:2]] == [["computation begins", 10_000], ["idle", 12_000]]
    assert [name for _, name, *_ in rows if name.startswith("send")] == [
        "send Ring::start()",
        *["send Ring::pass(int hop, double x)"] * 2,
    ]
    assert [row[:4] for row in rows if row[1] in ("hop 1 of 8 x", "wrote 3 file")] == [
        ["log", "hop 1 of 8 x", 132_000, None],
        ["range", "wrote 3 file", 133_000, 5_000],
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [("28 5 3abc", "abc"), ("28 5 3 abc", "abc"), ("28 5 122 of 3 times", "2 of 3 times"), ("28 5 9 cut", "cut"),
     ("28 5 0", "[no text]"), ("28 5 6 für 1", "für 1"), ("28 5 3  x ", " x ")],
)  # fmt: skip
def test_a_note_is_as_long_as_it_says(line: str, text: str, tmp_path: Path) -> None:
    """Charm++ writes it right after its length, vt after a blank; neither leaves out blanks or digits of it."""
    assert written(tmp_path, f"PROJECTIONS-RECORD 1\n{line}\n").events.name.tolist() == [text]


@pytest.mark.parametrize(
    ("version", "begin", "end", "args"),
    [
        ("1.0", "2 5 9 10 1 0", "3 5 9 30 1 0", {}),
        ("3.0", "2 5 9 10 1 0 64", "3 5 9 30 1 0 64", {"msglen": 64}),
        ("5.0", "2 5 9 10 1 0 64 8 1 2 3", "3 5 9 30 1 0 64", {"msglen": 64, "recvTime": 8, "index": [1, 2, 3]}),
        ("6.5", "2 5 9 10 1 0 64 8 1 2 3 7", "3 5 9 30 1 0 0 12", {"cputime": 5}),
        ("6.6", "2 5 9 10 1 0 64 8 1 2 3 7 0", "3 5 9 30 1 0 0 12 0", {"cputime": 5}),
        ("6.6", "2 5 9 10 1 0 64 8 1 2 3 7 1 500", "3 5 9 30 1 0 0 12 1 900", {"cputime": 5, "FLOPS": 400}),
        ("7.0", "2 5 9 10 1 0 64 8 1 2 3 4 7", "3 5 9 30 1 0 0 12", {"index": [1, 2, 3, 4], "cputime": 5}),
        ("9.0", "2 5 9 10 1 0 64 8 1 2 7 500", "3 5 9 30 1 0 0 12 900", {"index": [1, 2], "cputime": 5, "FLOPS": 400}),
        # vt repeats the element and a 0 behind the end.
        ("7.0", "2 5 9 10 1 0 64 0 1 2 3 4 0", "3 5 9 30 1 0 0 0 1 2 3 4 0", {"index": [1, 2, 3, 4], "cputime": 0}),
    ],
)  # fmt: skip
def test_versions_of_the_log(version: str, begin: str, end: str, args: dict[str, Any], tmp_path: Path) -> None:
    counters = "TOTAL_PAPI_EVENTS 1\nPAPI_EVENT 0 FLOPS\n" if "FLOPS" in args else ""
    sts = f"VERSION {version}\n{counters}CHARE 3 Jacobi{' -1' if version == '9.0' else ''}\n"
    sts += "ENTRY CHARE 9 run(int n) 3 0\n"
    trace = written(tmp_path, f"PROJECTIONS-RECORD\n{begin}\n{end}\n", sts)
    assert events(trace, "name", "ts", "dur") == [["Jacobi::run(int n)", 10_000, 20_000]]
    found = json.loads(trace.events.args.iloc[0])
    assert found.items() >= args.items()
    assert set(found) <= {"event", "pe", "msglen", "recvTime", "index", "cputime", "FLOPS"}
    assert trace.report.reader.balanced()
    assert not trace.report.issues


def test_names_of_vt_have_no_quotes(tmp_path: Path) -> None:
    sts = "PROJECTIONS_ID\nVERSION 7.0\nMACHINE vt\nPROCESSORS 1\nCHARE 2 ::MyObj<int, long> \n"
    sts += "ENTRY CHARE 4 handler(Msg a, Msg b) 2 0 \nEVENT 8 my event \nTOTAL_FUNCTIONS 0\nEND\n\n"
    trace = written(tmp_path, "PROJECTIONS-RECORD 0\n6 0\n2 5 4 1 1 0 8 0 0 0 0 0 0\n13 8 3 1 0 0\n7 9\n", sts)
    assert sorted(trace.events.name) == [
        "MyObj<int, long>::handler(Msg a, Msg b)",
        "computation begins",
        "computation ends",
        "my event",
    ]
    assert not trace.report.issues


def test_damaged_lines_cost_themselves(tmp_path: Path) -> None:
    bad = ["2", "2 5 9 x 1 0 64 0 0", "13 1", "27 nan 5", "32 1 2 inf 0 0", "28 5", "28 5 x", "14 1_0 0", "26 5"]
    log = "PROJECTIONS-RECORD 9\n" + "\n".join(
        [*bad, "words", "14 99999999999999999999 0", "15 5 0", "777 1", "14 7 0"]
    )
    trace = written(tmp_path, log + "\n", "VERSION ?\nCHARE\nENTRY CHARE 1\nWHAT 1\nEND\n")
    report = trace.report
    assert report.balanced()
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {
        "bad-record": len(bad) + 3,
        "unrecognised": 2,
        "time-range": 1,
        "end-without-begin": 1,
        "unread-packet": 1,
    }
    assert events(trace, "name", "ts") == [["idle", 7_000]]


def test_a_log_that_is_cut_gives_what_is_whole(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(REAL, tmp_path / "run"))
    log = folder / "pingpong.prj.1.log.gz"
    log.write_bytes(log.read_bytes()[:2_000])
    trace = ktrace.read(folder)
    assert "cut" in trace.report.issues
    assert trace.report.reader.balanced()
    assert 0 < len(trace.events[trace.events.pid == 1]) < len(ktrace.read(REAL).events)


def test_a_binary_log_is_left_out(tmp_path: Path) -> None:
    """+binary-trace: records in the layout of the machine."""
    folder = Path(shutil.copytree(OLD, tmp_path / "run"))
    (folder / "jacobi.1.log").write_bytes(b"\x03\0\0\0\x06" + bytes(200))
    trace = ktrace.read(folder)
    assert len(trace.events) == len(ktrace.read(OLD).events)
    assert trace.report.issues["unrecognised"].rows == 1


def test_only_a_folder_of_one_run_is_read(tmp_path: Path) -> None:
    assert runs(("a.sts", "a.0.log", "a.1.log.gz", "b.sts", "b.projdir.1/b.3.log", "c.0.log", "a.sum.sts")) == {
        "a.sts": [(0, "a.0.log"), (1, "a.1.log.gz")],
        "b.sts": [(3, "b.projdir.1/b.3.log")],
    }
    match = probe(Sample("run", listing=("a.sts", "a.0.log")))
    assert match and match.score == Score.DIALECT
    assert probe(Sample("run", listing=("a.sts", "b.0.log"))) is None
    assert detect(SMP)[0].format == "projections"
    near = probe(Source(str(SMP / "ring.0.log")).sample())
    assert near and near.score == Score.NEAR
    with pytest.raises(UnknownFormat, match="name the folder"):
        ktrace.read(SMP / "ring.sts")
    shutil.copytree(SMP, tmp_path / "two")
    shutil.copytree(OLD, tmp_path / "two", dirs_exist_ok=True)
    with pytest.raises(InputError, match=r"2 runs: jacobi\.sts, ring\.sts") as caught:
        ktrace.convert(tmp_path / "two", tmp_path / "out.parquet")
    assert caught.value.remedy == "copy the files of a run to a folder of their own"
    assert not (tmp_path / "out.parquet").exists()


def test_memory_does_not_grow_with_records(tmp_path: Path) -> None:
    peaks = []
    for count in (1_500, 4_500):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "app.sts").write_text("VERSION 11.0\nEND\n")
        rows = [f"14 {10 * number} 0\n15 {10 * number + 5} 0\n" for number in range(count)]
        (folder / "app.0.log").write_text("PROJECTIONS-RECORD 0\n" + "".join(rows))
        tracemalloc.start()
        for _ in read_batches([str(folder)], Report(), batch_rows=250):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
