"""A crop that reads Parquet twice gives what one reading gives: the same rows from JSON Lines are the measure."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from canonical_rows import Row, event, steps_of_two_ranks
from nightly import examples, few

import ktrace
from ktrace.converters.parquet import reader
from ktrace.errors import InputError
from ktrace.stages.select.wanted import Crop, Filter

#: Rows of a row group: there are many, most of which a part has nothing in.
GROUP = 40


def files(tmp_path: Path, rows: list[Row]) -> tuple[Path, Path]:
    """The same rows as JSON Lines and as Parquet of many row groups."""
    lines, table = tmp_path / "t.jsonl", tmp_path / "t.parquet"
    lines.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in [{"ktrace": "1.0"}, *rows]))
    ktrace.convert(lines, table, overwrite=True)
    whole = pq.read_table(table)
    metadata = pq.read_schema(table).metadata
    pq.write_table(whole.replace_schema_metadata(metadata), table, row_group_size=GROUP)
    return lines, table


def written(path: Path, tmp_path: Path, **options: Any) -> tuple[set[str], dict[str, Any]] | str:
    """The rows of a part, in any order, and its account; the error where there is none."""
    out = tmp_path / "out.jsonl"
    try:
        report = ktrace.convert(path, out, overwrite=True, **options)
    except InputError as error:
        return str(error).replace(str(path), "")
    assert report.balanced()
    account = report.to_dict()
    account["chain"][0]["removed"].pop("structure", None)
    for told in (account, account["chain"][0]):
        for key in ("inputs", "read", "in", "bytes"):
            told.pop(key, None)
    for issue in account["issues"]:
        issue["places"].sort(key=str)
    return set(out.read_text().splitlines()), account


def part(chance: random.Random) -> dict[str, Any]:
    """Any part, with a filter behind it now and then."""
    begin = chance.randint(-500, 12_000)
    time = chance.choice([f"{max(begin, 0)}ns..{begin + chance.randint(1, 3000)}ns", f"..{begin}ns", f"{begin}ns.."])
    ways: list[dict[str, Any]] = [
        {"time": time.replace("-", "")},
        {"step": chance.choice([3, "2..4", 99])},
        {"range": chance.choice(["ProfilerStep#5", "*#1*", "none"])},
        {"around": chance.choice(["a", "launch", "none"]), "margin": chance.randint(0, 300)},
        {"step": chance.randint(0, 11), "time": time.replace("-", "")},
    ]
    options: dict[str, Any] = {"crop": Crop(**chance.choice(ways))}
    if chance.random() < 0.3:
        options["filter"] = chance.choice([Filter(kinds=["kernel"]), Filter(only_gpu=True), Filter(ranks=[1])])
    if chance.random() < 0.2:
        options["classify"] = True
    return options


@pytest.mark.parametrize("seed", few(range(12), 1))
def test_a_part_of_parquet_is_that_of_the_same_rows_as_lines(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines, table = files(tmp_path, steps_of_two_ranks(chance))
    found = 0
    for _ in range(examples(8)):
        options = part(chance)
        expected = written(lines, tmp_path, **options)
        assert written(table, tmp_path, **options) == expected, options
        found += not isinstance(expected, str)
    assert found > 2


def test_row_groups_without_a_row_of_the_part_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = files(tmp_path, [event(number, "op", "x", 1000 + number, 1) for number in range(1000)])
    asked: list[bool] = []
    may_have = reader._may_have

    def noted(group: Any, ids: Any) -> bool:
        asked.append(may_have(group, ids))
        return asked[-1]

    monkeypatch.setattr(reader, "_may_have", noted)
    ktrace.convert(table, tmp_path / "out.parquet", crop=Crop("470ns..500ns"))
    assert len(asked) == pq.read_metadata(table).num_row_groups == 25
    assert [number for number, may in enumerate(asked) if may] == [11, 12]


def test_a_row_that_is_bad_in_another_column_is_told_where_it_would_stay(tmp_path: Path) -> None:
    rows = [event(number, "op", "x", 1000 + number, 1, args={"a": 1}) for number in range(100)]
    _, table = files(tmp_path, rows)
    bad = pq.read_table(table)
    texts = bad["args"].to_pylist()
    texts[50] = texts[90] = "{"
    place = bad.schema.get_field_index("args")
    pq.write_table(bad.set_column(place, "args", [texts]), table, row_group_size=GROUP)
    report = ktrace.convert(table, tmp_path / "out.jsonl", crop=Crop("45ns..55ns"))
    assert report.balanced()
    assert report.issues["bad-record"].rows == 1
    assert [where for where, _ in report.issues["bad-record"].places] == ["row 51"]
    kept = [json.loads(line)["id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()[1:]]
    assert kept == [45, 46, 47, 48, 49, 51, 52, 53, 54]


def test_a_part_of_a_folder_is_that_of_the_file(tmp_path: Path) -> None:
    chance = random.Random(9)
    lines, _ = files(tmp_path, steps_of_two_ranks(chance))
    ktrace.convert(lines, f"{tmp_path}/folder.parquet/")
    for crop in (Crop("2us..4us"), Crop(step="3..4"), Crop(around="b", margin=50)):
        assert written(tmp_path / "folder.parquet", tmp_path, crop=crop) == written(lines, tmp_path, crop=crop)
