"""Tracy's csvexport: every table, names and texts with commas, and sums by arithmetic over the lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.model.json_text import decoded

OURS = SAMPLES / "tracy-csv"
ZONES = OURS / "zones-and-plots-names-with-commas.csv"
HEADINGS = "name,src_file,src_line,ns_since_start,exec_time_ns,thread,value\n"


def rows(path: Path, record: str = "events") -> list[dict[str, Any]]:
    """The rows by id, which are their lines, without nulls; `args` decoded."""
    table = ktrace.read(path).to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    found = [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]
    found = [row | ({"args": json.loads(row["args"])} if "args" in row else {}) for row in found]
    return sorted(found, key=lambda row: row["id"])


def test_zones_of_threads() -> None:
    found = [(row["name"], row["tid"], row["ts"], row["dur"]) for row in rows(ZONES) if row["kind"] == "range"]
    assert found == [
        ("Renderer::draw", 1, 1000, 9000),
        ("Renderer::draw", 1, 21000, 8500),
        ("upload<Vertex, u16>", 1, 2000, 3000),
        ('system{name="a::b"}', 2, 500, 700),
    ]
    assert rows(ZONES)[2]["args"] == {"src_file": "gpu/upload.rs", "src_line": 11, "value": "mesh 4"}
    assert rows(ZONES)[3]["args"]["value"] == "one, two, 3"
    assert "value" not in rows(ZONES)[0]["args"]


def test_plots_are_counters() -> None:
    found = [(row["name"], row["track"], row["ts"], row["value"]) for row in rows(ZONES) if row["kind"] == "counter"]
    assert found == [
        ("frame time", "frame time", 1000, 16.6),
        ("frame time", "frame time", 21000, -0.5),
        ("queue, copies", "queue, copies", 3000, 7.0),
    ]


def test_statistics() -> None:
    first, second = rows(OURS / "statistics.csv", "summaries")
    line = (OURS / "statistics.csv").read_text().splitlines()[1].split(",")
    fields = ("total", "percent", "count", "avg", "min", "max", "stddev")
    assert [first[field] for field in fields] == [float(cell) for cell in line[3:]]
    assert first["total"] == first["count"] * first["avg"]
    assert (first["kind"], first["unit"], first["args"]) == ("range", "ns", {"src_file": "render.cpp", "src_line": 120})
    assert (second["name"], second["total"]) == ("upload<Vertex, u16>", 3000)


def test_zones_of_a_gpu() -> None:
    found = [
        (row["kind"], row["name"], row["device"], row["ts"], row["dur"], row["args"])
        for row in rows(OURS / "gpu-zones.csv")
    ]
    assert found == [
        ("range", "Shadow pass", 0, 1200, 400, {"src_file": "render.cpp"}),
        ("range", "blit<A, B>", 0, 1700, 250, {"src_file": "blit.cpp"}),
    ]
    devices = [row["device"] for row in rows(OURS / "gpu-zones.csv", "catalog") if row["entity"] == "device"]
    assert devices == [0]
    assert not [row for row in rows(ZONES, "catalog") if row["entity"] == "device"]


def test_messages() -> None:
    path = OURS / "messages-by-semicolons.csv"
    assert [(row["kind"], row["name"], row["ts"]) for row in rows(path)] == [
        ("log", "frame 1; lights: 4", 1500),
        ("log", "loaded", 2500),
    ]


def test_many_zones_with_and_without_commas(tmp_path: Path) -> None:
    """More lines than are read at once; until 2023 there was no `value`."""
    path = tmp_path / "many.csv"
    names = ("plain", "Assets<A, B, C>::track", 'x{a="1", b=2}')
    lines = [f"{names[i % 3]},a.rs,{i % 7},{i * 10},{i % 9},{i % 4}\n" for i in range(9000)]
    path.write_text(HEADINGS.replace(",value", "") + "".join(lines))
    found = rows(path)
    assert [row["name"] for row in found] == [names[i % 3] for i in range(9000)]
    assert [row["ts"] for row in found] == [i * 10 for i in range(9000)]
    assert sum(row["dur"] for row in found) == sum(i % 9 for i in range(9000))
    assert [row["tid"] for row in found] == [i % 4 for i in range(9000)]


@pytest.mark.parametrize("line", ["a,b.cpp,1,many,5,1,", "a,b.cpp,1,5,,1,", "a,b.cpp", "a,b.cpp,,5,,,fast"])
def test_what_is_no_row_is_reported(line: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(f"{HEADINGS}good,a.cpp,1,2,3,1,\n{line}\nlast,a.cpp,1,4,3,1,\n")
    trace = ktrace.read(path)
    assert sorted(trace.events["name"]) == ["good", "last"]
    assert sum(issue.rows for issue in trace.report.issues.values()) == 1
    assert trace.report.balanced()
