"""A log of several processes, whose lines have the name of theirs before them, is read as one text for each."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import ktrace
from ktrace.input.ranks import Part, parts_in, parts_of

TABLES = (
    ("Kernel      Calls  Total (ms)", "gemm           10       100.0", "softmax         5         2.5"),
    ("Kernel      Calls  Total (ms)", "gemm           10       120.0", "softmax         5         3.5"),
)


def interleaved(first: str, second: str) -> str:
    """Two tables, a line of one after a line of the other."""
    pairs = zip(*TABLES, strict=True)
    return "".join(f"{first}{one}\n{second}{two}\n" for one, two in pairs)


def totals(path: Path) -> dict[str, list[float]]:
    rows = ktrace.read(path).summaries
    return {source: rows[rows.source == source].total.tolist() for source in sorted(set(rows.source))}


@pytest.mark.parametrize(
    ("first", "second", "labels"),
    [
        ("[rank0]: ", "[rank1]: ", ["rank0", "rank1"]),
        ("[1,0]<stdout>: ", "[1,3]<stdout>: ", ["rank0", "rank3"]),
        ("0: ", "1: ", ["rank0", "rank1"]),
        ("[0] ", "[7] ", ["rank0", "rank7"]),
        ("worker-1  | ", "worker-2  | ", ["worker-1", "worker-2"]),
        ("(Worker pid=11) ", "(Worker pid=12) ", ["Worker pid=11", "Worker pid=12"]),
    ],
)
def test_a_table_for_each_rank(first: str, second: str, labels: list[str], tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(interleaved(first, second))
    assert totals(path) == {labels[0]: [1e8, 2.5e6], labels[1]: [1.2e8, 3.5e6]}


def test_ranks_are_facts_and_lines_without_a_name_are_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("starting\n" + interleaved("[rank0]: ", "[rank1]: ") * 2)
    trace = ktrace.read(path)
    facts = trace.catalog[trace.catalog.entity == "source"].facts.astype(str)
    assert [f'"rank":{rank}' in "".join(facts.iloc[rank].split()) for rank in (0, 1)] == [True, True]
    assert len(trace.summaries) == 8


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{number}: gemm took {number} ms\n" for number in range(1, 9)),  # numbers of lines
        "".join(f"[rank0]: {line}\n" for line in TABLES[0]),  # one rank
        "[rank0]: hello\n[rank1]: hello\n" * 2 + "\n".join(TABLES[0]) + "\nloss 2.5\n" * 20,  # few lines have one
        "",
    ],
)
def test_other_texts_have_no_parts(text: str) -> None:
    assert parts_of(text.encode().splitlines(keepends=True)) == []


def test_a_part_has_its_own_lines() -> None:
    part = Part("a rank", b"[rank1]:")
    lines = [b"[rank1]: a\n", b"[rank12]: b\n", b"c\n"]
    assert ([part.text_of(line) for line in lines], part.rank, part.label) == ([b"a\n", None, None], 1, "rank1")
    assert Part("a rank", b"[rank1]:", is_first=True).text_of(b"c\n") == b"c\n"


def test_a_log_of_which_a_part_is_unknown_is_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("".join(f"[rank0]: {line}\n" for line in TABLES[0]) + "[rank1]: waiting\n[rank1]: done\n")
    assert list(totals(path)) == ["run"]


def test_of_a_long_line_without_the_name_of_a_process_little_is_read() -> None:
    stream = io.BytesIO(b'{"traceEvents":[' + b"{}," * 100_000)
    assert parts_in(stream) == []
    assert stream.tell() <= 4096
