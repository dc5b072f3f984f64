"""The tools of `ktrace mcp`, called directly: what they answer, their limits, and what they say of errors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import MADE_FOLDERS, SAMPLES
from idle_traces import host, work, written
from jsonschema import Draft202012Validator
from nightly import few

import ktrace
from ktrace.analysis.answers.mcp.access import Access
from ktrace.analysis.answers.mcp.session import Session

pytest.importorskip("mcp", reason="the extra mcp isn't installed")
pytest.importorskip("duckdb", reason="duckdb isn't installed")

from ktrace.analysis.answers.mcp.server import answered
from ktrace.analysis.answers.mcp.tools import TOOLS
from ktrace.analysis.answers.query.children import Children

STEP = "kineto/one-step-of-training.pt.trace.json"
RANKS = "kineto/collectives-of-two-ranks-rank*.json"
PHASES = "kineto/phases-of-inference.pt.trace.json"
MEMORY = "kineto/memory-events-counters-profiler-range.json"


#: The processes of queries, for all tests.
CHILDREN = Children(2)


@pytest.fixture(scope="module", autouse=True)
def _children() -> Iterator[None]:
    yield
    CHILDREN.close()


def serving(*folders: Path, memory: int = 1 << 30, export_to: Path | None = None) -> Session:
    return Session(Access(folders or (SAMPLES,), export_to), memory, CHILDREN)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return serving(export_to=tmp_path)


def ask(session: Session, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer, which is as the tool's schema says."""
    answer = json.loads(json.dumps(answered(session, tool, arguments), allow_nan=False))
    Draft202012Validator(TOOLS[tool].answers).validate(answer)
    return answer


def opened(session: Session, path: str = STEP) -> str:
    return str(ask(session, "open", path=path)["handle"])


def rows(answer: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The rows of a table as objects."""
    (table,) = [one for one in answer["tables"] if one["name"] == name]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def fault(session: Session, tool: str, **arguments: Any) -> dict[str, str]:
    answer = answered(session, tool, arguments)
    assert list(answer) == ["error"], answer
    if tool in TOOLS:
        Draft202012Validator(TOOLS[tool].answers).validate(answer)
    return dict(answer["error"])


def test_open_says_what_a_trace_is(session: Session) -> None:
    answer = ask(session, "open", path=STEP)
    events = ktrace.read(SAMPLES / STEP).events
    assert answer["format"] == ["kineto"]
    assert answer["rows"]["events"] == len(events)
    assert answer["span"]["begin_ns"] == events["ts"].min()
    assert answer["devices"] == ["device 0, NVIDIA H100 80GB HBM3"]
    assert answer["steps"] == ["ProfilerStep#3"]
    assert answer["phases"] == []
    assert ask(session, "open", path=PHASES)["phases"][:2] == ["decode", "prefill"]
    assert len(ask(session, "open", path=RANKS)["sources"]) == 2


def test_open_tells_what_was_left_out(session: Session) -> None:
    notes = ask(session, "open", path="kineto/raw-control-bytes-nan-cut-in-the-last-event.json")["notes"]
    assert any("cut" in note for note in notes)
    assert not any("cut" in note for note in ask(session, "open", path=STEP)["notes"])


def test_a_trace_is_read_once_until_it_changes(session: Session, tmp_path: Path) -> None:
    own = serving(tmp_path)
    shutil.copy(SAMPLES / STEP, tmp_path / "run.json")
    first = opened(own, "run.json")
    assert opened(own, "run.json") == first
    shutil.copy(SAMPLES / PHASES, tmp_path / "run.json")
    assert opened(own, "run.json") != first


def test_findings_are_those_of_the_summary(session: Session) -> None:
    answer = ask(session, "findings", handle=opened(session))
    summary = ktrace.summary(SAMPLES / STEP)
    assert answer["verdict"] == summary.verdict
    assert [one["code"] for one in answer["findings"]] == [one.code for one in summary.findings]
    assert {one["code"]: one["value"] for one in answer["findings"]}["heaviest.operation"] == 249_629


def test_clocks_are_repaired_where_that_is_asked_for(tmp_path: Path) -> None:
    """Two handles of one file; what is exported of the repaired one says so."""
    run = []
    for number in range(1, 21):
        now = 100_000 * number
        run += [host("cudaLaunchKernel", now, now + 5_000, number), work("gemm", now - 15_000, now + 60_000, number)]
    session = serving(tmp_path, export_to=tmp_path)
    path = str(written(tmp_path / "run.jsonl", run))
    codes = {}
    for repair in (False, True):
        handle = ask(session, "open", path=path, repair_clock=repair)["handle"]
        codes[repair] = {one["code"]: one for one in ask(session, "findings", handle=handle)["findings"]}
        out = ask(session, "export", handle=handle, name=f"{repair}.parquet")["path"]
        assert any(one.code == "check.clock_repaired" for one in ktrace.summary(out).checks) is repair
    assert "check.cause_after_effect" in codes[False] and "check.clock_repaired" not in codes[False]
    assert "check.cause_after_effect" not in codes[True] and codes[True]["check.clock_repaired"]["value"] == 15_000


def test_findings_since_another_trace_are_those_of_the_diff(session: Session) -> None:
    a, b = (opened(session, RANKS.replace("*", rank)) for rank in "01")
    answer = ask(session, "findings", handle=b, before=a)
    diff = ktrace.diff(*(SAMPLES / RANKS.replace("*", rank) for rank in "01"))
    assert [one["code"] for one in answer["findings"]] == [one.code for one in diff.findings]
    assert [one["value"] for one in answer["findings"]] == [one.value for one in diff.findings]


@pytest.mark.parametrize("by", [[], ["layer"], ["stream", "critical-path"]])
def test_an_overview_is_the_summary(session: Session, by: list[str]) -> None:
    handle = opened(session)
    answer = ask(session, "overview", handle=handle, **({"by": by} if by else {}))
    summary = ktrace.summary(SAMPLES / STEP, by=by or None)
    assert answer["verdict"] == [*summary.verdict, *summary.advice]
    assert rows(answer, "overview")[0]["total_ns"] == summary.total
    if not by:
        assert [row["time_ns"] for row in rows(answer, "kernel")] == [one.total for one in summary.groups["kernel"]]
    if by == ["layer"]:
        assert "This input has no layer information." in answer["notes"]
    if "critical-path" in by:
        assert [row["time_ns"] for row in rows(answer, "stream")] == [one.total for one in summary.groups["stream"]]
        assert rows(answer, "critical_path")[0]["kind"] == "step"


ANSWERS = [
    ("idle", STEP, "idle", "cause", "host late"),
    ("op", STEP, "op", "op", "aten::addmm"),
    ("phase", PHASES, "phase", "phase", "decode"),
    ("collectives", RANKS, "collective", "collective", "all_reduce"),
    ("memory", MEMORY, "memory", None, None),
]


@pytest.mark.parametrize(("tool", "path", "name", "column", "value"), ANSWERS, ids=[one[0] for one in ANSWERS])
def test_a_question_is_that_of_the_summary(
    session: Session, tool: str, path: str, name: str, column: str | None, value: str | None
) -> None:
    answer = ask(session, tool, handle=opened(session, path), rows=1000, bytes=1_000_000)
    found = {table["name"]: table for table in answer["tables"]}
    inputs = sorted(map(str, SAMPLES.glob(path)))
    for table in ktrace.summary(inputs, by=[name]).answers[name].tables():
        assert len(found[table.key]["rows"]) == len(table.rows)
    if column is not None:
        assert value in [row[column] for row in rows(answer, name)]
    assert not any("no " + name in note for note in answer["notes"])


@pytest.mark.parametrize(("tool", "path"), [("phase", STEP), ("memory", STEP), ("collectives", PHASES), ("op", RANKS)])
def test_what_a_trace_lacks_is_said_with_how_to_record_it(session: Session, tool: str, path: str) -> None:
    answer = ask(session, tool, handle=opened(session, path))
    assert answer["tables"] == []
    assert [note for note in answer["notes"] if note.startswith("This input has no ")]
    assert any("torch.profiler" in note or "NCCL" in note for note in answer["notes"])


def test_kernels_are_found_by_name_with_their_longest_launches(session: Session) -> None:
    answer = ask(session, "kernel", handle=opened(session), name="GEMM")
    kernels = ktrace.read(SAMPLES / STEP).classify().events
    gemm = kernels[(kernels["kind"] == "kernel") & kernels["short_name"].str.contains("gemm")]
    assert sum(row["time_ns"] for row in rows(answer, "kernel")) == gemm["dur"].sum() == 249_629
    launches = rows(answer, "launches")
    assert [row["dur"] for row in launches] == sorted(gemm["dur"], reverse=True)
    assert {row["id"] for row in launches} == set(gemm["id"])
    assert ask(session, "kernel", handle="t1", name="no such")["tables"][0]["rows"] == []
    assert ask(session, "kernel", handle="t1", name="*gemm")["tables"][0]["rows"] == []


def test_operators_are_found_by_name(session: Session) -> None:
    answer = ask(session, "op", handle=opened(session), by=["op", "api"], name="launchkernel")
    assert rows(answer, "op") == []
    assert {row["call"] for row in rows(answer, "api")} == {"cudaLaunchKernel", "cudaLaunchKernelExC"}


def test_a_window_has_what_overlaps_it(session: Session) -> None:
    handle = opened(session)
    events = ktrace.read(SAMPLES / STEP).events
    begin, end = 300_000, 420_000
    inside = events[(events["ts"] < end) & (events["ts"] + events["dur"].fillna(0) >= begin)]
    found, cursor = [], {}
    while True:
        answer = ask(session, "window", handle=handle, begin_ns=begin, end_ns=end, rows=7, **cursor)
        found += [row["id"] for row in rows(answer, "window")]
        (table,) = answer["tables"]
        assert len(found) + table["more"] == len(inside)
        if table["next"] is None:
            break
        cursor = {"cursor": table["next"]}
    assert len(found) > 7
    assert found == list(inside.sort_values(["ts", "id"])["id"])
    only = ask(session, "window", handle=handle, begin_ns=begin, end_ns=end, kinds=["kernel"])
    assert {row["kind"] for row in rows(only, "window")} == {"kernel"}


def test_two_traces_are_compared(session: Session) -> None:
    a, b = opened(session, STEP), opened(session, RANKS)
    answer = ask(session, "compare", a=a, b=b)
    diff = ktrace.read(SAMPLES / STEP).diff(
        ktrace.summary(sorted(SAMPLES.glob(RANKS)), by=["kernel", "operation", "step"])
    )
    assert rows(answer, "whole")[0]["change_ns"] == round(diff.whole.delta, 3)
    assert [row["operation"] for row in rows(answer, "operation")][:1] == [diff.rows["operation"][0].key]
    only = ask(session, "compare", a=a, b=b, by=["idle"])
    assert [table["name"] for table in only["tables"]][1] == "idle"


def test_sql_is_answered_page_by_page(session: Session) -> None:
    handle = opened(session)
    sql = "select id, dur from kernels where dur > $least order by dur desc"
    expected = ktrace.query(SAMPLES / STEP, sql, {"least": 5000}).to_pylist()
    answer = ask(session, "query", handle=handle, sql=sql, params={"least": 5000}, rows=4)
    (table,) = answer["tables"]
    assert table["more"] == len(expected) - 4
    found = rows(answer, table["name"])
    while (cursor := answer["tables"][0]["next"]) is not None:
        answer = ask(session, "query", handle=handle, cursor=cursor, rows=4)
        found += rows(answer, table["name"])
    assert found == expected


EVERY: dict[str, list[dict[str, Any]]] = {
    "findings": [{}],
    "overview": [{}, {"by": ["kernel", "layer", "run", "critical-path", "roofline", "queue", "launch", "request"]}],
    **{name: [{}] for name in ("idle", "phase", "collectives", "memory")},
    "kernel": [{"name": "a"}],
    "op": [{"by": ["op", "module", "range", "api"]}],
    "window": [{"begin_ns": 0, "end_ns": 10**15}],
    "query": [{"sql": "from events"}, {"sql": "from summaries"}],
}


@pytest.mark.parametrize("folder", few(MADE_FOLDERS, lambda name: name in ("mlc", "rpd", "ncu")))
def test_every_tool_answers_about_every_sample(session: Session, folder: str) -> None:
    for path in sorted((SAMPLES / folder).iterdir()):
        if path.suffix == ".toml":
            continue
        answer = answered(session, "open", {"path": str(path)})
        if "error" in answer:
            assert answer["error"]["kind"] not in ("internal", "ktrace")
            continue
        for tool, several in EVERY.items():
            for arguments in several:
                answer = ask(session, tool, handle=session.open(str(path)).name, **arguments)
                assert len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()) <= 16_000
                names = [table["name"] for table in answer.get("tables", [])]
                assert len(names) == len(set(names))


@pytest.mark.parametrize("view", ["events", "kernels", "launches", "summaries", "links", "catalog"])
@pytest.mark.parametrize("path", [STEP, RANKS, "doppler/prefill-and-three-decodes.log"])
def test_the_views_are_those_of_query(session: Session, view: str, path: str) -> None:
    found = session.ask(session.open(path), f"from {view} order by all", rows=10_000)
    inputs = sorted(map(str, SAMPLES.glob(path)))
    assert found.to_pylist() == ktrace.query(inputs, f"from {view} order by all", classify=True).to_pylist()


def test_an_answer_of_sql_ends_at_a_limit_and_says_so(session: Session) -> None:
    handle = opened(session)
    answer = ask(session, "query", handle=handle, sql="select i from range(1000000) t(i)", rows=10)
    assert answer["tables"][0]["more"] == 1_990
    assert answer["notes"] == ["The answer has 2,000 rows or more; those after them are left out."]
    notes = ask(session, "query", handle=handle, sql="from kernels")["notes"]
    assert not any("left out" in note and "rows" in note for note in notes)


NOT_ANSWERED = {
    "a file": ("from read_csv('/etc/passwd')", "file system operations are disabled"),
    "a file by its name": ("from '/etc/passwd'", "does not exist"),
    "a copy": ("copy kernels to 'kernels.csv'", "COPY isn't a query"),
    "a database": ("attach 'run.db'", "ATTACH isn't a query"),
    "an extension": ("install httpfs", "isn't a query"),
    "a setting": ("set enable_external_access = true", "SET isn't a query"),
    "a change": ("create table mine as from kernels", "CREATE isn't a query"),
    "two": ("select 1; select 2", "these are 2 statements"),
    "none": ("", "there is no query"),
    "an unknown column": ("select nam from kernels", 'Referenced column "nam" not found'),
}


@pytest.mark.parametrize("case", NOT_ANSWERED)
def test_sql_sees_the_trace_alone(session: Session, case: str) -> None:
    sql, said = NOT_ANSWERED[case]
    error = fault(session, "query", handle=opened(session), sql=sql)
    assert error["kind"] == "usage"
    assert said in error["message"]


def test_a_query_leaves_out_columns_without_a_value_and_names_them(session: Session) -> None:
    handle = opened(session)
    answer = ask(
        session, "query", handle=handle, sql="select 1 as one, null as none, 2 as two union all select 3, null, 4"
    )
    assert answer["tables"][0]["columns"] == ["one", "two"]
    assert answer["tables"][0]["rows"] == [[1, 2], [3, 4]]
    assert answer["notes"] == ["Columns without a value are left out: none."]
    answer = ask(session, "query", handle=handle, sql="select 1 as one, null as part union all select null, 2")
    assert answer["tables"][0]["columns"] == ["one", "part"]
    assert answer["notes"] == []
    answer = ask(session, "query", handle=handle, sql="select null as none")
    assert (answer["tables"][0]["columns"], answer["tables"][0]["rows"]) == (["none"], [[None]])


def test_a_query_that_takes_too_long_is_stopped(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = opened(session)
    sql = "select count(*) from range(100000) a(i), range(100000) b(j), range(100000) c(k) where i + j = k"
    with monkeypatch.context() as short:
        short.setattr("ktrace.analysis.answers.mcp.session.SECONDS", 0.2)
        assert fault(session, "query", handle=handle, sql=sql)["message"] == "the query took longer than 0.2 s"
    assert ask(session, "query", handle=handle, sql="select 1 as one")["tables"][0]["rows"] == [[1]]


def test_a_query_that_takes_too_much_memory_is_stopped() -> None:
    session = serving(memory=64 << 20)
    error = fault(session, "query", handle=opened(session), sql="select list(i) from range(1000000000) t(i)")
    assert error["message"] == "the query takes more than 64 MiB of memory"
    assert error["kind"] == "memory"


def test_an_export_is_a_trace_in_the_folder_for_exports(session: Session, tmp_path: Path) -> None:
    answer = ask(session, "export", handle=opened(session), name="whole.parquet")
    assert answer["path"] == str(tmp_path / "whole.parquet")
    assert answer["format"] == "parquet"
    assert answer["bytes"] == (tmp_path / "whole.parquet").stat().st_size
    events = ktrace.read(SAMPLES / STEP).events
    assert len(ktrace.read(tmp_path / "whole.parquet").events) == len(events)
    ask(session, "export", handle="t1", name="part.parquet", begin_ns=300_000, end_ns=420_000)
    part = ktrace.read(tmp_path / "part.parquet").events
    assert list(part["id"]) == list(ktrace.read(SAMPLES / STEP).crop(ktrace.Crop(time="200us..320us")).events["id"])
    assert fault(session, "export", handle="t1", name="whole.parquet")["kind"] == "output"
    assert fault(session, "export", handle="t1", name="../whole.parquet")["kind"] == "refused"
    assert fault(session, "export", handle="t1", name="run.unknown")["kind"] == "usage"
    assert {path.name for path in tmp_path.iterdir()} == {"whole.parquet", "part.parquet"}


def test_what_changed_since_it_was_opened_is_not_exported(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "out").mkdir()
    shutil.copy(SAMPLES / STEP, tmp_path / "data/run.json")
    shutil.copy(SAMPLES / PHASES, tmp_path / "secret.json")
    own = serving(tmp_path / "data", export_to=tmp_path / "out")
    handle = opened(own, "run.json")
    shutil.copy(SAMPLES / PHASES, tmp_path / "data/run.json")
    assert fault(own, "export", handle=handle, name="run.csv")["message"] == "has changed since it was opened"
    (tmp_path / "data/run.json").unlink()
    (tmp_path / "data/run.json").symlink_to(tmp_path / "secret.json")
    assert fault(own, "export", handle=handle, name="run.csv")["kind"] == "refused"
    assert list((tmp_path / "out").iterdir()) == []


def test_answers_keep_to_rows_and_bytes_and_cursors_go_on(session: Session) -> None:
    handle = opened(session)
    whole = ask(session, "overview", handle=handle, rows=1000, bytes=1_000_000)
    expected = rows(whole, "kernel")
    answer = ask(session, "overview", handle=handle, rows=5)
    assert all(len(table["rows"]) <= 5 for table in answer["tables"])
    found = rows(answer, "kernel")
    (table,) = [one for one in answer["tables"] if one["name"] == "kernel"]
    assert table["more"] == len(expected) - 5
    while table["next"] is not None:
        (table,) = ask(session, "overview", handle=handle, rows=5, cursor=table["next"])["tables"]
        found += [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert found == expected


@pytest.mark.parametrize("limit", [1_000, 4_000])
def test_an_answer_has_at_most_so_many_bytes(session: Session, limit: int) -> None:
    handle = opened(session)
    for tool in ("idle", "op"):
        answer = ask(session, tool, handle=handle, rows=1000, bytes=limit)
        assert len(json.dumps(answer, separators=(",", ":"))) <= limit
    more = sum(table["more"] for table in answer["tables"])
    assert (more == 0) == (limit == 4_000)


FAULTS = {
    "no tool": ("explain", {}, "usage", "there is no tool 'explain'"),
    "no handle": ("idle", {}, "usage", "idle: 'handle' is a required property"),
    "a handle that isn't open": ("idle", {"handle": "t9"}, "usage", "no trace is open as 't9'"),
    "a word too many": ("idle", {"handle": "t1", "top": 3}, "usage", "('top' was unexpected)"),
    "too few rows": ("idle", {"handle": "t1", "rows": 0}, "usage", "0 is less than the minimum of 1"),
    "too many rows": ("idle", {"handle": "t1", "rows": 10**6}, "usage", "greater than the maximum"),
    "another table's cursor": ("idle", {"handle": "t1", "cursor": "op:1"}, "usage", "there is no table 'op'"),
    "no cursor": ("idle", {"handle": "t1", "cursor": "idle"}, "usage", "'idle' isn't a cursor"),
    "an old cursor": ("query", {"handle": "t1", "cursor": "q99:1"}, "usage", "no answer 'q99'"),
    "no SQL": ("query", {"handle": "t1"}, "usage", "there is no query"),
    "no input": ("open", {"path": "kineto/none.json"}, "input", "there is no such file"),
    "no trace": ("open", {"path": "README.md"}, "unknown_format", "unrecognised format"),
    "no format": ("open", {"path": STEP, "format": "none"}, "usage", "none"),
    "elsewhere": ("open", {"path": "/etc/passwd"}, "refused", "isn't in an allowed folder"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_an_error_says_what_is_wrong_and_how_to_mend_it(session: Session, case: str) -> None:
    tool, arguments, kind, message = FAULTS[case]
    opened(session)
    error = fault(session, tool, **arguments)
    assert error["kind"] == kind
    assert message in error["message"]
    assert "Traceback" not in json.dumps(error)
    assert error.get("expected") or error.get("remedy") or kind == "input"


def test_a_bug_is_an_answer_too(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("so it is")

    monkeypatch.setattr(Session, "get", broken)
    error = fault(session, "idle", handle="t1")
    assert error == {"kind": "internal", "message": "RuntimeError: so it is: this is a bug in ktrace"}


def test_the_trace_used_least_recently_gives_way(session: Session) -> None:
    paths = (STEP, PHASES, RANKS)
    for path in paths:
        ask(session, "findings", handle=opened(session, path))
    size = sum(session.get(f"t{number}").nbytes for number in (1, 2, 3))
    assert ask(session, "findings", handle="t1")["findings"], "all fit"
    small = serving(memory=size - 1)
    first, second = opened(small, STEP), opened(small, PHASES)
    ask(small, "findings", handle=first)
    third = opened(small, RANKS)
    error = fault(small, "findings", handle=second)
    assert error["message"] == "'t2' was closed, since other traces needed its memory"
    assert (error["file"], error["remedy"].partition(";")[0]) == (str(SAMPLES / PHASES), "open it again")
    assert ask(small, "findings", handle=first)["findings"]
    assert ask(small, "findings", handle=third)["findings"]


def test_a_trace_that_is_too_large_is_refused_and_nothing_stays(session: Session) -> None:
    small = serving(memory=1_000)
    error = fault(small, "open", path=STEP)
    assert error["message"] == "takes more than 1,000 bytes of memory"
    assert "--memory" in error["remedy"]
    assert fault(small, "idle", handle="t1")["expected"] == "none is open"


def test_a_begin_and_an_end_are_one_row(tmp_path: Path) -> None:
    halves = [
        {"ph": ph, "name": "f", "pid": 1, "tid": 1, "ts": 10 * number + (ph == "E")}
        for number in range(144)
        for ph in "BE"
    ]
    (tmp_path / "run.json").write_text(json.dumps({"traceEvents": halves}))
    assert ask(serving(tmp_path), "open", path="run.json")["rows"]["events"] == 144
    info = ktrace.inspect(tmp_path / "run.json").to_dict()
    assert info["rows"] == sum(one["rows"] for one in info["contents"]) == 144
    assert info["records"] == 288


def test_times_of_memory_are_those_of_a_window(session: Session) -> None:
    """A window of 1 ns at the time of the peak has the allocation that makes it."""
    handle = opened(session, MEMORY)
    (use, *_) = [one for one in rows(ask(session, "memory", handle=handle), "memory") if one["at_ns"] is not None]
    span = ask(session, "open", path=MEMORY)["span"]
    assert span["begin_ns"] <= use["at_ns"] <= span["end_ns"]
    found = ask(session, "window", handle=handle, begin_ns=use["at_ns"], end_ns=use["at_ns"] + 1, kinds=["alloc"])
    assert rows(found, "window")


def test_an_empty_answer_says_why(session: Session) -> None:
    handle = opened(session)
    begin, end = ask(session, "open", path=STEP)["span"].values()

    def notes(tool: str, **arguments: Any) -> list[str]:
        return list(ask(session, tool, handle=handle, **arguments)["notes"])

    assert notes("window", begin_ns=end + 10, end_ns=end + 20) == [
        f"The interval is outside of the trace, which lasts from {begin} to {end} ns."
    ]
    assert notes("window", begin_ns=end, end_ns=begin) == ["The interval ends before it begins."]
    assert notes("window", begin_ns=begin, end_ns=end, kinds=["graph"])[0].startswith(
        "The trace has no events of kind graph; it has api"
    )
    assert notes("window", begin_ns=begin, end_ns=end) == []
    assert notes("kernel", name="nothing_like_it")[-1].startswith(
        "No kernel has 'nothing_like_it' in its name; the top kernels are "
    )
    assert notes("op", name="nothing_like_it")[-1].startswith("No op has 'nothing_like_it' in its name; the top ")
    assert not any("in its name" in note for note in notes("kernel", name="gemm"))
    assert notes("query", sql="select 1 as one from events where false")[-1].startswith(
        "The query has no rows; the trace has "
    )
    assert any("Memory: " in note for note in notes("memory"))
