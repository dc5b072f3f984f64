"""Which format an input is, and what is said where that is unclear."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ktrace
import ktrace.input.detection
from ktrace.errors import AmbiguousFormat, ClosedFormat, InputError, UnknownFormat, UsageError
from ktrace.input.detection import by_name, choose, detect, detect_sample
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample, Source
from ktrace.pipeline.propose import propose


def fake(name: str, match: Match | None) -> Any:
    return SimpleNamespace(
        logged="",
        name=name,
        reads=True,
        prose=False,
        words=(),
        max_score=Score.MAGIC,
        recognised=lambda sample: match,
        may_be=lambda *_: True,
    )


def test_the_best_match_stands_first_and_near_misses_last() -> None:
    formats = (
        fake("near", Match(Score.NEAR, "no header")),
        fake("shape", Match(Score.SHAPE, "columns")),
        fake("none", None),
        fake("dialect", Match(Score.DIALECT, "its words")),
    )
    assert [match.format for match in detect_sample(Sample("x"), formats)] == ["dialect", "shape", "near"]


def test_two_formats_that_are_equally_sure_are_an_error_that_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_text("x")
    rivals = (fake("one", Match(Score.DIALECT, "has a")), fake("two", Match(Score.DIALECT, "has b")))
    monkeypatch.setattr(ktrace.input.detection, "builtin_formats", lambda: rivals)
    monkeypatch.setattr(ktrace.input.detection, "all_formats", lambda: rivals)
    with pytest.raises(AmbiguousFormat, match=r"one \(has a\), two \(has b\)") as caught:
        choose(Source(str(path)))
    assert "--from" in str(caught.value.remedy)


def test_an_empty_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    with pytest.raises(InputError, match="is empty"):
        choose(Source(str(tmp_path / "empty.log")))


def test_an_unknown_input_is_explained(tmp_path: Path) -> None:
    for data in (b"what is this\n", bytes(range(256)) * 4):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(UnknownFormat, match="unrecognised format"):
            choose(Source(str(tmp_path / "x")))


def test_what_is_nearest_goes_by_content_and_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("nothing that anybody knows\n")
    with pytest.raises(UnknownFormat) as caught:
        choose(Source(str(tmp_path / "run.log")))
    assert caught.value.what == "unrecognised format (a text that begins with 'nothing that anybody knows')"
    (tmp_path / "run.json").write_text("Kernel,Calls,Duration\nk,1,2\n")
    with pytest.raises(UnknownFormat) as caught:
        choose(Source(str(tmp_path / "run.json")))
    assert caught.value.what.split("\n    ")[1:] == ["table: the table in line 1 has names, but no unit of time"]


def test_times_without_a_unit_are_why_lines_of_json_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    line = '{"kind": "kernel", "name": "%s", "ts%s": %d, "dur%s": 200, "device": 0, "stream": 7}\n'
    path.write_text("".join(line % (name, "", ts, "") for name, ts in (("gemm", 1000), ("softmax", 1300))))
    with pytest.raises(UnknownFormat) as caught:
        choose(Source(str(path)))
    assert caught.value.what.endswith("; ktrace map finds that ts and dur have no unit")
    assert (caught.value.remedy or "").startswith("ktrace map ")
    path.write_text("".join(line % (name, "_us", ts, "_us") for name, ts in (("gemm", 1000), ("softmax", 1300))))
    assert choose(Source(str(path))).name == "mapped"


SEEN: dict[str, tuple[bytes, str]] = {
    "an object": (b'{"loss": [1, {"x": 2}], "lr": 1, "note": "a, b"}', "a JSON object with the keys loss, lr, note"),
    "one key": (b'{"loss": 1}', "a JSON object with the key loss"),
    "a cut object": (b'{"loss": 1, "lr": [1, 2', "a JSON object with the keys loss, lr"),
    "many keys": (
        b"{%s}" % b", ".join(b'"k%d": 1' % n for n in range(20)),
        "the keys k0, k1, k2, k3, k4, k5, k6, k7, ...",
    ),
    "a list": (b'[{"loss": 1, "lr": 2}, {"other": 3}]', "a JSON list of objects with the keys loss, lr"),
    "deep": (b'{"a": ' + b"[" * 100_000, "a JSON object with the key a"),
    "a table": (b"colour,price\nred,3\n", "a table separated by commas with the headings colour, price"),
    "a sentence": (b"red, green\nand blue\n", "a text that begins with 'red, green' and 'and blue'"),
    "prose": (b"a, b\nc, d\n", "a text that begins with 'a, b' and 'c, d'"),
    "a terminal": (b"\x1b[31mred\n", r"a text that begins with '\x1b[31mred'"),
    "bytes": (bytes(range(256)), "binary data that begins with the bytes 00 01 02 03 04 05 06 07"),
    "blanks": (b" \n\n", "a text with only blank lines"),
}


@pytest.mark.parametrize("name", SEEN)
def test_an_unknown_input_says_what_was_seen(tmp_path: Path, name: str) -> None:
    data, seen = SEEN[name]
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(UnknownFormat) as caught:
        choose(Source(str(tmp_path / "x")))
    first = caught.value.what.splitlines()[0]
    assert first.startswith("unrecognised format (")
    assert re.search(re.escape(seen) + r"(?:\)|; (?:no number|1 line|\d+ lines))", first)


@pytest.mark.parametrize(("text", "what"), [("[]", "list"), ("{ }\n", "object"), ("[\n]\n", "list")])
def test_an_empty_document_is_called_empty(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError) as caught:
        choose(Source(str(tmp_path / "x.json")))
    assert caught.value.what == f"is empty: a JSON {what} without anything in it"
    assert "--from" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("| Kernel | Calls | Duration |\n|---|---|---|\n| a | 3 | 4 |\n", "has names, but no unit of time"),
        ("| Name | Count |\n|---|---|\n| a | 3 |\n", "has names, but no unit of time"),
        ("Kernel  Calls  Duration\na           3         4\n", "has names, but no unit of time"),
        ("kernel,count,wait_us\ngemm,3,4\n", "has names, but no time of their own: 'wait_us' is none"),
    ],
)
def test_a_table_is_refused_for_what_it_lacks_with_the_command_that_reads_it(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    with pytest.raises(UnknownFormat) as caught:
        choose(Source(str(path)))
    assert f"table: the table in line 1 {says}" in caught.value.what
    assert caught.value.remedy and caught.value.remedy.startswith(f"ktrace map {path} shows")
    proposal = propose(str(path))
    assert not proposal.lacks and ktrace.read(path, map=proposal.mapping().text()).summaries.name.tolist() != []


def test_a_mapping_isn_t_proposed_where_there_can_be_none(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a":"x"}\n{"a":"y"}\n')
    with pytest.raises(UnknownFormat) as caught:
        choose(Source(str(path)))
    assert "no column has starts, and none has figures" in caught.value.what
    assert "ktrace map" not in (caught.value.remedy or "")


def test_a_near_miss_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"record":"event","source":"a","id":1}\n')
    with pytest.raises(UnknownFormat, match="jsonl: "):
        choose(Source(str(tmp_path / "x.jsonl")))


def test_a_folder_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        choose(Source(str(tmp_path)))


@pytest.mark.parametrize(
    ("name", "command"),
    [("run.nsys-rep", "nsys export"), ("run.qdrep", "nsys export"), ("run.ncu-repz", "ncu --import")],
)
def test_a_closed_file_names_the_vendors_export_command(
    tmp_path: Path, name: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTRACE_NSYS", "")
    (tmp_path / name).write_bytes(b"\x01\x00binary\x00" * 20)
    with pytest.raises(ClosedFormat) as caught:
        choose(Source(str(tmp_path / name)))
    assert command in str(caught.value.remedy)


@pytest.mark.parametrize(("name", "command"), [("run.trace", "xctrace export"), ("run.gputrace", "xctrace record")])
def test_a_closed_folder_says_what_can_be_done(tmp_path: Path, name: str, command: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "data.bin").write_bytes(b"\0")
    with pytest.raises(ClosedFormat) as caught:
        choose(Source(str(tmp_path / name)))
    assert command in str(caught.value.remedy)


def test_an_unknown_format_name_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match="no format 'nonsense'") as caught:
        by_name("nonsense")
    assert "doppler" in str(caught.value.expected)


def test_detect_opens_the_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        detect(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("score", "small", "asked"),
    [
        (Score.DIALECT, True, False),
        (Score.SHAPE, True, True),
        (Score.DIALECT, False, True),
        (Score.MAGIC, False, False),
    ],
)
def test_other_packages_are_asked_where_ours_are_not_sure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, score: Score, small: bool, asked: bool
) -> None:
    (tmp_path / "x").write_text("x" * 100)
    scans: list[str] = []
    monkeypatch.setattr(ktrace.input.detection, "SMALL", 1000 if small else 10)
    monkeypatch.setattr(ktrace.input.detection, "builtin_formats", lambda: (fake("ours", Match(score, "words")),))
    monkeypatch.setattr(ktrace.input.detection, "plugin_formats", lambda: scans.append("scan") or ())
    monkeypatch.setattr(ktrace.input.detection, "by_name", lambda name: name)
    assert str(choose(Source(str(tmp_path / "x")))) == "ours"
    assert bool(scans) == asked


def test_probes_that_any_input_is_asked_about_load_neither_numpy_nor_pyarrow() -> None:
    """They are imported before anything is known about an input; others where its words are those of the format."""
    script = (
        "import sys\nfrom ktrace.input.format import Score, builtin_formats\n"
        "for fmt in builtin_formats():\n"
        "    if not fmt.words and not fmt.database and fmt.max_score > Score.SHAPE:\n        fmt.function('probe')\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "ktrace" in loaded
    assert not {"numpy", "pyarrow", "pandas", "msgspec", "google"} & set(loaded)


@pytest.mark.parametrize(
    ("text", "is_shown"),
    [
        ("name,latency\nmatmul,100\nrelu,20\nsoftmax,30\n", True),  # both columns are named by their headings
        ("id,comment\n1,hello\n2,there\n", False),
        ("to do, today\nbuy milk, 2\ncall mum, 3\n", False),
    ],
)
def test_a_name_and_a_time_without_a_unit_are_pointed_at_map(text: str, is_shown: bool, tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text(text)
    with pytest.raises(UnknownFormat) as error:
        ktrace.read(path)
    assert ("ktrace map " in str(error.value)) is is_shown
