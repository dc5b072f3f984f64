"""What other programs put before, behind and around a text changes neither its format nor its rows."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import golden
import nightly
import pytest

import ktrace
from ktrace.errors import KtraceError
from ktrace.input.detection import choose
from ktrace.input.format import builtin_formats
from ktrace.input.source import Sample, Source
from ktrace.input.unwrapping import bare_samples
from ktrace.input.wrapping import Wrapping, without_layer

#: Text before and behind a sample.
AROUND = {
    "a dict of Python": ("{'loss': 2.3012, 'epoch': 0.1}\n", ""),
    "a line of JSON": ('{"event": "start", "level": "info"}\n', ""),
    "a line of a log": ("[2025-01-01 10:00:00,123] [INFO] start\n", ""),
    "a time in brackets": ("[05/08/2024-14:05:14] [I] start\n", ""),
    "blank lines": ("\n\n", ""),
    "a banner": ("Copyright (c) 2024, a vendor\n\nThis container image is governed by a license.\n\n", ""),
    "a progress bar": ("  0%|          | 0/3\r100%|###| 3/3\n", ""),
    "a warning": ("/usr/lib/python3/x.py:12: UserWarning: something\n  warnings.warn(\n", ""),
    "fences": ("Hello, this is what I see:\n\n```\n", "```\n\nAny idea?\n"),
    "a prompt": ("$ ./run --profile\n", ""),
}

#: What stands before each line.
BEFORE = {
    "a rank": "[rank0]: ",
    "a label of srun": "0: ",
    "a service of docker compose": "web-1  | ",
    "a pod": "[pod/train-0/main] ",
    "a time": "2025-01-01T10:00:00.1234567Z ",
    "a logger of Python": "2025-01-01 10:00:00,123 - bench - INFO - ",
    "a time, a level, a place": "[2025-01-01 10:00:00,123] [INFO] [run.py:33:main] ",
    "syslog": "Jan 01 10:00:00 node1 app[123]: ",
    "a quotation": "> ",
    "a margin": "    ",
    "a colour": "\x1b[32m\x1b[0m",
}

#: Samples that a kind of text changes by what their formats are.
EXCEPT = {
    "csv": "*",  # headings are the first line; behind others it is any table with headings of nsys
    "openvino/runtime-model.xml": ("blank lines",),  # an XML document begins with its declaration
    "deepspeed": ("a time, a level, a place",),  # it reads the time and the rank there
    # Lists over several lines are arguments as they were written.
    "kineto/graph-capture-of-rocm.pt.trace.json": ("a margin",),
    "kineto/graph-replays-of-rocm.pt.trace.json": ("a margin",),
    # Its objects are lines of a log there, which the reader of logs takes.
    "mapped/results-of-a-script-in-a-list.json": (
        *("a dict of Python", "a banner", "a progress bar", "a warning", "a prompt"),
    ),
}


@cache
def texts() -> list[tuple[str, Path, str]]:
    """Format, path and text of the samples that are texts."""
    found = []
    for fmt in builtin_formats():
        for path in golden.samples_of(fmt.name) if fmt.reads and not fmt.closed else ():
            data = path.read_bytes() if path.is_file() else b"\0"
            if b"\0" in data or data.startswith((b"\x1f\x8b", b"PK", b"\x28\xb5")):
                continue
            try:
                found.append((fmt.name, path, data.decode()))
            except UnicodeDecodeError:
                continue
    return found


def facts_of(text: str | None) -> dict[str, object] | None:
    """The facts of a row, but that a foreign line in a table is a record which can't be read."""
    return {name: value for name, value in json.loads(text).items() if name != "doubts"} if text else None


def rows_of(path: Path) -> dict[str, list[str]] | None:
    """The rows of a file without ids, paths, numbers of lines, and doubts; None where it can't be read."""
    try:
        tables = ktrace.read(path).to_arrow()
    except KtraceError:
        return None
    without = ("id", "parent", "event", "key", "source")
    return {
        record: [
            re.sub(r" \(line \d+\)", "", json.dumps(row, sort_keys=True))
            .replace(str(path.parent), "")
            .replace(str(path.parent.resolve()), "")
            for row in (
                {
                    name: facts_of(value) if name == "facts" else value
                    for name, value in one.items()
                    if name not in without
                }
                for one in table.to_pylist()
            )
        ]
        for record, table in tables.items()
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, dict[str, list[str]] | None]:
    """The rows of each sample, read in a folder of its own."""
    folder, found = tmp_path_factory.mktemp("plain"), {}
    for _, path, text in texts():
        copy = folder / path.name
        copy.write_text(text, "utf-8", newline="")
        found[path] = rows_of(copy)
    return found


def wrapped(kind: str, text: str) -> str:
    """A text with what the kind puts around it."""
    if kind in BEFORE:
        return "".join(BEFORE[kind] + line for line in text.splitlines(keepends=True))
    before, behind = AROUND[kind]
    return before + text + ("\n" if behind and not text.endswith("\n") else "") + behind


@pytest.mark.parametrize("kind", [*AROUND, *BEFORE])
def test_a_text_has_the_same_rows_within_others(
    kind: str, plain: dict[Path, dict[str, list[str]] | None], tmp_path: Path
) -> None:
    number = [*AROUND, *BEFORE].index(kind)
    wrong = []
    for name, path, text in texts()[number % 4 :: 1 if nightly.selected else 4]:
        if plain[path] is None or kind in EXCEPT.get(name, ()) or EXCEPT.get(name) == "*":
            continue
        if kind in EXCEPT.get(f"{name}/{path.name}", ()):
            continue
        copy = tmp_path / path.name
        copy.write_text(wrapped(kind, text), "utf-8", newline="")
        if rows_of(copy) != plain[path]:
            wrong.append(f"{name}/{path.name}")
    assert wrong == []


TABLE = """=== Device Timing Summary ===

                Total Execution Time (ns):             9000000

== L0 Backend ==

    Kernel,       Calls,            Time (ns),     Time (%),         Average (ns),             Min (ns),     Max (ns)
    gemm,           4,              6000000,    75.000000,              1500000,              1400000,    1600000
    relu,           2,              2000000,    25.000000,              1000000,               900000,    1100000
"""


def test_two_layers_and_lines_before_are_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    lines = ["# hello", "{'loss': 1.0}", *TABLE.splitlines()]
    path.write_text("".join(f"web-1  | [2025-01-01 10:00:00] {line}\n" for line in lines))
    trace = ktrace.read(path)
    kernels = trace.summaries[trace.summaries.kind == "kernel"]
    assert kernels[["name", "total"]].values.tolist() == [["gemm", 6_000_000], ["relu", 2_000_000]]
    assert trace.report.issues["wrapped-lines"].places == [("before the lines", "a container, a time")]
    assert trace.report.issues["unrecognised"].places[0] == ("lines 1-2", "")


def test_of_a_text_without_anything_around_it_nothing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(TABLE)
    assert "wrapped-lines" not in ktrace.read(path).report.issues
    source = Source(str(path))
    choose(source)
    assert source.wrapping is None


def test_lines_and_bytes_before_and_behind_are_accounted_for(tmp_path: Path) -> None:
    path = tmp_path / "pasted.md"
    before, behind = "This is what I see:\n\n```text\n", "```\nWhy?\n"
    document = json.dumps({"traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}) + "\n"
    path.write_text(before + document + behind)
    report = ktrace.read(path).report
    assert report.issues["unrecognised"].places == [("lines 1-3", ""), ("lines 5-6", "")]
    assert report.issues["unrecognised"].rows == 5
    assert report.bytes.size == len(before + document + behind)
    assert [tuple(one[:2]) for one in report.bytes.ranges] == [
        (0, len(before)),
        (len(before + document), len(before + document + behind)),
    ]


def test_lines_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("{'loss': 1.0}\n" + TABLE.replace("75.000000", "seventy").replace("    relu", "????\n    relu"))
    places = [place for issue in ktrace.read(path).report.issues.values() for place, _ in issue.places]
    assert places == ["line 1", "lines 9-10"]


def test_a_named_format_is_read_within_others_too(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("".join(f"web-1  | {line}\n" for line in TABLE.splitlines()))
    trace = ktrace.read(path, from_="unitrace")
    assert trace.summaries[trace.summaries.kind == "kernel"].total.tolist() == [6_000_000, 2_000_000]


def test_containers_write_json_around_each_line(tmp_path: Path) -> None:
    path = tmp_path / "c0ffee-json.log"
    lines = [
        json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2025-01-01T10:00:00Z"})
        for line in TABLE.splitlines()
    ]
    path.write_text("\n".join(lines))
    trace = ktrace.read(path)
    assert trace.summaries[trace.summaries.kind == "kernel"].total.tolist() == [6_000_000, 2_000_000]
    assert trace.report.issues["wrapped-lines"].places == [("before the lines", "JSON around each line")]


@pytest.mark.parametrize(
    ("text", "is_json"),
    [
        ("{'loss': 2.3}", False),
        ('{"loss": 2.3}', True),
        (" {}", True),
        ("{", True),
        ("[", True),
        ("[browser:error] x", False),
        ("[05/08/2024-14:05:14] [I] x", False),
        ('[{"ph": "X"}', True),
        ("[[1, 2]]", True),
    ],
)
def test_a_text_is_json_if_it_begins_as_an_object_or_a_list_does(text: str, is_json: bool) -> None:
    assert Sample("x", text.encode()).is_json == is_json


def test_the_first_bare_sample_is_the_text_itself() -> None:
    first = next(bare_samples(Sample("x", b"a\nb\n")))
    assert (first.wrapping, first.sample.head) == (Wrapping(), b"a\nb\n")


@pytest.mark.parametrize(
    ("line", "last"),
    [
        (b" 0%|\r50%|#\r100%|## done\r\n", b"100%|## done\r\n"),
        (b'{"log": "one\rtwo"}\n', b'{"log": "two"}\n'),
        (b"a line of Windows\r\n", b"a line of Windows\r\n"),
        (b"x" * 4_000_000 + b"\n", b"x" * 4_000_000 + b"\n"),
    ],
    ids=("a progress bar", "within quotes", "not drawn again", "four million bytes in as many steps"),
)
def test_of_a_line_drawn_over_itself_the_last_is_what_it_says(line: bytes, last: bytes) -> None:
    assert without_layer("colours", line, b"") == last
