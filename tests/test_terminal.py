"""What is printed: names of files and of inputs neither steer a terminal, nor begin lines, nor command a workflow."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SAMPLES

EVIL = "k\x1b[2J\x9b31m\u202e\nwarning: all is well\r#"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def printed(*arguments: object, cwd: Path, **environment: str) -> str:
    """What a command prints on a terminal, on both streams; click leaves out what steers where there is none."""
    pty = pytest.importorskip("pty", reason="no terminals here")
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-m", "ktrace", *map(str, arguments)],
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=os.environ | {"NO_COLOR": "1", "TERM": "dumb"} | environment,
            check=False,
            timeout=120,
        )
        os.set_blocking(ours, False)
        return os.read(ours, 1 << 20).decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
        os.close(theirs)


def trace(path: Path, source: str = "t") -> Path:
    kernel: dict[str, Any] = {"ph": "X", "cat": "kernel", "name": EVIL, "pid": 0, "tid": 7, "ts": 1, "dur": 1}
    events = [kernel | {"args": {"device": 0, "stream": 7, "note": EVIL}}, kernel | {"dur": EVIL}]
    device = {"id": 0, "name": EVIL}
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}))
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        "info {file}",
        "summary {file}",
        "diff {file} {file}",
        "convert {file} -o o.csv",
        "convert {file} -o {evil}.csv --around {evil}",
        "convert {file} -o {evil}.jsonl --split-by rows=1",
        "convert no{evil}.log -o o.csv",
        "convert o.csv -o {evil}",
        "merge {file} plain.json -o m.perfetto",
        "batch {file} nothing{evil} -o data",
        "batch {file} plain.json notes{evil}.txt -o data --jobs 1",
        "validate {valid}",
        "validate {valid} --format json",
        "validate {valid} --format github",
        "query {file} --sql {sql}",
        "map {table}",
        "{evil}",
        "convert --{evil}",
        "convert {file} -o o.perfetto --gpu {evil}",
    ],
)
def test_names_never_steer_the_terminal(tmp_path: Path, arguments: str) -> None:
    file = trace(tmp_path / f"{EVIL}.json".replace("/", ""))
    trace(tmp_path / "plain.json")
    (tmp_path / f"notes{EVIL}.txt").write_text("notes")
    valid = tmp_path / f"{EVIL}.jsonl"
    row = {"record": "event", "source": "s", "id": 1, "ts": 0, "dur": 1, "kind": EVIL, "name": "x", EVIL: EVIL}
    valid.write_text('{"ktrace":"1.0"}\n' + json.dumps(row, ensure_ascii=False).replace("\x7f", "") + "\n")
    table = tmp_path / f"{EVIL}.csv"
    table.write_text(f'start,end,"{EVIL}"\n1,2,"{EVIL}"\n2,3,"{EVIL}"\n')
    names = {
        "file": file.name,
        "evil": EVIL,
        "valid": valid.name,
        "table": table.name,
        "sql": "from events",
    }
    said = printed(*(word.format_map(names) for word in arguments.split()), cwd=tmp_path)
    assert said
    assert not STEERS.findall(said), ascii(said)
    assert not re.search("^warning: all is well", said, re.M), said


@pytest.mark.parametrize("style", ["text", "github"])
def test_a_file_name_is_no_command_of_a_workflow(tmp_path: Path, style: str) -> None:
    name = "::set-output name=a::b,line=3%0A##[error]x"
    (tmp_path / name).write_text('{"ktrace":"1.0"}\n{"record":"event"}\n')
    done = subprocess.run(
        [sys.executable, "-m", "ktrace", "validate", "--format", style, name],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"GITHUB_ACTIONS": "true"},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    lines = (done.stdout + done.stderr).splitlines()
    assert lines
    for line in lines:
        if style == "text":
            assert not line.lstrip().startswith("::"), line
            assert "##[" not in line, line
        else:
            # As GitHub's runner takes it apart: a command, its properties up to "::", the message.
            command, properties, _ = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line).groups()  # type: ignore[union-attr]
            given = dict(one.split("=", 1) for one in properties.split(","))
            assert (command, set(given)) == ("error", {"file", "line"})
            plain = given["file"].replace("%3A", ":").replace("%2C", ",").replace("%25", "%")
            assert (plain, given["line"]) == (name, "2")


def test_notes_wrap_by_words_on_a_terminal(tmp_path: Path) -> None:
    log = SAMPLES / "nsys/schema-2.9-calls-twice-mpi-as-a-domain.sqlite"
    text = printed("convert", log, "-o", tmp_path / "run.perfetto", cwd=tmp_path, COLUMNS="80")
    assert "Environment variables were left out" in " ".join(text.split())
    lines = text.splitlines()
    notes = [line for line in lines if line.startswith(("note:", "skip:", "  "))]
    assert len(notes) > 2 and all(len(line) <= 80 for line in notes)
    assert any(line.startswith("  ") for line in notes)


def test_all_that_commands_print_goes_through_one_place() -> None:
    printing = ("click.echo", "click.secho", "print")
    wrong = [
        f"{file.name}:{node.lineno}"
        for file in sorted((ROOT / "ktrace/cli").glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in printing and file.name != "_console.py"
    ]
    assert not wrong


def test_the_samples_are_printed_as_they_are(tmp_path: Path) -> None:
    said = printed("info", SAMPLES / "kineto/one-step-of-training.pt.trace.json", cwd=tmp_path)
    assert "kineto" in said
    assert "\\x" not in said
