"""How right the labels of real names are, measured against names.tsv.

names.tsv has a line for each name: what it computes, the library that it comes from and the precision of what it reads,
as a person decided from the name (`how` is "name"), from the types of its template arguments ("argument") or from the
library's source ("source"); empty where the name doesn't tell, so that any word said there is wrong; "?" where people
would disagree, which isn't judged. `source` is the public file, repository or package that has the name.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ktrace.naming.taxonomy import taxonomy

COLUMNS = ("operation", "library", "precision")

_NAMES = Path(__file__).with_name("names.tsv")


class Wrong(NamedTuple):
    """A label that isn't the right one; "" is none."""

    column: str
    right: str
    said: str
    name: str


class Score(NamedTuple):
    """Shares in percent: of the labels said those that are right, of the right ones those that are said."""

    precision: float
    recall: float
    said: int
    known: int


@cache
def names() -> tuple[dict[str, str], ...]:
    """The lines of names.tsv."""
    with _NAMES.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def measured() -> tuple[dict[str, Score], tuple[Wrong, ...]]:
    """The score of each column, and everything that isn't right."""
    rules, wrong = taxonomy(), []
    said, known, right = (dict.fromkeys(COLUMNS, 0) for _ in range(3))
    for row in names():
        labels = rules.labels(row["name"])._asdict()
        for column in COLUMNS:
            true, word = row[column], labels[column] or ""
            if true == "?":
                continue
            said[column] += bool(word)
            known[column] += bool(true)
            right[column] += bool(word) and word == true
            if word != true:
                wrong.append(Wrong(column, true, word, row["name"]))
    scores = {
        column: Score(
            100 * right[column] / said[column], 100 * right[column] / known[column], said[column], known[column]
        )
        for column in COLUMNS
    }
    return scores, tuple(wrong)
