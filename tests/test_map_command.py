"""`ktrace map`: the guess is shown and tried, written only when asked, and never over another file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import ROOT, SAMPLES, SHARED

import ktrace
from ktrace.cli import cli
from ktrace.errors import KtraceError
from ktrace.input.mapping import MAPPING_SUFFIX, read_mapping
from ktrace.pipeline.propose import propose

PLAIN = 'Kernel,t0,Δ,queue,note\ngemm,12.5,3.25,compute,\nsoftmax,15.75,0.5,compute,"second, slower"\n'


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["map", *map(str, arguments)])


def guessed(path: Path) -> dict[str, str]:
    """Field -> cell, with a question mark where the guess isn't sure."""
    return {guess.field: f"{guess.cell}{'' if guess.sure else ' ?'}" for guess in propose(str(path)).guesses}


@pytest.mark.parametrize(
    ("headings", "found"),
    [
        ("OP NAME,HOST DURATION [ns],DEVICE KERNEL DURATION [ns]", "DEVICE KERNEL DURATION [ns]"),
        ("OP NAME,DEVICE KERNEL DURATION [ns],HOST DURATION [ns]", "DEVICE KERNEL DURATION [ns]"),
        ("OP NAME,HOST DURATION [ns],CALLS", "HOST DURATION [ns]"),
    ],
)
def test_the_time_of_a_device_goes_before_the_hosts(tmp_path: Path, headings: str, found: str) -> None:
    path = tmp_path / "ops.csv"
    path.write_text(f"{headings}\nmatmul,9000,70\nadd,8000,50\n", "utf-8")
    guesses = guessed(path)
    times = {field: cell for field, cell in guesses.items() if "DURATION" in cell}
    assert [cell.removesuffix(" ?") for cell in times.values()] == [found], guesses
    assert guesses.get("kind") == ("'kernel' ?" if "DEVICE" in headings else "'op' ?")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "run.csv"
    path.write_text(PLAIN, "utf-8")
    return path


def test_the_guess_is_shown_and_nothing_is_written(table: Path) -> None:
    done = run(table)
    assert done.exit_code == 0, done.output
    assert "a table separated by commas, 5 columns, headings in line 1" in done.stdout
    assert re.search(r"start +t0:us +\? +by its heading; no unit is stated anywhere: us is a guess", done.stdout)
    assert "arguments: note" in done.stdout
    assert re.search(r"2 +kernel +gemm +12,500 ns +3.250 us", done.stdout)
    assert "nothing was written" in done.stdout
    assert [path.name for path in table.parent.iterdir()] == [table.name]


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/commands/map.md").read_text("utf-8")
    shown = re.search(r"```\n\$ ktrace map run.csv\n(.*?)```", page, re.S)
    assert shown
    (tmp_path / "run.csv").write_text(PLAIN + "copy,15.75,1,copies,\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    printed = [line.rstrip() for line in run("run.csv").stdout.splitlines()]
    assert printed == [line.rstrip() for line in shown[1].splitlines()]


def test_the_command_that_is_shown_does_what_the_file_does(table: Path) -> None:
    shown = re.search(r'--map "(.*)"$', run(table).stdout, re.M)
    assert shown
    once = ktrace.read(table, map=shown[1])
    assert run(table, "--write").exit_code == 0
    kept = ktrace.read(table)
    assert kept.equals(once)
    assert list(kept.report.issues) == ["mapped"]
    assert [row["dur"] for row in kept.to_arrow()["events"].to_pylist()] == [3250, 500]


def test_what_is_given_replaces_the_guess(table: Path) -> None:
    assert run(table, "--map", "start=t0:ms", "--map", "dur=Δ:ms", "--write").exit_code == 0
    mapping = read_mapping(Path(str(table) + MAPPING_SUFFIX))
    assert mapping.text() == "name=Kernel,start=t0:ms,dur=Δ:ms,stream=queue,kind='kernel'"
    assert [row["ts"] for row in ktrace.read(table).to_arrow()["events"].to_pylist()] == [12_500_000, 15_750_000]


def test_an_existing_mapping_is_replaced_only_when_asked(table: Path) -> None:
    kept = Path(str(table) + MAPPING_SUFFIX)
    kept.write_text('name = "Kernel"\nstart = { column = "t0", unit = "ms" }\n', "utf-8")
    before = kept.read_bytes()
    done = run(table, "--write")
    assert isinstance(done.exception, KtraceError)
    assert "exists" in str(done.exception)
    assert kept.read_bytes() == before
    assert run(table, "--write", "--overwrite").exit_code == 0
    assert kept.read_bytes() != before
    assert run(table, "-o", table.parent / "ours.toml").exit_code == 0
    assert ktrace.read(table, map=table.parent / "ours.toml").equals(ktrace.read(table))


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("a,b,c\n1,2,3\n4,5,6\n", (), "no column has names(?s:.*)for the columns a, b, c"),
        ("op,size\nx,2\ny,3\n", (), "no column has starts, and none has figures"),
        ("just words\nand more\n", (), "has no table that a mapping could describe"),
        (PLAIN, ("--write", "-o", "x.toml"), "go together"),
        (PLAIN, ("-o", "x.csv"), "isn't the name of a TOML file"),
        (PLAIN, ("--map", "name=Kernl"), "has no column 'Kernl'(?s:.*)did you mean name=Kernel"),
        (PLAIN, ("--map", "nme=Kernel"), "did you mean name"),
    ],
)
def test_what_cannot_be_is_refused(table: Path, text: str, arguments: tuple[str, ...], words: str) -> None:
    table.write_text(text, "utf-8")
    done = run(table, *arguments)
    assert isinstance(done.exception, KtraceError), done.output
    assert re.search(words, str(done.exception))
    assert [path.name for path in table.parent.iterdir()] == [table.name]


def test_standard_input_is_refused() -> None:
    done = run("-")
    assert isinstance(done.exception, KtraceError)
    assert "can be read only once" in str(done.exception)


GUESSES: dict[str, tuple[str, dict[str, str]]] = {
    "units in headings, end instead of a duration": (
        "function;begin_us;end_us;gpu\nf;1;2;0\n",
        {"name": "function", "start": "begin_us", "end": "end_us", "device": "gpu"},
    ),
    "a row of units": ("Name,Start,Duration\n,ms,us\nf,1.5,2\n", {"name": "Name", "start": "Start", "dur": "Duration"}),
    "units in cells": ("op,ts,took\nf,1 ms,2 us\n", {"name": "op", "start": "ts", "dur": "took"}),
    "dates": (
        "msg,time,latency ms\nf,2026-11-22T10:00:00Z,3\n",
        {"name": "msg", "start": "time:iso", "dur": "latency ms"},
    ),
    "unix time, unit by its size": (
        "op,timestamp,dur_ms\nf,1732291505.25,3\ng,1732291506.5,4\n",
        {"name": "op", "start": "timestamp:s ?", "dur": "dur_ms"},
    ),
    "unix time and no unit": ("op,timestamp\nf,1732291505.25\n", {"name": "op", "start": "timestamp:s ?"}),
    "whole numbers of ns": (
        "op,start,end\nf,1550151853029637,1550151853042437\n",
        {"name": "op", "start": "start:ns ?", "end": "end:ns ?"},
    ),
    "figures": (
        "layer,calls,total_ms,avg_us,share %\na,2,3,4,50\n",
        {"name": "layer", "total": "total_ms", "avg": "avg_us", "count": "calls", "percent": "share %"},
    ),
    "a time without a start": ("operator,time (us)\na,2\n", {"name": "operator", "value": "time (us)"}),
    "names without a heading for them": ("who,ts_ns\nalice,1\nbob,2\n", {"name": "who ?", "start": "ts_ns"}),
    "grid and block": (
        'kernel,ts_us,dur_us,grid,block,type\nk,1,2,8x1x1,"(256,1,1)",kernel\n',
        {"name": "kernel", "start": "ts_us", "dur": "dur_us", "kind": "type", "grid": "grid", "block": "block"},
    ),
}


@pytest.mark.parametrize("what", GUESSES)
def test_what_is_guessed(table: Path, what: str) -> None:
    text, expected = GUESSES[what]
    table.write_text(text, "utf-8")
    found = guessed(table)
    found.pop("kind", None) if "kind" not in expected else None
    assert found == expected


def test_samples_are_guessed_as_they_were_meant() -> None:
    nested = guessed(SAMPLES / "mapped/nested-objects-counters-and-a-broken-line.jsonl")
    assert nested["start"] == "span.begin:s ?"
    assert {name: nested[name] for name in ("name", "end", "device", "kind", "thread")} == {
        **{"name": "op", "end": "span.end:s ?", "device": "gpu", "kind": "type", "thread": "worker"}
    }
    proposal = propose(str(SAMPLES / "mapped/decimal-commas-own-kinds-and-rows-without.csv"))
    assert proposal.decimal == "comma"


def test_real_tables_are_guessed() -> None:
    path = SHARED / "corpus/ascend/kernel_details.csv"
    if not path.exists():
        pytest.skip(f"no {path}")
    assert {name: cell for name, cell in guessed(path).items() if name in ("name", "start", "dur", "stream")} == {
        **{"name": "Name", "start": "Start Time(us)", "dur": "Duration(us)", "stream": "Stream ID"}
    }


def test_a_table_that_needs_no_mapping_is_named() -> None:
    path = next(SAMPLES.glob("rocprofv3/*_kernel_trace.csv"))
    done = run(path)
    assert "note: ktrace reads it as rocprofv3 without a mapping: it contains the headings of rocprofv3" in done.output


@pytest.mark.parametrize("command", ["summary", "diff", "merge", "batch", "info", "convert"])
def test_every_command_takes_a_mapping(table: Path, command: str) -> None:
    mapping = ("--map", "name=Kernel,start=t0:us,dur=Δ:us", "--map", "stream=queue")
    other = table.with_name("other.csv")
    other.write_text(PLAIN.replace("3.25", "6.5"), "utf-8")
    out = table.with_name({"merge": "out.perfetto", "batch": "out", "convert": "out.csv"}.get(command, "out.json"))
    inputs = [other, table] if command in ("diff", "merge", "batch") else [table]
    target = [] if command == "info" else ["-o", out]
    done = CliRunner().invoke(cli, [command, *map(str, [*inputs, *target]), *mapping])
    assert done.exit_code == 0, done.output
    if command == "info":
        assert "  because --map maps its columns" in done.output.splitlines()
        return
    if command in ("merge", "batch", "convert"):
        events = ktrace.read(out).to_arrow()["events"].to_pylist()
        durations = {(row["source"], row["name"]): row["dur"] for row in events}
        assert durations["run", "gemm"] == 3250
        assert durations.get(("other", "gemm"), 6500) == 6500
    else:
        assert "gemm" in out.read_text("utf-8")
    again = CliRunner().invoke(cli, [command, *map(str, inputs), *map(str, target), *mapping, "--from", "kineto"])
    assert "--map is for tables of the format mapped, not kineto" in str(again.exception)


@pytest.mark.parametrize(
    "text",
    [
        "| Kernel | Calls | Duration |\n|---|---|---|\n| gemm | 3 | 4 |\n| relu | 1 | 2 |\n",
        "Report\n\nKernel  Calls  Duration\ngemm        3         4\nrelu        1         2\n",
        "+--------+-------+----------+\n| Kernel | Calls | Duration |\n+--------+-------+----------+\n"
        "| gemm   |     3 |        4 |\n+--------+-------+----------+\n| relu   |     1 |        2 |\n"
        "+--------+-------+----------+\n",
    ],
)
def test_a_printed_table_is_read_by_a_mapping(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.txt"
    path.write_text(text, "utf-8")
    assert guessed(path) == {"name": "Kernel", "total": "Duration:us ?", "count": "Calls", "kind": "'kernel'"}
    trace = ktrace.read(path, map="name=Kernel,total=Duration:ms,count=Calls")
    assert trace.summaries[["name", "total", "count"]].to_numpy().tolist() == [["gemm", 4e6, 3], ["relu", 2e6, 1]]
    assert trace.report.balanced() and trace.report.read == trace.report.reader.given + len(
        [line for line in text.splitlines() if line == "Report"]
    )


def test_times_named_by_devices_and_by_single_letters(tmp_path: Path) -> None:
    path = tmp_path / "ev.jsonl"
    rows = [(0.001, "a", 1.25), (0.003, "b", 0.15), (0.0035, "a", 1.3)]
    lines = (f'{{"t": {t}, "name": "{name}", "elapsed_ms": {ms}, "queue": 0}}' for t, name, ms in rows)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    assert guessed(path) == {"name": "name", "start": "t:s ?", "dur": "elapsed_ms", "stream": "queue"}
    path = tmp_path / "passes.csv"
    path.write_text("pass,gpu_ms,cpu_ms\nshadow,1.25,0.1\nlight,2.5,0.2\n", "utf-8")
    assert guessed(path) == {"name": "pass ?", "value": "gpu_ms ?", "kind": "'kernel' ?"}


def test_a_cell_longer_than_the_csv_module_allows_ends_the_guess_alone(table: Path) -> None:
    table.write_text(f"{PLAIN}{'x' * 200_000},9.5,1.0,compute,\n", "utf-8")
    assert guessed(table)["name"] == "Kernel"


def test_an_unknown_table_is_sent_here(table: Path) -> None:
    for name, text in (("run.csv", PLAIN), ("run.jsonl", '{"a":"x","ms":1}\n{"a":"y","ms":2}\n')):
        path = table.parent / name
        path.write_text(text, "utf-8")
        with pytest.raises(KtraceError, match=f"ktrace map {re.escape(str(path))} shows"):
            ktrace.read(path)
    path = table.parent / "run.txt"
    path.write_text("nothing that anybody knows\n", "utf-8")
    with pytest.raises(KtraceError) as caught:
        ktrace.read(path)
    assert "ktrace map" not in str(caught.value)
