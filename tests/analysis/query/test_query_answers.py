"""`ktrace.query`: its answers against DuckDB, pandas and Polars on what `ktrace.convert` writes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.analysis.answers.query import loading
from ktrace.analysis.answers.query.engine import planned
from ktrace.errors import UsageError

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
RANKS = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
LOG = SAMPLES / "doppler/prefill-and-three-decodes.log"


def rows(source: Any, sql: str, **params: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in ktrace.query(source, sql, params).to_pylist()]


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("query") / "step.parquet"
    ktrace.convert(STEP, path, classify=True)
    return path


@pytest.mark.parametrize(
    ("sql", "plain"),
    [
        ("select name, sum(dur), count(*) from events group by 1 order by 1", "record = 'event'"),
        ("select kind, min(ts), max(ts + dur) from events group by 1 order by 1", "record = 'event'"),
        (
            "select operation, library, precision, sum(dur), max(registers) from kernels group by all order by all",
            "record = 'event' and kind in ('kernel', 'memcpy', 'memset', 'graph')",
        ),
        ("select link, role, count(*), max(ts) from links group by all order by all", "record = 'link'"),
        ("select id, args from events order by id", "record = 'event'"),
    ],
)
def test_the_answer_is_that_of_duckdb_on_a_converted_file(parquet: Path, sql: str, plain: str) -> None:
    view = next(name for name in ("events", "kernels", "links") if f"from {name}" in sql)
    where = f"from read_parquet('{parquet}') where {plain}"
    expected = duckdb.connect().execute(sql.replace(f"from {view}", where)).fetchall()
    assert len(expected) > 1
    assert rows(STEP, sql) == expected
    assert rows(parquet, sql) == expected


def test_the_answer_is_that_of_pandas_and_polars(parquet: Path) -> None:
    sql = "select stream, sum(dur) as total, count(*) as n, max(dur) as longest from kernels group by 1 order by 1"
    answer = ktrace.query(STEP, sql)
    events = pd.read_parquet(parquet)
    work = events[events["kind"].isin(["kernel", "memcpy", "memset", "graph"]) & (events["record"] == "event")]
    by_pandas = work.groupby("stream")["dur"].agg(["sum", "count", "max"]).reset_index()
    assert [list(row.values()) for row in answer.to_pylist()] == by_pandas.astype("int64").to_numpy().tolist()
    frame = pl.read_parquet(parquet).filter(pl.col("kind").is_in(["kernel", "memcpy", "memset", "graph"]))
    by_polars = (
        frame.group_by("stream").agg(pl.col("dur").sum(), pl.len(), pl.col("dur").max().alias("m")).sort("stream")
    )
    assert [tuple(row.values()) for row in answer.to_pylist()] == by_polars.rows()
    assert len(by_polars) > 1
    assert answer.schema.types == [pa.int64()] * 4


def test_a_launch_has_the_call_with_its_correlation_id() -> None:
    events = ktrace.read(STEP).events
    calls = events[events["kind"] == "api"].set_index("correlation")
    found = ktrace.query(
        STEP, "select correlation, call, call_ts, call_dur, call_tid, queue, ts from launches"
    ).to_pylist()
    assert len(found) == 15
    for row in found:
        call = calls.loc[row["correlation"]]
        assert (row["call"], row["call_ts"], row["call_dur"]) == (call["name"], call["ts"], call["dur"])
        assert row["call_tid"] == call["tid"]
        assert row["queue"] == max(row["ts"] - call["ts"] - call["dur"], 0)


def test_queueing_is_that_of_the_summary() -> None:
    (use,) = ktrace.summary(STEP, by=["kernel"]).devices
    assert use.queueing
    answer = rows(STEP, "select count(queue), sum(queue), median(queue), max(queue) from kernels")
    assert answer == [(use.queueing.count, use.queueing.total, use.queueing.median, use.queueing.max)]


def test_a_launch_is_known_though_its_call_is_left_out() -> None:
    kept = ktrace.Filter(kinds=["kernel"])
    answer = ktrace.query(STEP, "select count(*) as n, count(call) as calls from kernels", filter=kept).to_pylist()
    assert answer == [{"n": 14, "calls": 14}]
    assert ktrace.query(STEP, "select distinct kind from events", filter=kept).to_pylist() == [{"kind": "kernel"}]


def test_arrows_lead_to_calls_where_there_is_no_correlation_id() -> None:
    sample = SAMPLES / "jsonl/all-records.jsonl"
    trace = ktrace.read(sample)
    ends = trace.links[trace.links["link"] == "launch"]
    linked = set(ends[ends["role"] == "in"]["event"].dropna())
    assert {row[0] for row in rows(sample, "select id from launches")} >= linked & set(
        trace.events[trace.events["correlation"].isna()]["id"]
    )


def test_several_inputs_are_one(tmp_path: Path) -> None:
    answer = rows(RANKS, "select source, count(*) from kernels group by 1 order by 1")
    assert answer == [rows([path], "select min(source), count(*) from kernels")[0] for path in RANKS]
    same = tmp_path / "a.parquet"
    ktrace.convert(STEP, same)
    copy = Path(shutil.copy(same, tmp_path / "b.parquet"))
    assert rows([same, copy], "select source, count(*) from events group by 1 order by 1") == [
        ("one-step-of-training.pt.trace", 65),
        ("one-step-of-training.pt.trace#2", 65),
    ]


def test_statistics_and_facts_are_views() -> None:
    summaries = ktrace.read(LOG).summaries
    work = summaries[summaries["kind"] == "kernel"]
    assert len(work) > 3
    assert rows(LOG, "select count(*), sum(total) from summaries where kind = 'kernel'") == [
        (len(work), work["total"].sum())
    ]
    (facts,) = rows(STEP, "select facts->>'$.format' from catalog where entity = 'source'")
    assert facts == ("kineto",)


def test_a_view_may_be_used_several_times() -> None:
    sql = (
        "with long as (select * from kernels where dur > (select avg(dur) from kernels)) "
        "select count(*) from long l join events e on l.id = e.id and l.source = e.source"
    )
    work = ktrace.read(STEP).events.query("kind in ['kernel', 'memcpy', 'memset', 'graph']")
    assert rows(STEP, sql) == [(int((work["dur"] > work["dur"].mean()).sum()),)]


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select name, sum(dur) from events group by 1", {"events": {"id", "name", "dur"}}),
        ("select count(*) from links", {"links": {"id"}}),
        ("select sum(dur) from kernels", {"events": {"source", "id", "kind", "dur"}}),
        ("select 1", {}),
        ("describe events", {}),
        (
            "select max(queue) from kernels",
            {"events": {"source", "id", "kind"}, "launched": {"source", "id", "queue"}},
        ),
    ],
)
def test_only_what_a_query_needs_is_read(sql: str, tables: dict[str, set[str]]) -> None:
    assert {record: set(columns) for record, columns in planned(sql, None).tables.items()} == tables


def test_a_canonical_file_is_scanned_where_it_is(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scanned: list[str] = []
    own = ktrace.input.detection.by_name("parquet").function("scan")

    def watched(source: Any, records: Any) -> Any:
        found = own(source, records)
        scanned.extend(found)
        assert all(isinstance(one, ds.Dataset) for one in found.values())
        return found

    monkeypatch.setattr("ktrace.converters.parquet.dataset.scanned", watched)
    assert rows(parquet, "select count(*) from events") == [(65,)]
    assert scanned == ["events"]
    folder = parquet.with_name("folder.parquet")
    folder.mkdir()
    ktrace.convert(STEP, folder, to="parquet")
    assert rows(folder, "select count(*), (select count(*) from links) from events") == [(65, 10)]
    assert sorted(scanned[1:]) == ["events", "links"]
    alone = parquet.with_name("alone.parquet")
    ktrace.convert(STEP, alone, table="events")
    assert rows(alone, "select count(*), (select count(*) from links) from events") == [(65, 0)]


def test_a_dataset_is_scanned(tmp_path: Path) -> None:
    ktrace.batch([str(path) for path in RANKS], tmp_path / "all.parquet", jobs=1)
    sql = "select source, name, sum(dur) from events group by all order by all"
    assert rows(tmp_path / "all.parquet", sql) == rows(RANKS, sql)


def test_rows_beyond_the_limit_wait_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "select * from events order by source, id"
    expected = ktrace.query(RANKS, sql)
    launches = ktrace.query(RANKS, "from launches order by source, id")
    monkeypatch.setattr("ktrace.analysis.answers.query.MEMORY", 1)
    assert loading.MEMORY > 1
    assert ktrace.query(RANKS, sql).equals(expected)
    assert ktrace.query(RANKS, "from launches order by source, id").equals(launches)
    assert len(launches)


def test_a_trace_in_memory_has_the_same_answers() -> None:
    trace = ktrace.read(STEP)
    for sql in ("select operation, sum(dur) from kernels group by 1 order by 1", "from launches order by id"):
        assert trace.query(sql).equals(ktrace.query(STEP, sql))


def test_whole_numbers_stay_exact(tmp_path: Path) -> None:
    big = tmp_path / "big.jsonl"
    head = json.dumps({"ktrace": "1.0"})
    base = {"record": "event", "source": "a", "timing": "measured", "kind": "kernel", "name": "k"}
    times = [2**62 + 1, 2**62 + 3]
    big.write_text("\n".join([head, *(json.dumps(base | {"id": n, "ts": ts, "dur": 1}) for n, ts in enumerate(times))]))
    assert rows(big, "select max(ts), sum(dur) from events") == [(2**62 + 3, 2)]
    assert int(rows(big, "select sum(ts) from events")[0][0]) == sum(times)


def test_parameters_are_values_not_sql() -> None:
    assert rows(STEP, "select count(*) from events where name = $name", name="x' or 1=1 --") == [(0,)]
    with pytest.raises(UsageError, match=r"SQL: .*\bleast\b"):
        rows(STEP, "select count(*) from events where dur > $least")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select nam from events", ['"nam" not found', "line 1: select nam from events\n                 ^", '"name"']),
        ("select 1,\n dura from kernels", ["line 2:  dura from kernels", '"dur"']),
        ("selec 1", ['syntax error at or near "selec"', "line 1"]),
        ("select * from kernel", ["kernel does not exist", '"kernels"']),
        ("select 1; select 2", ["2 statements"]),
        ("", ["no query"]),
        ("create table a (b int)", ["CREATE isn't a query"]),
        ("copy events to 'x.csv'", ["COPY isn't a query"]),
        ("set threads = 1", ["isn't a query"]),
        ("select * from read_csv('/etc/hostname')", ["/etc/hostname"]),
        ("select * from '/etc/hostname'", ["/etc/hostname"]),
        ("select cast(name as int) from kernels", ["Could not convert"]),
    ],
)
def test_wrong_sql_is_wrong_usage_with_its_place(sql: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        ktrace.query(STEP, sql)
    assert [word for word in words if word not in str(error.value)] == []


def test_variables_of_the_caller_are_no_tables() -> None:
    secret = pa.table({"a": [1]})
    with pytest.raises(UsageError, match="secret does not exist"):
        ktrace.query(STEP, "select * from secret")
    assert secret.num_rows == 1


def test_columns_with_one_name_get_numbers() -> None:
    assert ktrace.query(STEP, "select 1 as a, 2 as a, 3 as a").to_pylist() == [{"a": 1, "a_1": 2, "a_2": 3}]


def test_pivot_works() -> None:
    answer = ktrace.query(STEP, "pivot kernels on kind using count(*) group by source").to_pylist()
    assert answer == [{"source": "one-step-of-training.pt.trace", "kernel": 14, "memcpy": 1}]
