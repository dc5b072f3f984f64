"""Tables as one JSON document: exact names and whole numbers, null for unknown figures.

    {"ktrace": "0.2.0", "title": "run.json",
     "tables": {"operation": [{"operation": "gemm", "time_ns": 1200000, "share_percent": 61.5}, ...]},
     "left_out": {"kernel": 120},
     "notes": ["..."]}

For `jq '.tables.operation[] | [.operation, .time_ns]'` and `pd.DataFrame(document["tables"]["operation"])`.
`left_out` is the number of rows that were cut from a table. Each line contains one row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ktrace.tables.figures import UNSEEN, plain
from ktrace.tables.table import Table


def as_json(tables: Sequence[Table], *, title: str = "", outcome: Mapping[str, object] | None = None) -> str:
    """Returns the tables by name, with rows as objects under `Column.key`; NaN and infinities are null.

    `outcome` are further keys of the document, before the tables. Raises ValueError where two tables have the same
    name.
    """
    from ktrace import __version__

    names = [table.name for table in tables]
    if len({*names}) < len(names):
        raise ValueError(f"two tables have the same name: {', '.join(names)}")
    left_out = {table.name: table.more for table in tables if table.more}
    notes = list(dict.fromkeys(note for table in tables for note in table.notes))
    parts = [f'{{"ktrace": {_text(__version__)}', f'"title": {_text(title)}']
    parts += [f"{_text(key)}: {_text(value)}" for key, value in (outcome or {}).items()]
    parts.append('"tables": {\n' + ",\n".join(map(_table, tables)) + "\n }")
    parts += [f'"left_out": {_text(left_out)}', f'"notes": {_text(notes)}']
    return ",\n ".join(parts) + "}\n"


def _table(table: Table) -> str:
    keys = [column.key for column in table.columns]
    rows = (_text({key: plain(cell) for key, cell in zip(keys, row, strict=True)}) for row in table.rows)
    return f"  {_text(table.name)}: [" + ",".join(f"\n   {row}" for row in rows) + "]"


def _text(value: object) -> str:
    """JSON with escapes for the characters that a terminal would act on."""
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", written)
