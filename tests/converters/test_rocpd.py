"""rocpd against SQL. All databases are synthetic: made by the documented tables, since no real one is at hand."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import SAMPLES
from plain import asked
from rocm_samples import ROCPD_3, UUIDS, make_rocpd, rocpd_rows

import ktrace
from ktrace.errors import DamagedInput
from ktrace.model.json_text import decoded
from ktrace.trace.trace import Trace

TWO = SAMPLES / "rocpd" / "two-processes-whose-ids-are-the-same-schema-3.db"
SAME = SAMPLES / "rocpd" / "two-processes-in-the-same-tables.db"
FOUR = SAMPLES / "rocpd" / "tracks-and-a-table-more-schema-4.db"
T = 5_000_000_000_000


def rows(trace: Trace, record: str = "events") -> list[dict[str, Any]]:
    """The rows without their nulls, arguments taken apart."""
    table = trace.to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    found = [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]
    for row in found:
        if "args" in row:
            row["args"] = json.loads(row["args"])
    return found


@pytest.mark.parametrize("path", [TWO, SAME], ids=["suffixes", "guids"])
def test_kernels_are_what_sql_says(path: Path) -> None:
    """By the views, whose joins are by id and guid."""
    columns = ("name", "host", "pid", "device", "stream", "ts", "dur", "correlation")
    kernels = [row for row in rows(ktrace.read(path)) if row["kind"] == "kernel"]
    assert {row["name"] for row in kernels if row["args"].get("mangled_name")} == {"add(float*, int) [clone .kd]"}
    for row in kernels:  # as the database has it
        row["name"] = row["args"].get("mangled_name", row["name"])
    ours = sorted((tuple(row.get(column) for column in columns) for row in kernels), key=lambda row: row[:7])
    theirs = asked(
        path,
        "SELECT coalesce(s.display_name, s.kernel_name, '[kernel ' || k.kernel_id || ']'), n.hostname, p.pid,"
        " a.absolute_index, k.stream_id, k.start, k.end - k.start, e.stack_id FROM rocpd_kernel_dispatch k"
        " JOIN rocpd_info_node n ON n.id = k.nid AND n.guid = k.guid"
        " JOIN rocpd_info_process p ON p.id = k.pid AND p.guid = k.guid"
        " JOIN rocpd_info_agent a ON a.id = k.agent_id AND a.guid = k.guid"
        " LEFT JOIN rocpd_info_kernel_symbol s ON s.id = k.kernel_id AND s.guid = k.guid"
        " LEFT JOIN rocpd_event e ON e.id = k.event_id AND e.guid = k.guid"
        " WHERE k.start > 0 AND k.end < 4611686018427387904",
    )
    assert ours == sorted(theirs, key=lambda row: row[:7])
    assert len(ours) == 6


def test_the_same_rows_under_suffixes_and_in_shared_tables() -> None:
    def said(path: Path) -> list[str]:
        trace = ktrace.read(path)
        found = [
            {key: value for key, value in row.items() if key not in ("source", "id", "parent", "event")}
            for record in ("events", "links")
            for row in rows(trace, record)
        ]
        return sorted(json.dumps(row, sort_keys=True) for row in found)

    assert said(TWO) == said(SAME)


@pytest.mark.parametrize("path", [TWO, SAME, FOUR], ids=["suffixes", "guids", "schema 4"])
def test_calls_with_their_arguments_and_work(path: Path) -> None:
    found = rows(ktrace.read(path))
    launches = [row for row in found if row["name"] == "hipLaunchKernel"]
    work = [(row["pid"], row["correlation"]) for row in found if row["kind"] == "kernel" and "correlation" in row]
    assert sorted((row["pid"], row["correlation"]) for row in launches) == sorted(work)
    assert {row["tid"] - row["pid"] for row in launches} == {1}
    assert launches[0]["external_id"] == 9
    assert launches[0]["args"] == {"name": 'a "b"', "stream": None}
    copy = next(row for row in found if row["name"] == "hipMemcpyAsync")
    assert copy["args"] == {"dst": "0x7f00", "sizeBytes": "4096"}
    assert (copy["kind"], copy["cat"]) == ("api", "HIP_RUNTIME_API")


@pytest.mark.parametrize("path", [TWO, FOUR], ids=["schema 3", "schema 4"])
def test_markers_copies_and_allocations(path: Path) -> None:
    found = rows(ktrace.read(path))
    forward = next(row for row in found if row["name"] == "forward")
    assert (forward["kind"], forward["args"], forward["dur"]) == ("range", {"function": "roctxRangePushA"}, 90_000)
    mark = next(row for row in found if row["kind"] == "instant")
    assert (mark["name"], mark["ts"]) == ('say "hi"', T + 20_000)
    assert mark["args"] == {"function": "roctxMarkA", "event_extdata": {"level": 2}}
    copy = next(row for row in found if row["kind"] == "memcpy")
    assert (copy["copy_kind"], copy["bytes"], copy["device"], copy["stream"]) == ("HtoD", 4096, 4, 0)
    assert (copy["args"]["src_agent"], copy["args"]["dst_agent"], copy["args"]["dst_address"]) == (0, 4, 32_512)
    allocated = [row["bytes"] for row in found if row["kind"] == "alloc" and row["pid"] == found[-1]["pid"]]
    assert allocated == [65_536, -65_536]


def test_a_launch_in_blocks() -> None:
    kernel = next(row for row in rows(ktrace.read(TWO)) if row["kind"] == "kernel")
    assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [4, 2, 1]
    assert [kernel[f"block_{axis}"] for axis in "xyz"] == [256, 1, 1]
    assert (kernel["registers"], kernel["shared_memory"], kernel["shared_dynamic"]) == (32, 4096, 3072)
    assert kernel["short_name"] == "scale"
    assert kernel["args"] == {
        **{"sgpr_count": 48, "accum_vgpr_count": 4, "grid_size_x": 1000, "queue_id": 1, "thread_id": 4001},
        **{"dispatch_id": 1, "private_segment_size": 16},
    }


@pytest.mark.parametrize("path", [TWO, SAME, FOUR], ids=["suffixes", "guids", "schema 4"])
def test_counters_are_sums_and_children_of_their_kernel(path: Path) -> None:
    found = rows(ktrace.read(path))
    by_id = {row["id"]: row for row in found}
    counters = [row for row in found if row["kind"] == "counter"]
    for row in counters:
        kernel = by_id[row["parent"]]
        assert [kernel[key] for key in ("ts", "dur", "pid", "device")] == [
            row[key] for key in ("ts", "dur", "pid", "device")
        ]
    first = [(row["name"], row["value"], row["timing"]) for row in counters if row["pid"] == counters[0]["pid"]]
    assert first == [
        ("SQ_BUSY_CYCLES", 400.0, "measured"),
        ("SQ_BUSY_CYCLES_avr", 200.0, "derived"),
        ("GRBM_GUI_ACTIVE", 8000.0, "measured"),
        ("GRBM_GUI_ACTIVE_avr", 4000.0, "derived"),
        ("SQ_WAVES", 8.0, "measured"),
        ("SQ_WAVES", 9.0, "measured"),
        ("[counter 97]", 1.5, "measured"),
    ]


def test_what_is_wrong_is_said() -> None:
    trace = ktrace.read(TWO)
    issues = {kind: issue.rows for kind, issue in trace.report.issues.items()}
    assert issues == {
        **{"negative-duration": 2, "not-executed": 2, "time-range": 2, "missing-string": 6, "environment": 2},
        "bad-record": 2 * (1 + 1 + 1 + 2),  # a kernel without begin; an argument, counters of no, a lost, a null event
    }
    assert trace.report.balanced()
    assert "SECRET" not in str(rows(trace, "catalog"))


def test_the_name_that_rocprofiler_truncated_is_the_short_one(tmp_path: Path) -> None:
    made = dict(rocpd_rows("g", 7, own_ids=True))
    said = '{"kernel_id":1,"truncated_kernel_name":"scale"}'
    made["rocpd_info_kernel_symbol"] = [(*row, said) for row in made["rocpd_info_kernel_symbol"]]
    columns = ROCPD_3 | {"rocpd_info_kernel_symbol": ROCPD_3["rocpd_info_kernel_symbol"] + ", extdata JSONB"}
    found = rows(ktrace.read(make_rocpd(tmp_path / "a.db", columns, {f"_{UUIDS[0]}": made})))
    assert [row.get("short_name") for row in found if row["kind"] == "kernel"] == ["scale", "scale", None]


def test_without_streams_work_is_shown_by_queues(tmp_path: Path) -> None:
    made = dict(rocpd_rows("g", 7, own_ids=True))
    made["rocpd_info_stream"] = made["rocpd_info_stream"][:1]
    path = make_rocpd(tmp_path / "a.db", ROCPD_3, {f"_{UUIDS[0]}": made})
    trace = ktrace.read(path)
    work = [(row["kind"], row["stream"]) for row in rows(trace) if row["kind"] in ("kernel", "memcpy")]
    assert work == [("kernel", 1)] * 3 + [("memcpy", 0)]
    streams = {row["stream"]: row["name"] for row in rows(trace, "catalog") if row["entity"] == "stream"}
    assert streams == {0: "Default Queue", 1: "Queue 0"}


def test_values_of_samples_are_a_series(tmp_path: Path) -> None:
    """rocprof-sys: a sample a value, on a track that is called after the counter."""
    made = dict(rocpd_rows("g", 7, own_ids=True))
    made["rocpd_pmc_event"] = [(1, "g", 5, 12, 55.5, "{}")]
    path = make_rocpd(tmp_path / "a.db", ROCPD_3, {f"_{UUIDS[0]}": made})
    trace = ktrace.read(path)
    (counter,) = [row for row in rows(trace) if row["kind"] == "counter"]
    assert (counter["ts"], counter["value"], counter["track"], counter["device"]) == (T + 20_000, 55.5, "roctxMarkA", 4)
    assert not any(row["kind"] == "instant" for row in rows(trace))
    assert trace.report.balanced()


def test_json_compressed_by_lz4(tmp_path: Path) -> None:
    """A branch of rocprofiler-sdk stores JSON as bytes, empty or an LZ4 frame."""

    def packed(text: str) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "lz4") as stream:
            stream.write(text.encode())
        return sink.getvalue().to_pybytes()

    made = dict(rocpd_rows("g", 7, own_ids=True))
    made["rocpd_event"] = [
        (*row[:6], b"", b"", b"" if row[8] == "{}" else packed(row[8])) for row in made["rocpd_event"]
    ]
    path = make_rocpd(tmp_path / "a.db", ROCPD_3, {f"_{UUIDS[0]}": made})
    found = {row["name"]: row.get("args") for row in rows(ktrace.read(path))}
    assert found["forward"] == {"function": "roctxRangePushA"}
    assert found['say "hi"'] == {"function": "roctxMarkA", "event_extdata": {"level": 2}}


def test_a_database_with_all_json_compressed_says_the_same(tmp_path: Path) -> None:
    """Also that of agents and kernel symbols, without which no mean of a counter is known."""
    path = tmp_path / TWO.name
    path.write_bytes(TWO.read_bytes())
    with closing(sqlite3.connect(path)) as writer:
        writer.create_function("packed", 1, lambda text: pa.compress(text.encode(), "lz4", asbytes=True))
        for (table,) in writer.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%extdata%'").fetchall():
            own = {column for _, column, *_ in writer.execute(f"PRAGMA table_info({table})")}
            for column in own & {"extdata", "call_stack", "line_info"}:
                writer.execute(f"UPDATE {table} SET {column} = packed({column}) WHERE {column} IS NOT NULL")
        writer.commit()
    assert rows(ktrace.read(path)) == rows(ktrace.read(TWO))


@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize("name", ["call_stack", "line_info", "info_pc", "info_source_code", "info_address_range"])
def test_tables_that_are_not_read_are_said_if_they_have_rows(tmp_path: Path, name: str, filled: bool) -> None:
    """Those of schema 4.1, and of others in development."""
    path = tmp_path / "a.db"
    path.write_bytes(FOUR.read_bytes())
    table = f"rocpd_{name}_{UUIDS[1]}"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, guid TEXT, event_id INT, pc_id INT, depth INT)")
        if filled:
            writer.execute(f"INSERT INTO {table} VALUES (1, 'g', 1, 1, 0)")
        writer.commit()
    issues = ktrace.read(path).report.issues
    assert [place for kind in issues if kind == "unrecognised" for place in issues[kind].places] == (
        [(table, "a table of 1 row")] if filled else []
    )


@pytest.mark.parametrize("name", ["rocpd", "rpd"])
def test_a_database_of_others_is_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("CREATE TABLE rocpd_other (start INT, end INT)")
        writer.commit()
    with pytest.raises(DamagedInput):
        ktrace.read(path, from_=name)


def test_facts() -> None:
    found = rows(ktrace.read(TWO), "catalog")
    gpu = next(row for row in found if row["entity"] == "device")
    facts = json.loads(gpu["facts"])
    assert (gpu["device"], gpu["host"], gpu["name"]) == (4, "node-a", "AMD Instinct MI300X")
    assert (facts["bus_id"], facts["arch"], facts["sm_count"]) == ("0000:c3:00.0", "gfx942", 304)
    assert [row["pid"] for row in found if row["entity"] == "process"] == [4_000, 5_000]


@pytest.mark.nightly
def test_many_rows_are_joined_in_windows(tmp_path: Path) -> None:
    """200,000 dispatches whose events stand in another order; the sums are SQL's."""
    made = dict(rocpd_rows("g", 7, own_ids=True))
    count = 200_000
    made |= {name: [] for name in ("rocpd_kernel_dispatch", "rocpd_event", "rocpd_pmc_event", "rocpd_arg")}
    path = make_rocpd(tmp_path / "a.db", ROCPD_3, {"": made})
    with closing(sqlite3.connect(path)) as writer:
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
        writer.execute(
            f"{numbers} INSERT INTO rocpd_event (id, guid, stack_id, correlation_id, extdata)"
            " SELECT i, 'g', i * 7, 0, '{}' FROM n"
        )
        writer.execute(
            f"{numbers} INSERT INTO rocpd_kernel_dispatch (id, guid, nid, pid, tid, agent_id, kernel_id, start, end,"
            f" event_id) SELECT i, 'g', 77, 7, 8, 4, 1, i * 100, i * 100 + i % 90, 1 + (i * 7919) % {count} FROM n"
        )
        writer.execute(f"{numbers} INSERT INTO rocpd_pmc_event (event_id, pmc_id, value) SELECT i, 12, i % 5 FROM n")
        writer.commit()
    trace = ktrace.read(path)
    table = trace.to_arrow()["events"]
    found = table.to_pandas()
    kernels, counters = found[found["kind"] == "kernel"], found[found["kind"] == "counter"]
    sums = "sum(k.start * (e.stack_id % 1000)), sum(k.end - k.start)"
    tables = "rocpd_kernel_dispatch k JOIN rocpd_event e ON e.id = k.event_id"
    ((weighted, dur),) = asked(path, f"SELECT {sums} FROM {tables}")
    assert int((kernels["ts"].astype(object) * (kernels["correlation"].astype(int) % 1000)).sum()) == weighted
    assert int(kernels["dur"].sum()) == dur
    by_kernel = counters.set_index("parent")["value"]
    events = dict(asked(path, "SELECT start, event_id FROM rocpd_kernel_dispatch"))
    values = by_kernel.loc[kernels["id"]].to_numpy()
    assert [events[ts] % 5 for ts in kernels["ts"]] == values.tolist()


def test_times_in_a_table_of_their_own(tmp_path: Path) -> None:
    """ROCm's development version keeps all times in rocpd_timestamp; rows have their ids."""
    path = SAMPLES / "rocpd" / "tracks-and-a-table-more-schema-4.db"
    moved = tmp_path / path.name
    moved.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(moved)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
        for name in names:
            database.execute(f'DROP VIEW "{name}"')
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        suffix = tables[0].removeprefix("rocpd_metadata")
        database.execute(f'CREATE TABLE "rocpd_timestamp{suffix}" (id INTEGER PRIMARY KEY, guid TEXT, value BIGINT)')
        for kind in ("region", "kernel_dispatch", "memory_copy", "memory_allocate", "sample"):
            table, times = f"rocpd_{kind}{suffix}", ("timestamp",) if kind == "sample" else ("start", "end")
            database.execute(f'CREATE TABLE other AS SELECT * FROM "{table}"')
            for time in times:
                last = f'SELECT coalesce(max(id), 0) FROM "rocpd_timestamp{suffix}"'
                database.execute(f"ALTER TABLE other ADD COLUMN {time}_id INTEGER")
                database.execute(f"UPDATE other SET {time}_id = rowid + ({last})")
                values = f"SELECT {time}_id, (SELECT guid FROM other), {time} FROM other"
                database.execute(f'INSERT INTO "rocpd_timestamp{suffix}" {values}')
                database.execute(f"ALTER TABLE other DROP COLUMN {time}")
            database.execute(f'DROP TABLE "{table}"')
            database.execute(f'ALTER TABLE other RENAME TO "{table}"')
        database.commit()
    whole, other = ktrace.read(path).to_arrow()["events"], ktrace.read(moved).to_arrow()["events"]
    shown = [name for name in whole.column_names if name not in ("id", "parent", "source")]

    def rows(table: Any) -> list[str]:
        return sorted(repr(row) for row in table.select(shown).to_pylist())

    assert len(whole) > 10
    assert rows(other) == rows(whole)


def test_counters_that_the_profiler_worked_out_say_so(tmp_path: Path) -> None:
    path = tmp_path / "derived.db"
    path.write_bytes(FOUR.read_bytes())
    with closing(sqlite3.connect(path)) as database, database:
        (table,) = next(iter(database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_info_pmc%'")))
        database.execute(f'ALTER TABLE "{table}" ADD COLUMN is_derived INT DEFAULT 0')
        database.execute(f"ALTER TABLE \"{table}\" ADD COLUMN expression TEXT DEFAULT ''")
        database.execute(f"UPDATE \"{table}\" SET is_derived = 1, expression = 'a*2' WHERE name = 'SQ_WAVES'")
    counters = [row for row in rows(ktrace.read(path)) if row["kind"] == "counter"]
    said = {row["name"]: row.get("args", {}) for row in counters}
    assert {name for name, args in said.items() if args.get("is_derived") == 1} == {"SQ_WAVES"}
    assert said["SQ_WAVES"]["expression"] == "a*2"
