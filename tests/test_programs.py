"""What programs get: JSON by its schema from every command, errors and notes as JSON lines, limits and cursors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import SAMPLES
from jsonschema import Draft202012Validator
from jsonschema_rs import validator_for
from nightly import few
from test_cli import ktrace

from ktrace.analysis.answers.summary import QUESTIONS
from ktrace.analysis.work.groups import BY
from ktrace.cli import cli
from ktrace.cli._programs import json_errors_enabled

SCHEMA = json.loads((Path(__file__).parents[1] / "schema/answers-1.schema.json").read_text("utf-8"))
VALID = validator_for(SCHEMA)
STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
RANKS = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
TABLE = SAMPLES / "table/starts-of-an-accelerator-quoted-with-tabs.csv"


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, words)])


def answer(*words: object, code: int = 0) -> dict[str, Any]:
    """The answer of a command, which its schema allows."""
    result = run(*words, "--format", "json")
    assert result.exit_code == code, (words, result.output, result.exception)
    document: dict[str, Any] = json.loads(result.stdout)
    VALID.validate(document)
    assert document["schema"] == words[0]
    return document


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(run("schema", "--answers").stdout) == SCHEMA
    assert "answers" not in run("schema").stdout.splitlines()[3]
    for document in ({}, {"ktrace": "1", "schema": "summary", "version": "1.0"}, {"error": {"kind": "usage"}}):
        assert not VALID.is_valid(document)


EVERY = sorted(path for path in SAMPLES.glob("*/*") if path.suffix not in (".md", ".toml"))


@pytest.mark.parametrize("path", few(EVERY, lambda path: EVERY.index(path) % 9 == 0), ids=lambda path: path.name)
def test_summary_and_info_of_every_sample(path: Path) -> None:
    info = run("info", path, "--format", "json")
    if info.exit_code:
        assert isinstance(info.exception, Exception)
        return
    VALID.validate(json.loads(info.stdout))
    by = ",".join((*BY, *QUESTIONS))
    found = run("summary", path, "--format", "json", "--by", by)
    VALID.validate(json.loads(found.stdout))


def test_every_command_answers_as_its_schema_says(tmp_path: Path) -> None:
    assert answer("summary", *RANKS)["findings"]
    assert answer("summary", STEP, "--by", "range,op", "--tree")["tables"]["tree"]
    assert "failed" not in answer("diff", *RANKS)
    slow = tmp_path / "slow.json"
    slow.write_text(STEP.read_text("utf-8").replace('"dur": 118.687', '"dur": 1186.87'), "utf-8")
    gated = answer("diff", STEP, slow, "--fail-over", "5%", code=3)
    assert gated["failed"] and {one["code"] for one in gated["findings"]} > {"regression", "time"}
    assert answer("query", STEP, "from kernels")["columns"][0] == {"name": "source", "type": "string"}
    assert answer("query", STEP)["rows"] and answer("query", "--schema")["rows"]
    assert answer("info", *RANKS[:1])["format"] == "kineto"
    assert {"name", "reads"} <= answer("formats")["formats"][0].keys()
    kept = answer("map", TABLE, "-o", tmp_path / "m.toml")
    assert kept["written"] == str(tmp_path / "m.toml") and len(kept["rows"]) == 5
    assert answer("map", TABLE)["written"] is None
    assert answer("validate", SAMPLES / "jsonl/all-records.jsonl")["valid"]
    broken = answer("validate", SAMPLES / "jsonl/broken-line-and-cut-end.jsonl", code=1)
    assert not broken["valid"] and broken["files"][0]["faults"]
    assert answer("convert", STEP, "-o", tmp_path / "a.parquet")["written"] == 75
    parts = answer("convert", STEP, "-o", tmp_path / "p.jsonl", "--split-by", "time=200us")["parts"]
    assert len(parts) > 1 and sum(part["rows"] for part in parts) >= 75
    merged = answer("merge", *RANKS, "-o", tmp_path / "m.perfetto")
    assert len(merged["inputs"]) == len(merged["alignment"]) == 2
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    states = answer("batch", STEP, bad, "-o", tmp_path / "all.parquet", code=1)["inputs"]
    assert {one["state"] for one in states} == {"done", "failed"}


def test_the_account_and_the_output_are_not_mixed() -> None:
    result = run("convert", STEP, "-o", "-", "--to", "csv", "--format", "json")
    assert "--format json writes to standard output, as the output itself does" in str(result.exception)


def errors(*words: object, **environment: str) -> tuple[int, list[dict[str, Any]]]:
    done = ktrace(*words, **environment)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    for line in lines:
        VALID.validate(line)
    return done.returncode, lines


def test_errors_are_json_before_options_are_parsed(tmp_path: Path) -> None:
    code, (line,) = errors("summary", "nothere", "--format", "json")
    assert line["error"] == {
        "kind": "input",
        "message": "no such file",
        "file": "nothere",
        "place": None,
        "expected": None,
        "remedy": "check the spelling and the folder",
        "exit_code": 1,
    }
    for words in (["--bogus"], ["--top", "x"], ["--format=json", "--by"]):
        code, (line,) = errors("summary", STEP, "--format=json", *words)
        assert (code, line["error"]["kind"], line["error"]["exit_code"]) == (2, "usage", 2)
    code, (line,) = errors("nix", KTRACE_ERRORS="json")
    assert (code, line["error"]["remedy"]) == (2, "ktrace --help")
    odd = tmp_path / "odd.bin"
    odd.write_bytes(b"\0\1\2\xff" * 99)
    code, (line,) = errors("info", odd, KTRACE_ERRORS="json")
    assert (code, line["error"]["kind"], line["error"]["file"]) == (1, "unknown_format", str(odd))
    assert ktrace("summary", "nothere", "--format", "json", KTRACE_ERRORS="text").stderr.startswith(b"ktrace: nothere")
    assert ktrace("summary", "nothere").stderr.startswith(b"ktrace: nothere")


def test_notes_and_warnings_are_json_lines(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes(STEP.read_bytes()[:3000])
    code, (line,) = errors("summary", cut, "--format", "json")
    assert (code, line["warning"]["kind"], line["warning"]["severity"]) == (0, "cut", "cut")
    assert line["warning"]["places"][0]["place"].startswith("byte ")
    code, (line,) = errors("convert", STEP, "-o", tmp_path / "o.jsonl", KTRACE_ERRORS="json")
    assert code == 0 and line["note"]["message"].endswith("wrote 75 rows, repaired 0, skipped 0")


def test_only_the_option_itself_asks_for_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KTRACE_ERRORS", raising=False)
    for words, wanted in (
        (["summary", "--format", "json"], True),
        (["summary", "--format=json"], True),
        (["convert", "--to", "json"], False),
        (["summary", "json", "--format", "csv"], False),
    ):
        monkeypatch.setattr("sys.argv", ["ktrace", *words])
        assert json_errors_enabled() is wanted, words


def test_some_tables_some_rows_and_what_follows() -> None:
    every = answer("summary", STEP)["tables"]["kernel"]
    seen, after, told = [], [], 0
    while True:
        part = answer("summary", STEP, "--rows", "4", *(after or ["--tables", "kernel"]))
        assert part["findings"] == [] and [*part["tables"]] == ["kernel"]
        seen += part["tables"]["kernel"]
        told += 1
        if not part["next"]:
            break
        assert part["left_out"]["kernel"] == len(every) - len(seen)
        after = ["--after", part["next"]["kernel"]]
    assert seen == every and told == -(-len(every) // 4) and part["left_out"] == {}
    some = answer("summary", STEP, "--tables", "findings,idle host")
    assert some["findings"] and [*some["tables"]] == ["idle_host"]
    changed = answer("diff", *RANKS, "--rows", "1", "--tables", "kernel,whole")
    assert {len(rows) for rows in changed["tables"].values()} == {1} and changed["next"]["whole"] == "whole:1"


@pytest.mark.parametrize("form", ["json", "csv", "text", "md"])
def test_no_more_bytes_than_asked_for(form: str) -> None:
    whole = run("summary", STEP, "--format", form, "--tables", "kernel,idle_host").stdout
    size = len(whole.encode())
    for most in (size, size - 1, size // 2, 3 * size // 4):
        some = run("summary", STEP, "--format", form, "--tables", "kernel,idle_host", "--bytes", most).stdout
        assert 0 < len(some.encode()) <= most
        assert (some == whole) is (most == size)
        assert len(some.encode()) > most - 700, "a row more would have fitted"
    assert "hold a row" in str(run("summary", STEP, "--format", form, "--bytes", 10).exception)


def test_limits_that_are_wrong() -> None:
    for words, said in (
        (["--tables", "nix"], "there is no table 'nix'"),
        (["--after", "kernel"], "isn't a cursor"),
        (["--after", "nix:3"], "there is no table 'nix'"),
        (["--bytes", "900", "--format", "html"], "can't limit html"),
    ):
        assert said in str(run("summary", STEP, *words).exception), words


def test_csv_of_one_question_is_one_table() -> None:
    heads = {"kernel": "kernel", "idle": "device", "op": "op", "step": "step", "critical-path": "kind"}
    for by, head in heads.items():
        lines = run("summary", STEP, "--by", by, "--format", "csv").stdout.splitlines()
        assert lines[0].split(",")[0] == head and "source" not in lines[0].split(","), by
    assert run("diff", STEP, STEP, "--by", "operation", "--format", "csv").stdout.startswith("operation,a_ns,b_ns")
    assert run("summary", STEP, "--by", "kernel,op", "--format", "csv").stdout.startswith("table,")
    nothing = run("summary", RANKS[0], "--by", "memory", "--format", "csv")
    assert nothing.stdout == "" and "no memory information" in nothing.stderr


def test_a_query_stops_where_nobody_reads_on(tmp_path: Path) -> None:
    lines = [{"ktrace": "1.0"}]
    same = {"record": "event", "source": "a", "dur": 1, "kind": "kernel", "timing": "measured", "name": "k"}
    lines += [same | {"id": number, "ts": number} for number in range(1, 2501)]
    path = tmp_path / "many.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    sql = "select id from events order by id"
    found, after = [], []
    while True:
        part = answer("query", path, sql, *after)
        found += [row["id"] for row in part["rows"]]
        if part["next"] is None:
            break
        assert part["left_out"] == 2500 - len(found)
        after = ["--after", part["next"]]
    assert found == [*range(1, 2501)]
    text = run("query", path, sql).stdout.splitlines()
    assert (
        len(text) == 1003 and text[-2] == "... and 1,500 more" and text[-1].startswith("More rows: --after rows:1000")
    )
    assert len(run("query", path, sql, "--rows", 2500).stdout.splitlines()) == 2501
    for form in ("csv", "jsonl"):
        assert len(run("query", path, sql, "--format", form).stdout.splitlines()) == 2500 + (form == "csv")
        some = run("query", path, sql, "--format", form, "--rows", 3, "--after", "rows:10")
        assert [line.strip('{"id: }') for line in some.stdout.splitlines()][-3:] == ["11", "12", "13"]
        assert "left out: 2,487 rows; they begin with --after rows:13" in some.stderr
    json_file = tmp_path / "all.json"
    run("query", path, sql, "-o", json_file)
    assert len(json.loads(json_file.read_text())["rows"]) == 2500, "a file has all"
    for form in ("json", "csv", "jsonl", "table"):
        assert 300 < len(run("query", path, sql, "--format", form, "--bytes", 400).stdout) <= 400, form
    assert "a row cursor" in str(run("query", path, sql, "--after", "kernel:3").exception)


def test_ratios_have_six_digits_and_times_are_exact() -> None:
    for row in answer("summary", RANKS[0])["tables"]["kernel"]:
        assert isinstance(row["time_ns"], int) and len(repr(row["share_percent"]).replace(".", "").lstrip("0")) <= 6
