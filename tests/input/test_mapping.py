"""What a mapping can state, on a command line and in a file, and what it can't."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ktrace.errors import InputError, UsageError
from ktrace.input.mapping import Cell, ColumnMap, mapping_of, parts_of, read_mapping

WHOLE = ColumnMap(
    {
        "name": Cell('op, "fused"'),
        "start": Cell("t: 0", "us"),
        "dur": Cell("Δ", "ms"),
        "device": Cell(constant="it's 3"),
        "bytes": Cell("moved=all", "KiB"),
    },
    {"AI CORE": "kernel"},
    "comma",
    "unix",
)


def test_pairs_and_toml_state_the_same(tmp_path: Path) -> None:
    assert mapping_of(WHOLE.text()) == WHOLE
    path = tmp_path / "a.toml"
    path.write_text(WHOLE.toml(["how it is read"]), "utf-8")
    assert path.read_text("utf-8").startswith("# how it is read\n")
    found = mapping_of(path)
    assert found.origin == path
    assert found.text() == WHOLE.text()


@pytest.mark.parametrize(
    ("text", "name", "cell"),
    [
        ("start=t0:us", "start", Cell("t0", "us")),
        ("start=t0 : us", "start", Cell("t0", "us")),
        ("start=a:b", "start", Cell("a:b")),
        ("start=a:b:ns", "start", Cell("a:b", "ns")),
        ("ts=Start (us)", "start", Cell("Start (us)")),
        ('start="a:us"', "start", Cell("a:us")),
        ('start="a, b":iso', "start", Cell("a, b", "iso")),
        ("kind='a,b'", "kind", Cell(constant="a,b")),
        ("stream=queue:us", "stream", Cell("queue:us")),
        ("duration=it's", "dur", Cell("it's")),
    ],
)
def test_a_pair_is_a_column_a_unit_or_a_constant(text: str, name: str, cell: Cell) -> None:
    assert parts_of(text).cells == {name: cell}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name=a,strat=b", "there is no field 'strat'(?s:.*)did you mean start"),
        ("start=t0:us", "it has no name"),
        ("name=a,dur=b", "it has dur, but no start"),
        ("name=a", "neither a start nor a figure"),
        ("name=a,start=b,dur=c,end=d", "both dur and end"),
        ("name=a,start=b,grid=c,grid_x=d", "both grid and grid_x"),
        ("name=a,start=b,total=c", "total is a statistic of many occurrences"),
        ("name=a,start='5'", "start is a constant"),
        ("name=a,start=", "start has no column"),
        ("name=a,name=b", "name occurs twice"),
        ('name=a,start="b":weeks', "'weeks' isn't a unit of start(?s:.*)one of s, ms"),
        ('name=a,start=b,dur="c":iso', "'iso' isn't a unit of dur"),
        ("name=a,decimal=dot", "decimal is 'dot'(?s:.*)point, comma"),
        ("name", "can't understand 'name'"),
        ("=a", "can't understand '=a'"),
        ("name='a", "can't understand 'name='a'"),
    ],
)
def test_a_mapping_that_cannot_be_says_why(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mapping_of(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = 'a'\nstart = [1]", "start can't be understood"),
        ("name = 'a'\nstart = {column = 1}", "start can't be understood"),
        ("name = 'a'\nkinds = 3", r"\[kinds\] isn't a table of texts"),
        ("name = ", "isn't TOML"),
        ("name = 'a'\n", "neither a start nor a figure"),
        ("nmae = 'a'\n", "there is no field 'nmae'"),
        ("x = " + "[" * 5000, "isn't TOML"),
    ],
)
def test_a_file_that_cannot_be_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "run.csv.ktrace.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=words) as caught:
        read_mapping(path)
    assert caught.value.path == str(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        mapping_of(tmp_path / "no.toml")
    (tmp_path / "bytes.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(InputError, match="it isn't UTF-8"):
        mapping_of(tmp_path / "bytes.toml")


def test_fields_give_way_to_those_that_exclude_them() -> None:
    guessed = parts_of("name=a,start=b:us,dur=c:us,grid_x=d,grid_y=e")
    assert guessed.changed(parts_of("end=f:us,grid=g,decimal=comma")) == parts_of(
        "name=a,start=b:us,end=f:us,grid=g,decimal=comma"
    )


def test_toml_of_python_3_10_comes_from_tomli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tomllib = pytest.importorskip("tomllib")
    path = tmp_path / "a.toml"
    path.write_text(WHOLE.toml(), "utf-8")
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", tomllib)
    assert read_mapping(path).text() == WHOLE.text()
