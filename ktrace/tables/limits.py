"""How much of the tables a program gets: some of them, some rows of each, so many bytes, and where it goes on.

Limits(rows=10).of(tables)              by kernel: 10 rows, `more` 120, `next` "kernel:10"
Limits(rows=10, after="kernel:10")      by kernel alone, from the eleventh row on
fitted(tables, as_json, 4_000)          as many whole rows as 4,000 bytes hold, those at the end left out
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ktrace.errors import UsageError
from ktrace.tables.figures import Table

#: The name by which findings are asked for, beside those of tables.
FINDINGS = "findings"


@dataclass(frozen=True)
class Limits:
    """Which tables, by key or name (none: all), at most so many `rows` of each, so many `bytes` of output in all.

    `after` is a cursor, as `Table.next` has it: the rows of that table alone, from there on.
    """

    tables: tuple[str, ...] = ()
    rows: int | None = None
    bytes: int | None = None
    after: str | None = None

    @property
    def findings(self) -> bool:
        """Whether findings are wanted, too."""
        return FINDINGS in self.tables if self.tables else self.after is None

    def of(self, tables: Sequence[Table]) -> list[Table]:
        """The tables that are wanted. Raises UsageError if there is no table of a name, or no such cursor."""
        keys = [table.key for table in tables]
        wanted, (after, begin) = [name.replace(" ", "_") for name in self.tables], self.cursor()
        wanted = [after] if after is not None else wanted
        for name in wanted:
            if name not in keys and name != FINDINGS:
                raise UsageError(f"there is no table '{name}'", expected=", ".join(dict.fromkeys([*keys, FINDINGS])))
        found = [table for table in tables if not wanted or table.key in wanted]
        if begin:
            found = [replace(table, rows=table.rows[begin:], begin=begin) for table in found]
        return [cut(table, self.rows) for table in found]

    def cursor(self) -> tuple[str | None, int]:
        """The key of the table that goes on, and the number of its rows that came before. Raises UsageError."""
        if self.after is None:
            return None, 0
        name, _, begin = self.after.rpartition(":")
        if not name or not begin.isdecimal():
            raise UsageError(f"'{self.after}' is no cursor", expected="TABLE:ROWS, as `next` has it, such as kernel:10")
        return name.replace(" ", "_"), int(begin)


def cut(table: Table, rows: int | None) -> Table:
    """The table with at most so many rows, and the cursor of the others."""
    if rows is None or len(table.rows) <= rows or table.sentences:
        return table
    left = len(table.rows) - rows
    return replace(table, rows=table.rows[:rows], more=table.more + left, next=f"{table.key}:{table.begin + rows}")


def fitted(tables: Sequence[Table], render: Callable[[Sequence[Table]], str], most: int) -> str:
    """The tables as text of at most `most` bytes: whole rows are left out, the last ones of the last tables first.

    Raises UsageError if that isn't enough for the rest.
    """

    def text(rows: int) -> str:
        kept = []
        for table in tables:
            kept.append(cut(table, max(rows, 0)))
            rows -= 0 if table.sentences else len(table.rows)
        return render(kept)

    def fits(text: str) -> bool:
        return len(text.encode("utf-8", "backslashreplace")) <= most

    every = sum(len(table.rows) for table in tables if not table.sentences)
    low, high, found = 0, 16, text(0)
    if not fits(found):
        least = len(found.encode("utf-8", "backslashreplace"))
        raise UsageError(f"{most:,} bytes hold no row", expected=f"at least {least:,}", remedy="fewer --tables")
    while low < every:  # first twice as many each time, then by halves
        tried = text(min(high, every))
        if not fits(tried):
            break
        low, high, found = min(high, every), 2 * high, tried
    while high - low > 1 and low < every:
        middle = (low + high) // 2
        tried = text(middle)
        low, high, found = (middle, high, tried) if fits(tried) else (low, middle, found)
    return found
