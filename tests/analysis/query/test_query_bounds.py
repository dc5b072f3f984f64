"""Queries in processes of their own: what they may take, what they see, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from conftest import SAMPLES
from fork_server import program
from nightly import few

import ktrace
from ktrace.analysis.answers.query import children, stream_query
from ktrace.analysis.answers.query.child import ChildQuestion
from ktrace.analysis.answers.query.children import Bound, Children
from ktrace.errors import KtraceError, UsageError

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
MIB = 1 << 20

ONLY_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone bounds the memory of a process")

#: Queries that would take gigabytes, by functions of single values, by rows, while they are planned.
GREEDY = {
    "a distance": "select damerau_levenshtein(repeat('a', 17000), repeat('b', 17000))",
    "a long list": "select len(list_transform(range(200000000), lambda x: x + 1))",
    "a repetition": "select length(repeat(repeat('a', 100000), 100000))",
    "padding": "select length(lpad('a', 2000000000, 'b'))",
    "a width": "select length(printf('%2000000000d', 1))",
    "matches": "select len(regexp_extract_all(repeat('a', 30000000), 'a'))",
    "a list made longer": "select len(list_resize([1], 500000000, 2))",
    "bytes": "select octet_length(repeat('\\xAA'::blob, 2000000000))",
    "text of a list": "select length(range(100000000)::varchar)",
    "while it is planned": "from range(length(lpad('a', 2000000000, 'b')))",
    "an argument of limit": "select 1 limit (select length(repeat('a', 2000000000)))",
    "groups": "select i, count(*) from range(100000000) t(i) group by 1",
    "a list of rows": "select list(i) from range(1000000000) t(i)",
    "joined texts": "select length(string_agg(i::varchar, ',')) from range(300000000) t(i)",
    "an order": "select i from range(300000000) t(i) order by hash(i) offset 100000000",
    "recursion": "with recursive r as (select [1] as l union all select l || l from r where len(l) < 1e12) from r",
    "a product": "select list(a.i || b.i) from range(100000) a(i), range(100000) b(i)",
    "values of an answer": "select repeat('a', 1000000) as a from range(2000)",
}

#: The query in a process of a process, and the largest memory of that.
_MEASURED = """
import resource, sys
from ktrace.analysis.answers.query.child import ChildQuestion
from ktrace.analysis.answers.query.children import Bound, Children
from ktrace.errors import KtraceError
one = Children()
try:
    with one.one() as child:
        bound = Bound(int(sys.argv[2]), 120)
        answer = child.ask(ChildQuestion(sys.argv[1], tables={}, rows=2000, size=64 << 20), bound)
        print("answer", sum(batch.num_rows for batch in answer))
except KtraceError as error:
    print(error.kind, error.what)
one.close()
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def measured(sql: str) -> tuple[str, int]:
    command = [sys.executable, "-c", _MEASURED, sql, str(200 * MIB)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, most = done.stdout.splitlines()
    return told, int(most) * 1024


@pytest.fixture(scope="module")
def usual() -> int:
    """Bytes of memory of a process with a small query."""
    return measured("select 1")[1]


@ONLY_LINUX
@pytest.mark.parametrize("case", few(GREEDY, 3))
def test_a_query_takes_no_more_memory_than_it_may(case: str, usual: int) -> None:
    told, most = measured(GREEDY[case])
    assert not told.startswith("answer"), told
    assert "internal" not in told
    assert most < usual + (200 + 64) * MIB, f"{told}: {most >> 20} MiB, {usual >> 20} without it"


@pytest.fixture(scope="module")
def pool() -> Iterator[Children]:
    with closing(Children()) as made:
        yield made


def ask(pool: Children, sql: str, bound: Bound | None = None) -> list[dict[str, object]]:
    with pool.one() as child:
        answer = child.ask(ChildQuestion(sql, tables={}), bound or Bound(256 * MIB, 60))
        rows: list[dict[str, object]] = answer.read_all().to_pylist()
        return rows


SLOW = {
    "rows": "select count(*) from range(100000) a(i), range(100000) b(j), range(100000) c(k) where i + j = k",
    "one value": "select list_reduce(range(3000000), lambda x, y: damerau_levenshtein('aaaa', 'b') + x + y)",
    "sleep": "select pg_sleep(60)",
}


@pytest.mark.parametrize("case", few(SLOW, 1))
def test_a_query_ends_when_its_time_is_up(pool: Children, case: str) -> None:
    with pytest.raises(KtraceError, match=r"the query took longer than 0\.2 s") as caught:
        ask(pool, SLOW[case], Bound(256 * MIB, 0.2))
    assert caught.value.kind == "timeout"
    assert ask(pool, "select 1 as n") == [{"n": 1}]


def test_one_process_answers_query_after_query_also_after_faults(pool: Children) -> None:
    with pool.one() as child:
        first = child._process.pid
    for _ in range(3):
        with pytest.raises(UsageError, match="nothing"):
            ask(pool, "from nothing")
        with pytest.raises(UsageError, match="late"):
            ask(pool, "select case when i = 500000 then error('late') end from range(1000000) t(i)")
        assert ask(pool, "select sum(i)::int as n from range(4) t(i)") == [{"n": 6}]
    with pool.one() as child:
        assert child._process.pid == first


def test_a_process_that_dies_is_replaced(pool: Children) -> None:
    assert ask(pool, "select 1 as n") == [{"n": 1}]
    with pytest.raises(KtraceError, match=r"ended too early \(Segmentation fault\)"), pool.one() as child:
        os.kill(child._process.pid, signal.SIGSEGV)
        child.ask(ChildQuestion("select 1", tables={}), Bound())
    assert ask(pool, "select 1 as n") == [{"n": 1}]


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_deep_sql_is_answered_or_an_error(pool: Children, depth: int) -> None:
    for sql in (
        f"select {'(' * depth}1{')' * depth}",
        f"select {'[' * depth}{']' * depth}",
        "select " + "-" * depth + "1",
    ):
        try:
            ask(pool, sql)
        except KtraceError as error:
            assert error.kind != "internal", error
    assert ask(pool, "select 1 as n") == [{"n": 1}]


_PARENT = """
import sys
from ktrace.analysis.answers.query.child import ChildQuestion
from ktrace.analysis.answers.query.children import Bound, Children
one = Children()
with one.one() as child:
    print(child._process.pid, flush=True)
    child.ask(ChildQuestion(sys.argv[1], tables={}), Bound(1 << 30, 600)).read_all()
"""


@ONLY_LINUX
@pytest.mark.parametrize("case", few(["rows", "sleep"], 1))
def test_no_process_outlives_the_one_that_asked(case: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, SLOW[case]], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child = Path("/proc", parent.stdout.readline().strip())
    while len(list((child / "task").iterdir())) < 3:  # DuckDB's threads: it has begun
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    ends = time.monotonic() + 60
    while child.exists() and time.monotonic() < ends:
        time.sleep(0.02)
    assert not child.exists()


@ONLY_LINUX
def test_a_process_sees_neither_folder_nor_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: Children
) -> None:
    """What a module beside the traces would do, and what SQL could tell."""
    for name in ("duckdb", "pyarrow", "numpy", "json", "pickle", "sitecustomize", "usercustomize", "ktrace"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'RAN')!r}, 'a').write({name!r})\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("A_SECRET", "swordfish")
    with closing(Children()) as fresh:
        assert ask(fresh, "select 1 as n") == [{"n": 1}]
        with fresh.one() as child:
            proc = Path("/proc", str(child._process.pid))
            assert b"swordfish" not in (proc / "environ").read_bytes()
            assert (proc / "cwd").readlink() == Path("/")
    assert not (tmp_path / "RAN").exists()


def test_sql_is_told_nothing_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever SQL can ask without an argument, and all settings, answers and errors alike."""
    secret = tmp_path / "swordfish"
    secret.mkdir()
    monkeypatch.chdir(secret)
    for name in ("HOME", "TMPDIR", "USERPROFILE", "http_proxy", "HTTP_PROXY", "DUCKDB_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(secret))
    asked_for = []
    with closing(Children()) as fresh:
        functions = ask(
            fresh,
            "select distinct function_name as name, function_type as kind from duckdb_functions() "
            "where len(parameters) = 0 or function_type in ('pragma', 'table') order by all",
        )
        settings = ask(fresh, "select name from duckdb_settings()")
        texts = [
            *(f"from {one['name']}()" for one in functions if "table" in str(one["kind"])),
            *(f"select {one['name']}()" for one in functions if "scalar" in str(one["kind"]) or one["kind"] == "macro"),
            *(f"pragma {one['name']}" for one in functions if one["kind"] == "pragma"),
            *(f"select current_setting('{one['name']}')" for one in settings),
            *("from pg_settings", "show databases", "show all tables", "select getenv('HOME')", "from '~/x.csv'"),
            *("select getvariable('HOME')", "from glob('*')", "from glob('~/*')", "from which_secret('s3://a', 's3')"),
            *("from read_text('x')", "from read_csv('~/x')", "load httpfs", "explain analyze select 1"),
            *("from duckdb_views() where not internal", "from duckdb_tables()", "from pragma_storage_info('x')"),
        ]
        for sql in texts:
            try:
                asked_for.append((sql, json.dumps(ask(fresh, sql), default=str)))
            except KtraceError as error:
                asked_for.append((sql, str(error)))
    told = [sql for sql, text in asked_for if "swordfish" in text or str(tmp_path) in text or sys.prefix in text]
    assert told == []
    answers = dict(asked_for)
    assert "memory_limit" in answers["from duckdb_settings()"], "so it was answered"
    assert len(settings) > 50
    assert "can't be started" not in " ".join(answers.values())


@pytest.mark.parametrize(
    "sql",
    few(
        [
            "select call, count(*) as n, sum(queue) as queued from launches group by 1 order by all",
            "pivot kernels on stream using sum(dur) group by operation order by all",
            "select * from kernels order by id",
            "select count(*) as n from links",
            "from catalog order by all",
        ],
        2,
    ),
)
def test_within_a_bound_the_answer_is_the_same(sql: str) -> None:
    found = []
    for bound in (None, Bound(256 * MIB, 60)):
        with stream_query(STEP, sql, bound=bound) as answer:
            found.append(answer.read_all().to_pylist())
    assert found[0] == found[1]
    assert found[0]


def test_rows_that_wait_in_files_are_asked_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.analysis.answers.query.MEMORY", 1)
    with stream_query(
        STEP, "select count(*)::int as n, max(id) as last from events", bound=Bound(256 * MIB, 60)
    ) as answer:
        assert (
            answer.read_all().to_pylist()
            == ktrace.query(STEP, "select count(*) as n, max(id) as last from events").to_pylist()
        )


def test_the_command_ends_a_query_at_its_bounds() -> None:
    def run(sql: str, *options: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [program(), "query", STEP, sql, "--format", "json", *options], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    code, out, err = run(SLOW["rows"], "--timeout", "0.2")
    assert (code, out) == (1, "")
    assert json.loads(err)["error"]["kind"] == "timeout"
    assert json.loads(err)["error"]["message"] == "the query took longer than 0.2 s"
    if sys.platform == "linux":
        code, out, err = run(GREEDY["a distance"], "--memory", "100MiB")
        assert (code, out) == (1, "")
        assert json.loads(err)["error"]["kind"] == "memory"
        assert json.loads(err)["error"]["message"] == "the query takes more than 100 MiB of memory"
    code, out, _ = run("select count(*) as n from events", "--memory", "200MB", "--timeout", "60")
    assert (code, json.loads(out)["rows"]) == (0, [{"n": 65}])
    for wrong in ("0", "-1", "nan", "inf", "1e9"):
        assert run("select 1 as n", "--timeout", wrong)[0] == 2


def test_a_python_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_command", lambda: [sys.executable, "-c", "raise SystemExit(3)"])
    with (
        closing(Children()) as broken,
        pytest.raises(KtraceError, match=r"can't be started for a query \(exit code 3\)"),
    ):
        ask(broken, "select 1")
