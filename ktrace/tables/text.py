"""Tables as text: for people (plain when piped, else as wide as the terminal), as CSV, as JSON and as Markdown.

by operation
operation      time  share
gemm       1.200 ms  61.5%
norm     751.000 us  38.5%

`as_csv`: exact figures, under names that state their unit.

    operation,time_ns,share_percent           one table: its columns
    gemm,1200000,61.5

    table,operation,time_ns,kernel,count      several: the first column names the table; a column that
    operation,gemm,1200000,,                  a table doesn't have is empty
    kernel,,700000,sgemm,12

Unknown figures, NaN and infinities are empty cells. Lines end with a line feed. A text that a spreadsheet would read
as a formula (it begins with = + - @) gets a leading apostrophe, and control characters become escapes (`\\x1b`);
JSON has every name unchanged. Sentences aren't figures, so they are left out.

`as_json`: one document with exact names and whole numbers, null for unknown figures.

    {"ktrace": "0.3.0", "schema": "summary", "version": "1.0", "title": "run.json", "findings": [...],
     "tables": {"operation": [{"operation": "gemm", "time_ns": 1200000, "share_percent": 61.5}, ...]},
     "left_out": {"kernel": 120}, "next": {"kernel": "kernel:10"},
     "notes": ["..."]}

For `jq '.tables.operation[] | [.operation, .time_ns]'` and `pd.DataFrame(document["tables"]["operation"])`.
`left_out` is the number of rows that were cut from a table, `next` where the others begin (`--after kernel:10`).
Each line contains one row. `schema/answers-1.schema.json` describes this answer and those of other commands.

`as_markdown`: GitHub's, for an issue, a pull request, the summary of a pipeline.

### by operation

| operation | time | share |
| :--- | ---: | ---: |
| gemm | 1.200 ms | 61.5% |
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from unicodedata import combining, east_asian_width

from ktrace.tables import (
    UNSEEN,
    Cell,
    Column,
    Table,
    escape_controls,
    plain,
    rounded,
    shortened,
    shortened_apart,
    shown,
    without_empty,
)

#: The space between columns.
_GAP = "  "
#: The narrowest that a column of text becomes on a terminal, and the widest where there is no terminal.
_NARROW, _WIDE = 16, 100
#: How far in prose is below its row.
_INDENT = "    "

BOLD, DIM, _RED, _GREEN, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[0m"


def as_text(tables: Iterable[Table], *, width: int | None = None, colour: bool = False) -> str:
    """Returns the tables, with an empty line between them.

    `width` is the width of the terminal: names are shortened to it, and columns that don't fit follow below the others.
    Piped, names have at most 100 characters. `colour` makes headings bold, increases red and decreases green.
    """
    return "\n".join(_table(table, width, colour) for table in tables)


def _table(table: Table, width: int | None, colour: bool) -> str:
    table = without_empty(table)
    if table.sentences:
        return "".join(f"{line}\n" for row in table.rows for line in _wrapped(escape_controls(str(row[0])), width))
    table, below = _apart_from_prose(table)
    rows = [[shown(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    heads = [column.heading for column in table.columns]
    natural = [max(map(_cells, column)) for column in zip(heads, *rows, strict=True)]
    widths = _column_widths(table.columns, natural, width)
    columns = (shortened_apart(cells, wide, _cut) for cells, wide in zip(zip(*rows, strict=True), widths, strict=False))
    rows = [list(row) for row in zip(*columns, strict=True)]
    lines = [styled(escape_controls(table.title), BOLD, colour)] if table.title else []
    blocks = _blocks(widths, width, [place for place, column in enumerate(table.columns) if column.decides])
    for places in blocks:
        lines.append(styled(_line(heads, [""] * len(heads), table.columns, widths, places), DIM, colour))
        for row, cells, prose in zip(table.rows, rows, below, strict=True):
            styles = _styles(row, table.columns) if colour else [""] * len(row)
            lines.append(_line(cells, styles, table.columns, widths, places))
            lines += _below(prose, width) if places is blocks[-1] else []
    if table.more:
        lines.append(styled(f"... and {table.more:,} more", DIM, colour))
    lines += (line for note in table.notes for line in _wrapped(escape_controls(note), width))
    return "".join(f"{line}\n" for line in lines)


def _apart_from_prose(table: Table) -> tuple[Table, list[list[str]]]:
    """The table without its columns of prose, and the texts that each row has there."""
    prose = [column.prose for column in table.columns]
    below = [[str(cell) for cell, is_prose in zip(row, prose, strict=True) if is_prose and cell] for row in table.rows]
    rows = [tuple(cell for cell, is_prose in zip(row, prose, strict=True) if not is_prose) for row in table.rows]
    return replace(table, columns=tuple(one for one in table.columns if not one.prose), rows=rows), below


def _below(texts: Iterable[str], width: int | None) -> list[str]:
    """Texts in whole lines, further in than their row."""
    within = None if width is None else width - len(_INDENT)
    return [f"{_INDENT}{line}" for text in texts for line in _wrapped(escape_controls(text), within)]


def _wrapped(sentence: str, width: int | None) -> list[str]:
    """The sentence in lines as wide as a terminal."""
    from textwrap import wrap

    return [sentence] if width is None else wrap(sentence, max(width, _NARROW), break_on_hyphens=False)


def _line(
    cells: Sequence[str], styles: Sequence[str], columns: Sequence[Column], widths: Sequence[int], places: Iterable[int]
) -> str:
    """The cells of a row at `places`: text is aligned left, figures right."""
    parts = []
    for place in places:
        text = _cut(cells[place], widths[place])
        space = " " * (widths[place] - _cells(text))
        written = styled(text, styles[place], bool(styles[place]))
        parts.append(space + written if columns[place].unit else written + space)
    return _GAP.join(parts).rstrip()


def _column_widths(columns: Sequence[Column], natural: Sequence[int], width: int | None) -> list[int]:
    """The widths of the columns; columns of text are narrowed until a row fits, where that is possible."""
    texts = [place for place, column in enumerate(columns) if not column.unit]
    if width is None:
        return [min(wide, _WIDE) if place in texts else wide for place, wide in enumerate(natural)]
    widths = list(natural)
    while _length(widths) > width and any(widths[place] > _NARROW for place in texts):
        widths[max(texts, key=lambda place: widths[place])] -= 1
    if _length(widths) <= width:
        return widths
    return [min(wide, max(width // 3, _NARROW)) if place in texts else wide for place, wide in enumerate(natural)]


def _blocks(widths: Sequence[int], width: int | None, deciding: Sequence[int] = ()) -> list[list[int]]:
    """The places of the columns that are next to each other. Each block begins with the first column; where there are
    several blocks, those that are `deciding` follow it in the first."""
    blocks = [[0]] if widths else []
    order = list(range(1, len(widths)))
    if width is not None and _length(widths) > width:
        order.sort(key=lambda place: place not in deciding)
    for place in order:
        if width is not None and len(blocks[-1]) > 1 and _length([widths[at] for at in [*blocks[-1], place]]) > width:
            blocks.append([0])
        blocks[-1].append(place)
    return blocks


def _length(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _cells(text: str) -> int:
    """The width of a text on a terminal; Chinese characters, for one, take two cells."""
    if text.isascii():
        return len(text)
    try:
        from rich.cells import cell_len
    except ImportError:
        return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)
    return cell_len(text)


def _cut(text: str, width: int) -> str:
    """The text shortened to that many cells of a terminal."""
    characters = width
    cut = text
    while _cells(cut) > width:
        cut = shortened(text, characters)
        characters -= 1
    return cut


def _styles(row: Sequence[Cell], columns: Sequence[Column]) -> list[str]:
    """The style of each cell: dim in a row that matters less, else the colours of changes."""
    if any(column.decides and cell == column.decides for cell, column in zip(row, columns, strict=True)):
        return [DIM] * len(row)
    return [_sign(cell, column) for cell, column in zip(row, columns, strict=True)]


def _sign(cell: Cell, column: Column) -> str:
    """The colour of a change: red for an increase, green for a decrease."""
    if not column.signed or not isinstance(cell, (int, float)) or cell == 0:
        return ""
    return _RED if cell > 0 else _GREEN


def styled(text: str, style: str, colour: bool) -> str:
    """The text in a style of a terminal, if it has colours."""
    return f"{style}{text}{_PLAIN}" if colour and style else text


_FORMULA = ("=", "+", "-", "@")


def as_csv(tables: Sequence[Table]) -> str:
    """Returns the tables as one CSV document, which pandas, DuckDB and spreadsheets read as a single table."""
    tables = [table for table in tables if not table.sentences]
    table_column = ["table"] if len(tables) > 1 else []
    keys = list(dict.fromkeys(column.key for table in tables for column in table.columns))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if tables:
        writer.writerow(table_column + keys)
    for table in tables:
        places, units = [keys.index(column.key) for column in table.columns], [one.unit for one in table.columns]
        for row in table.rows:
            cells: list[Cell] = [None] * len(keys)
            for place, unit, cell in zip(places, units, row, strict=True):
                cells[place] = csv_cell(rounded(plain(cell), unit))
            writer.writerow([*([csv_cell(table.key)] if table_column else []), *cells])
    return out.getvalue()


def csv_cell(value: Cell) -> Cell:
    """The cell as CSV contains it: a text that can't be read as a formula, without control characters."""
    if not isinstance(value, str):
        return value
    text = escape_controls(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


#: The version of what programs get as JSON; a minor one adds keys.
VERSION = "1.0"


def as_json(
    tables: Sequence[Table], *, schema: str = "summary", title: str = "", outcome: Mapping[str, object] | None = None
) -> str:
    """Returns the tables by key, with rows as objects under `Column.key`; NaN and infinities are null.

    `schema` names the answer, `outcome` are further keys of the document, before the tables. Raises ValueError where
    two tables have the same key.
    """
    names = [table.key for table in tables]
    if len({*names}) < len(names):
        raise ValueError(f"two tables have the same name: {', '.join(names)}")
    rest = {
        "left_out": {table.key: table.more for table in tables if table.more},
        "next": {table.key: table.next for table in tables if table.next},
        "notes": list(dict.fromkeys(note for table in tables for note in table.notes)),
    }
    rows = {"tables": "{\n" + ",\n".join(map(_object, tables)) + "\n }"}
    return _document(_members(_head(schema) | {"title": title} | dict(outcome or {})) | rows | _members(rest))


def answer(schema: str, members: Mapping[str, object]) -> str:
    """Returns the answer of a command as JSON: version and schema, then its members, a line each."""
    return _document(_members(_head(schema) | dict(members)))


def _head(schema: str) -> dict[str, object]:
    from ktrace import __version__

    return {"ktrace": __version__, "schema": schema, "version": VERSION}


def _members(members: Mapping[str, object]) -> dict[str, str]:
    """The values as JSON; lists of objects with a line for each."""
    texts = {}
    for key, value in members.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            texts[key] = "[\n  " + ",\n  ".join(json_text(one) for one in value) + "]"
        else:
            texts[key] = json_text(value)
    return texts


def _document(members: Mapping[str, str]) -> str:
    return "{" + ",\n ".join(f"{json_text(key)}: {value}" for key, value in members.items()) + "}\n"


def _object(table: Table) -> str:
    keys = [(column.key, column.unit) for column in table.columns]
    rows = (
        json_text({key: rounded(plain(cell), unit) for (key, unit), cell in zip(keys, row, strict=True)})
        for row in table.rows
    )
    return f"  {json_text(table.key)}: [" + ",".join(f"\n   {row}" for row in rows) + "]"


def json_text(value: object) -> str:
    """JSON in a line, with escapes for the characters that a terminal would act on."""
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return UNSEEN.sub(lambda match: f"\\u{ord(match.group()):04x}", written)


#: Names are shortened to this many characters: C++ templates of thousands make a table unreadable.
_LONGEST = 160

#: Characters that begin markup. An underscore within a word doesn't.
_MARKUP = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9_])_|_(?![A-Za-z0-9_])")
#: Characters that a backslash doesn't escape everywhere: of tags, entities, mentions, issues, links.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "#": "&#35;"}
_LINK = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)


def as_markdown(tables: Iterable[Table]) -> str:
    """Returns the tables, each under its heading; figures as people read them."""
    return "\n".join(map(_pipes, tables))


def _pipes(table: Table) -> str:
    table = without_empty(table)
    if table.sentences:
        return " ".join(escaped(escape_controls(str(row[0]))) for row in table.rows) + "\n"
    lines = [f"### {escaped(escape_controls(table.title))}", ""] if table.title else []
    lines.append(_row(escaped(column.heading) for column in table.columns))
    lines.append(_row("---:" if column.unit else ":---" for column in table.columns))
    rows = [[shown(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    columns = (shortened_apart(cells, _LONGEST) for cells in zip(*rows, strict=True))
    lines += (_row(map(_indented, row)) for row in zip(*columns, strict=True))
    if table.more:
        lines += ["", f"... and {table.more:,} more"]
    for note in table.notes:
        lines += ["", escaped(escape_controls(note))]
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _indented(text: str) -> str:
    """The text with escapes; blanks before it stay visible."""
    words = text.lstrip(" ")
    return "&nbsp;" * (len(text) - len(words)) + escaped(words)


def escaped(text: str) -> str:
    """The text with escapes, so that Markdown shows it unchanged."""
    text = re.sub("[&<>@#]", lambda match: _ENTITIES[match.group()], _MARKUP.sub(r"\\\g<0>", text))
    return _LINK.sub(lambda match: f"&#{ord(match.group())};", text)
