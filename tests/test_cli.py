"""The command line as users meet it: run as a program, judged by what it prints, writes and exits with."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SAMPLES
from fork_server import program
from nightly import few
from running import port_of_the_ui

from ktrace.cli import COMMANDS, command_of
from ktrace.input.options import keyword, options_of
from ktrace.pipeline.selection import Selection
from ktrace.stages.select.wanted import Crop, Filter

LOG = SAMPLES / "doppler" / "prefill-and-three-decodes.log"
RANKS = [SAMPLES / "kineto" / f"collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]


def ktrace(*arguments: object, stdin: bytes | None = None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Runs the command as a user does."""
    return subprocess.run(
        [program(), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        env=os.environ | {"COLUMNS": "120"} | environment,
    )


def fails(done: subprocess.CompletedProcess[bytes], code: int, *words: str) -> None:
    """The command failed with that exit code and a message with these words, and no traceback."""
    message = done.stderr.decode()
    assert done.returncode == code, message
    assert "Traceback" not in message
    for word in words:
        assert word in message, message


def test_convert_writes_the_output_and_a_line_on_it(tmp_path: Path) -> None:
    out = tmp_path / "run.perfetto"
    done = ktrace("convert", LOG, "-o", out)
    assert done.returncode == 0, done.stderr.decode()
    assert out.stat().st_size > 100
    assert done.stdout == b""
    last, outcome = done.stderr.decode().splitlines()[-2:]
    assert last.startswith(f"{out}: read ") and outcome.startswith(f"{out}, ")
    assert all(word in last for word in ("records", "wrote", "repaired", "skipped"))


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("o.trace.json", b'{"'),
        ("o.jsonl", b'{"ktrace"'),
        ("o.json", b'{"ktrace"'),
        ("o.csv", b"record,"),
        ("o.parquet", b"PAR1"),
        ("o.pftrace", b"\n"),
        ("o.perfetto-trace", b"\n"),
    ],
)
def test_the_kind_of_output_follows_from_its_name(tmp_path: Path, name: str, begins: bytes) -> None:
    assert ktrace("convert", LOG, "-o", tmp_path / name).returncode == 0
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_to_overrides_the_name(tmp_path: Path) -> None:
    assert ktrace("convert", LOG, "-o", tmp_path / "o.json", "--to", "chrome").returncode == 0
    assert "traceEvents" in json.loads((tmp_path / "o.json").read_bytes())


def test_json_of_a_timeline_names_what_viewers_open(tmp_path: Path) -> None:
    for command in ("convert", "merge"):
        said = ktrace(command, RANKS[0], "-o", tmp_path / f"{command}.json").stderr.decode()
        assert f"note: canonical-json ({tmp_path / command}.json)" in said
        assert ".trace.json" in said
        assert "--to chrome" in said
    for out, *options in (("a.json", "--to", "json"), ("b.json", "--to", "chrome"), ("c.trace.json",), ("d.jsonl",)):
        assert b"canonical-json" not in ktrace("convert", RANKS[0], "-o", tmp_path / out, *options).stderr
    table = SAMPLES / "mlc" / "one-run-totals-only.md"
    assert b"canonical-json" not in ktrace("convert", table, "-o", tmp_path / "t.json").stderr


def test_gz_in_the_name_compresses(tmp_path: Path) -> None:
    assert ktrace("convert", LOG, "-o", tmp_path / "o.trace.json.gz").returncode == 0
    assert "traceEvents" in json.loads(gzip.decompress((tmp_path / "o.trace.json.gz").read_bytes()))


def test_pipes(tmp_path: Path) -> None:
    done = ktrace("convert", "-", "-o", "-", "--to", "jsonl", stdin=LOG.read_bytes())
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.splitlines()
    assert json.loads(lines[0]) == {"ktrace": "1.0"}
    assert {json.loads(line)["source"] for line in lines[1:]} == {"stdin"}


def test_a_reader_of_our_output_may_go_away() -> None:
    run = f"{sys.executable} -m ktrace convert {LOG} -o - --to jsonl | head -1"
    done = subprocess.run(["bash", "-c", run], capture_output=True, check=False)
    assert done.stdout == b'{"ktrace":"1.0"}\n'
    assert b"Traceback" not in done.stderr


def test_several_inputs_keep_their_own_labels(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.log").write_bytes(LOG.read_bytes())
    out = tmp_path / "o.jsonl"
    assert ktrace("convert", tmp_path / "a/run.log", tmp_path / "b/run.log", "-o", out).returncode == 0
    assert {json.loads(line)["source"] for line in out.read_text().splitlines()[1:]} == {"run", "run#2"}


def test_several_inputs_on_a_timeline_are_aligned_as_merge_does(tmp_path: Path) -> None:
    merged, converted = tmp_path / "m.trace.json", tmp_path / "c.trace.json"
    by_merge = ktrace("merge", *RANKS, "-o", merged).stderr.decode().splitlines()
    for inputs in (RANKS, [SAMPLES / "kineto" / "collectives-of-two-ranks-rank*.json"]):
        by_convert = ktrace("convert", *inputs, "-o", converted, "--overwrite").stderr.decode().splitlines()
        assert by_convert[:-2] == by_merge[:-2]
        assert any("by unix time" in line for line in by_convert)
        assert json.loads(converted.read_text())["traceEvents"] == json.loads(merged.read_text())["traceEvents"]
    one = ktrace("convert", RANKS[1], "-o", tmp_path / "one.trace.json").stderr.decode()
    assert "reference clock" not in one


def test_a_table_of_several_inputs_keeps_their_times_and_says_so(tmp_path: Path) -> None:
    done = ktrace("convert", *RANKS, "-o", tmp_path / "o.jsonl")
    assert "2 inputs" in done.stderr.decode()
    assert "ktrace merge" in done.stderr.decode()
    events = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()[1:]]
    alone = ktrace("convert", RANKS[1], "-o", "-", "--to", "jsonl")
    assert b"ktrace merge" not in alone.stderr
    times = {row["id"]: row["ts"] for row in map(json.loads, alone.stdout.splitlines()[1:]) if row["record"] == "event"}
    assert times == {row["id"]: row["ts"] for row in events if row["record"] == "event" and "rank1" in row["source"]}


def test_one_table_alone(tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    assert ktrace("convert", LOG, "-o", out, "--table", "summaries").returncode == 0
    heading = out.read_text().splitlines()[0].split(",")
    assert heading[:2] == ["source", "id"]
    assert "metric" in heading
    assert "ts" in heading
    assert "dur" not in heading


def test_the_report_is_json_and_adds_up(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    assert ktrace("convert", LOG, "-o", tmp_path / "o.jsonl", "--report", report).returncode == 0
    account = json.loads(report.read_text())
    assert account["balanced"] is True
    assert account["inputs"][0]["format"] == "doppler"
    reader = account["chain"][0]
    assert reader["in"] == reader["out"] + sum(reader["removed"].values())


def test_a_report_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    done = ktrace("convert", LOG, "-o", tmp_path / "o.jsonl", "--report", tmp_path / "no" / "r.json")
    fails(done, 1, "r.json", "No such file")
    assert b"fault of ktrace" not in done.stderr


def test_an_output_that_exists_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    out.write_text("mine")
    fails(ktrace("convert", LOG, "-o", out), 1, str(out), "already exists", "--overwrite")
    assert out.read_text() == "mine"
    assert ktrace("convert", LOG, "-o", out, "--overwrite").returncode == 0
    assert out.read_text() != "mine"


BAD = {
    "empty": (b"", "is empty"),
    "prose": (b"nothing to see here\n" * 5, "unrecognised format"),
    "binary": (bytes(range(256)) * 20, "unrecognised format"),
    "damaged gzip": (b"\x1f\x8b" + b"\xff" * 50, "compressed data is damaged"),
    "a cut JSON document": (b'{"ktrace":"1.0","records":[{"record":"ev', ""),
    "a cut Parquet file": (b"PAR1" + b"\0" * 50, ""),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_a_message_exit_code_1_and_no_output(tmp_path: Path, case: str) -> None:
    data, words = BAD[case]
    bad = tmp_path / "in.dat"
    bad.write_bytes(data)
    for name in ("o.perfetto", "o.jsonl", "o.parquet"):
        fails(ktrace("convert", bad, "-o", tmp_path / name), 1, str(bad), words)
    assert [path.name for path in tmp_path.iterdir()] == ["in.dat"]


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    fails(ktrace("convert", tmp_path / "no.log", "-o", tmp_path / "o.csv"), 1, "no such file")
    (tmp_path / "folder").mkdir()
    fails(ktrace("convert", tmp_path / "folder", "-o", tmp_path / "o.csv"), 1, "folder")


def test_a_closed_format_names_the_export_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTRACE_NSYS", "")
    (tmp_path / "run.nsys-rep").write_bytes(b"\x00\x01\x02" * 100)
    fails(ktrace("convert", tmp_path / "run.nsys-rep", "-o", tmp_path / "o.perfetto"), 1, "nsys export")


def test_wrong_usage_is_exit_code_2(tmp_path: Path) -> None:
    fails(ktrace("convert", LOG), 2, "-o")
    fails(ktrace("nonsense"), 2, "nonsense")
    fails(ktrace("convert", LOG, "-o", tmp_path / "o.xyz"), 2, "can't tell the output format")
    fails(ktrace("convert", LOG, "-o", tmp_path / "o.csv", "--from", "nonsense"), 2, "no format 'nonsense'")
    fails(ktrace("convert", LOG, "-o", tmp_path / "o.perfetto", "--table", "events"), 2, "--table")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_no_command_has_is_exit_code_2(command: str) -> None:
    fails(ktrace(command, "--nonsense"), 2, "No such option", "--nonsense", f"ktrace {command}")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("sumary", "summary"), ("conver", "convert"), ("Diff", "diff"), ("zzz", ""), ("query-all-of-it", "")],
)
def test_a_misspelt_command_gets_a_hint(word: str, meant: str) -> None:
    done = ktrace(word, LOG)
    fails(done, 2, f"there is no command '{word}'")
    assert (f"did you mean {meant}" in done.stderr.decode()) == bool(meant)


@pytest.mark.parametrize("named", ["run it.log", "*.log", "folder", "s3://bucket/run.json"])
def test_an_input_without_a_command_gets_a_hint(tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(LOG, tmp_path / "run it.log")
    (tmp_path / "folder").mkdir()
    quoted = named if named in ("folder", "s3://bucket/run.json") else f"'{named}'"
    done = ktrace(named, "--step", "3")
    fails(done, 2, "is an input", *(f"ktrace {command} {quoted}" for command in ("view", "info", "convert")))


def test_strict_refuses_what_would_be_skipped(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(LOG.read_bytes() + b"\nsomething that nobody knows\n")
    fails(ktrace("convert", log, "-o", tmp_path / "o.jsonl", "--strict"), 1, str(log), "line", "--strict")
    assert not (tmp_path / "o.jsonl").exists()
    assert ktrace("convert", log, "-o", tmp_path / "o.jsonl").returncode == 0


CUT = SAMPLES / "kineto" / "raw-control-bytes-nan-cut-in-the-last-event.json"


@pytest.mark.parametrize("command", ["convert", "merge", "summary", "diff", "info", "batch"])
def test_a_cut_input_is_done_with_a_warning(tmp_path: Path, command: str) -> None:
    out = ["-o", tmp_path / "o.csv"] if command in ("convert", "merge") else []
    done = ktrace(
        command, CUT, *([CUT] if command == "diff" else ["-o", tmp_path / "b"] if command == "batch" else out)
    )
    assert done.returncode == 0, done.stderr.decode()
    assert re.search(r"^warning: .*cut", done.stderr.decode(), re.M)
    assert b"warning" not in done.stdout


def test_view_of_a_cut_input_shows_the_warning() -> None:
    with port_of_the_ui():
        done = ktrace("view", CUT, "--no-browser", "--timeout", "0.1")
    assert done.returncode == 1  # since no browser fetches the trace
    assert re.search(r"^warning: .*cut", done.stderr.decode(), re.M)
    assert b"warning" not in done.stdout


def test_debug_shows_the_traceback_wherever_it_stands(tmp_path: Path) -> None:
    done = ktrace("convert", tmp_path / "no.log", "-o", tmp_path / "o.csv", "--debug")
    assert done.returncode == 1
    assert b"Traceback" in done.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing(tmp_path: Path, sent: signal.Signals) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    running = subprocess.Popen(
        [sys.executable, "-m", "ktrace", "convert", "-", "-o", tmp_path / "o.perfetto"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdin
    running.stdin.write(b"[browser:log] [1.0ms][Loader] waiting\n")
    running.stdin.flush()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not any(path.name.startswith(".o.perfetto") for path in tmp_path.iterdir()):
        time.sleep(0.02)
    running.send_signal(sent)
    assert running.stderr
    message = running.stderr.read().decode()
    running.stdin.close()
    assert running.wait(20) == 128 + sent
    assert "interrupted" in message
    assert "Traceback" not in message
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]


def test_info_says_what_and_why() -> None:
    done = ktrace("info", LOG)
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert "doppler" in text.splitlines()[0]
    assert "because it " in text
    assert "device 0" in text
    assert "top device work" in text


def test_info_of_several_inputs_and_of_a_pipe_gives_no_reason_that_is_none(tmp_path: Path) -> None:
    for rank in ("r0", "r1"):
        (tmp_path / rank).mkdir()
        shutil.copy(LOG, tmp_path / rank / "run.log")
    for named in (tmp_path, tmp_path / "*/run.log"):
        lines = ktrace("info", named).stdout.decode().splitlines()
        assert lines[0].endswith(": doppler")
        assert re.fullmatch(r"  2 traces: (.*/)?r0/run, (.*/)?r1/run", lines[1])
    lines = ktrace("info", "-", stdin=LOG.read_bytes()).stdout.decode().splitlines()
    assert lines[0] == "-: doppler"
    assert not any("because" in line for line in lines)
    told = ktrace("info", "-", "--from", "doppler", stdin=LOG.read_bytes()).stdout.decode().splitlines()
    assert told[1] == "  because --from names it"


def test_options_that_commands_share_are_called_and_ordered_alike() -> None:
    first, last = ["output", "format_", "to"], ["gpu", "strict", "report", "overwrite"]
    selected = [field.name for field, its in options_of(Selection) if its.flag]
    part = [field.name for cls in (Crop, Filter) for field, _ in options_of(cls)]
    for name in COMMANDS:
        command = command_of(name)
        names = [option.name for option in command.params if option.param_type_name == "option"]
        known = [*first, *last, *selected, *part]
        own = [option for option in names if option not in known]
        assert names == [n for n in first if n in names] + own + [n for n in known[len(first) :] if n in names], name


def test_help_says_what_a_field_says() -> None:
    command = command_of("convert")
    said = {option.name: option.help for option in command.params if option.param_type_name == "option"}
    for cls in (Selection, Crop, Filter):
        entries = " ".join(cls.__doc__.split())
        for field, its in options_of(cls):
            text = re.sub(r"--([a-z-]+)", lambda found: keyword(found[1]), its.help)
            assert re.search(rf"\b{field.name} : [^:]*{re.escape(text)}", entries), field.name
            assert said.get(field.name) == (its.help if its.flag else None)


def test_zero_is_given_where_it_is_given(tmp_path: Path) -> None:
    done = ktrace("convert", LOG, "-o", tmp_path / "o.csv", "--launch-skip", 0)
    fails(done, 2, "--launch-skip needs --metrics")
    assert list(tmp_path.iterdir()) == []


def test_figures_never_replace_the_trace_that_they_are_made_of(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    shutil.copy(LOG, log)
    for command in (["summary", log], ["diff", LOG, log], ["diff", log, LOG]):
        fails(ktrace(*command, "-o", tmp_path / "." / "run.log", "--overwrite"), 2, "is an input")
    assert log.read_bytes() == LOG.read_bytes()


def test_info_of_several_ranks_says_which_of_them_is_meant() -> None:
    lines = ktrace("info", SAMPLES / "kineto" / "collectives-of-two-ranks-rank*.json").stdout.decode().splitlines()
    for rank in (0, 1):
        at = lines.index(f"  collectives-of-two-ranks-rank{rank}: rank {rank}, host node{rank}")
        assert lines[at + 1].startswith(f"    device {rank}: NVIDIA H100 80GB HBM3 (")


def test_info_says_once_what_devices_have_in_common(tmp_path: Path) -> None:
    devices = [{"id": number, "name": "H100" if number < 3 else "A100"} for number in range(4)]
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "deviceProperties": devices, "traceEvents": []}))
    text = ktrace("info", tmp_path / "t.json").stdout.decode()
    assert "  devices 0 to 2: H100 (" in text
    assert "  device 3: A100 (" in text
    numbered = ktrace("info", SAMPLES / "real/corpus/xplane/tw003.xplane.pb").stdout.decode()
    assert "  devices 0 to 7 of tw003: GPU (vendor AMD, " in numbered


def test_formats_lists_what_there_is_without_colours_when_piped() -> None:
    text = ktrace("formats").stdout.decode()
    assert "perfetto" in text
    assert "doppler" in text
    assert "\x1b[" not in text
    assert max(map(len, text.splitlines())) <= 100
    assert "*.perfetto-trace" in text.split(), "no file name is broken"


@pytest.mark.parametrize(
    ("words", "has", "lacks"),
    [
        (["mi300x"], "rocprofv3", "nsys"),
        (["wgpu"], "ort-web", "nsys"),
        (["H100"], "nsys", "rocpd"),
        (["tpu"], "xplane", "triton-server"),  # which speaks of output
        (["nsys", "sqlite"], "nsys", "ncu"),
    ],
)
def test_formats_finds_those_of_a_device(words: list[str], has: str, lacks: str) -> None:
    listed = json.loads(ktrace("formats", *words, "--format", "json").stdout)["formats"]
    names = [one["name"] for one in listed]
    assert has in names
    assert lacks not in names


def test_formats_says_what_reads_a_tool_that_has_none() -> None:
    assert "tables and logs of any tool are read, too: ktrace FILE" in ktrace("formats", "directx").stderr.decode()
    assert "did you mean kineto" in ktrace("formats", "kinetto").stderr.decode()


def test_schema_prints_the_schema() -> None:
    assert json.loads(ktrace("schema").stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion(shell: str) -> None:
    script = ktrace("completion", shell).stdout.decode()
    assert "_KTRACE_COMPLETE" in script
    assert "CommandName kt " in script if shell == "powershell" else re.search(r"\bkt\b", script)


@pytest.mark.parametrize(
    ("line", "word", "wanted"),
    [
        ("kt conv", "conv", "convert\tConvert logs"),
        ("ktrace.exe summary 'C:\\run 1.json' --by ke", "ke", "kernel\t"),
        ("ktrace convert run.json -o ", "", ""),
    ],
)
def test_powershell_completes(line: str, word: str, wanted: str) -> None:
    done = ktrace(_KTRACE_COMPLETE="powershell_complete", COMP_LINE=line, COMP_WORD=word)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().strip("\r\n").startswith(wanted)
    assert bool(done.stdout.strip()) == bool(wanted)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("summary x --by ke", {"kernel"}),
        ("diff a b --by kernel,op", {"kernel,op", "kernel,operation"}),
        ("batch x --by rank,r", {"rank,run"}),
        ("convert x --kind kernel,mem", {"kernel,memcpy", "kernel,memset"}),
        ("merge x --align col", {"collective"}),
        ("convert x --split-by s", {"size=", "step"}),
        ("summary x --format xl", {"xlsx"}),
        ("convert x --to perf", {"perfetto"}),
        ("convert x --from kin", {"kineto"}),
    ],
)
def test_values_are_completed(line: str, values: set[str]) -> None:
    words = f"ktrace {line}"
    done = ktrace(_KTRACE_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
    assert {found.partition(",")[2] for found in done.stdout.decode().splitlines()} == values


def test_validate_finds_the_fault_and_where(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    assert ktrace("convert", LOG, "-o", good).returncode == 0
    assert ktrace("validate", good).returncode == 0
    lines = good.read_text().splitlines()
    record = json.loads(lines[3])
    record["id"] = "three"
    bad.write_text("\n".join([*lines[:3], json.dumps(record), *lines[4:]]) + "\n")
    done = ktrace("validate", good, bad)
    assert done.returncode == 1
    text = done.stdout.decode()
    assert "$.id" in text
    assert "three" in text
    as_json = json.loads(ktrace("validate", bad, "--format", "json").stdout)
    assert as_json["files"][0]["faults"][0]["path"] == "$.id"
    assert ktrace("validate", bad, "--format", "github").stdout.decode().startswith("::error file=")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['ktrace', '--help']\n"
        "from ktrace.cli import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "print([m for m in ('pyarrow', 'pandas', 'numpy', 'rich', 'json', 'jsonschema') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    run = f"{sys.executable} -m ktrace convert <(cat {LOG}) -o {tmp_path / 'o.jsonl'}"
    done = subprocess.run(["bash", "-c", run], capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert ktrace("convert", LOG, "-o", tmp_path / "plain.jsonl").returncode == 0
    kernels = [(tmp_path / name).read_text().count('"kind":"kernel"') for name in ("o.jsonl", "plain.jsonl")]
    assert kernels[0] == kernels[1] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("convert - -o {out}.csv <&-", 1, "standard input is closed"),
        ("convert {log} -o - --to csv >&-", 1, "standard output is closed"),
        ("convert {log} -o {out}.csv >&-", 0, "read "),
        ("formats >&-", 1, "standard output is closed"),
        ("info {log} >&-", 1, "standard output is closed"),
        ("--version >&-", 1, "standard output is closed"),
        ("formats > /dev/full", 1, "No space left on device"),
        ("summary {log} > /dev/full", 1, "No space left on device"),
        ("convert /dev/zero -o {out}.csv", 1, "is a device"),
        ("convert {log} -o {out}.csv --report {out}.csv", 2, "--report needs a separate file"),
        ("convert {log} -o {out}.csv --report {log}", 2, "--report needs a separate file"),
    ],
)
def test_unlucky_streams_are_explained(tmp_path: Path, arguments: str, code: int, words: str) -> None:
    log = tmp_path / "in.log"
    log.write_bytes(LOG.read_bytes())
    run = f"{sys.executable} -m ktrace " + arguments.format(log=log, out=tmp_path / "o")
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(["bash", "-c", run], capture_output=True, check=False, timeout=60, env=buffered)
    assert b"Exception ignored" not in done.stderr
    assert (done.returncode, b"fault of ktrace" in done.stderr) == (code, False), done.stderr.decode()
    assert words in done.stderr.decode()
    assert log.read_bytes() == LOG.read_bytes()
    assert len(list(tmp_path.iterdir())) == (2 if words == "read " else 1)


def test_a_name_that_is_no_text_converts(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9.log"
    try:
        Path(os.fsdecode(odd)).write_bytes(LOG.read_bytes())
    except OSError:
        pytest.skip("this disk takes only text as names")
    done = ktrace("convert", os.fsdecode(odd), "-o", tmp_path / "o.jsonl", "--report", tmp_path / "r.json")
    assert done.returncode == 0, done.stderr.decode()
    assert {json.loads(line)["source"] for line in (tmp_path / "o.jsonl").read_text().splitlines()[1:]} == {"caf\ufffd"}


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may read everything")
def test_no_permission_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "secret.log").touch(0)
    for command in (["info"], ["validate"], ["convert", "-o", tmp_path / "o.csv"]):
        fails(ktrace(*command, tmp_path / "secret.log"), 1, "no permission", "remedy")


@pytest.mark.parametrize("name", few(["o.perfetto", "o.trace.json", "o.parquet", "o.jsonl", "o.json", "o.csv"], 3))
@pytest.mark.parametrize("form", few(["jsonl", "json"], 1))
def test_arguments_nested_without_end_are_no_fault_of_ours(tmp_path: Path, name: str, form: str) -> None:
    event = (
        '{"record":"event","source":"s","id":%d,"ts":0,"dur":1,"kind":"op","name":"x","timing":"measured","args":%s}'
    )
    texts = [event % (depth, '{"a":' * depth + "1" + "}" * depth) for depth in (1, 700, 100_000)]
    lines = '{"ktrace":"1.0"}\n' + "\n".join(texts) + "\n"
    whole = '{"ktrace":"1.0", "records":[' + ",".join(texts) + "]}"
    deep, report = tmp_path / f"deep.{form}", tmp_path / "r.json"
    deep.write_text(lines if form == "jsonl" else whole)
    done = ktrace("convert", deep, "-o", tmp_path / name, "--report", report)
    assert b"fault of ktrace" not in done.stderr
    assert not done.returncode
    assert json.loads(report.read_text())["chain"][0]["removed"].get("bad-record") == 1


def test_a_version_of_thousands_of_digits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text('{"ktrace":"1.%s"}\n' % ("9" * 5000))
    fails(
        ktrace("convert", tmp_path / "v.jsonl", "-o", tmp_path / "o.csv"), 1, "isn't a version of the model", "line 1"
    )
    assert b"fault of ktrace" not in ktrace("validate", tmp_path / "v.jsonl").stderr


def test_a_file_is_not_written_where_a_folder_was_named(tmp_path: Path) -> None:
    fails(ktrace("convert", LOG, "-o", f"{tmp_path}/new.jsonl/"), 1, "is named like a folder")
    assert ktrace("convert", LOG, "-o", f"{tmp_path}/new.parquet/").returncode == 0
    assert (tmp_path / "new.parquet" / "events.parquet").exists()
    (tmp_path / "empty").mkdir()
    done = ktrace("convert", tmp_path / "empty", "-o", tmp_path / "o.csv", "--from", "parquet")
    fails(done, 1, "none of the files of a canonical folder")
