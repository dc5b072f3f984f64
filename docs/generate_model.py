"""Writes docs/model.md, the tables of all fields, from the schema.

python docs/generate_model.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktrace.model.batch import RECORDS, WORD, fields, is_required, json_schema

PAGE = Path(__file__).parent / "model.md"

INTRODUCTION = """# The canonical model, version {version}

Every reader yields, and every writer accepts, rows of four records. `docs/generate_model.py` writes this page
from [the JSON Schema](../schema/ktrace-1.schema.json), which `ktrace schema` prints.

A null field is left out of JSON, an empty cell in CSV and null in Parquet. In one-file forms, the first column
is `record`: it names the record of each row. Columns and kinds of other packages begin with `x_`.
"""


def page() -> str:
    """The text of docs/model.md."""
    schema = json_schema()
    parts = [INTRODUCTION.format(version=schema["x-version"])]
    for record in RECORDS:
        definition = schema["$defs"][WORD[record]]
        parts.append(f"## {record}\n\n{definition['description']} In one-file forms: `{WORD[record]}`.\n")
        parts.append("| field | type | unit | filled by | meaning |\n|---|---|---|---|---|")
        parts += [_row(record, name, spec) for name, spec in fields(record).items()]
        parts.append("")
    parts.append("## Facts\n\nReserved names in `facts` of the catalog; a reader may add others.\n")
    parts.append("| entity | fact | meaning |\n|---|---|---|")
    for entity, facts in schema["x-facts"].items():
        parts += [f"| {entity} | `{name}` | {meaning} |" for name, meaning in facts.items()]
    return "\n".join(parts) + "\n"


def _row(record: str, name: str, spec: dict[str, Any]) -> str:
    required = " **never null**" if is_required(record, name) else ""
    meaning = spec["description"] + _words(spec)
    return f"| `{name}` | {spec['x-arrow']}{required} | {spec.get('x-unit', '')} | {spec['x-origin']} | {meaning} |"


def _words(spec: dict[str, Any]) -> str:
    """The words allowed in the field."""
    words = spec.get("enum") or next((one["enum"] for one in spec.get("anyOf", []) if "enum" in one), [])
    return f" One of {', '.join(f'`{word}`' for word in words)}." if words and "NaN" not in words else ""


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
