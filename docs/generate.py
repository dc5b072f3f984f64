"""Writes what docs repeat of the code: docs/model.md from the schema, the tables of formats in docs/formats.md and
docs/README.md from what formats declare, and in docs/commands the lines of usage and the tables of options that
commands share, from the commands.

python docs/generate.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from ktrace.cli import COMMANDS, command_of
from ktrace.converters.formats import GROUPS, declared_by
from ktrace.input.format import builtin_formats
from ktrace.input.options import options_of
from ktrace.model.batch import is_required
from ktrace.model.schema import RECORDS, WORD, fields, json_schema
from ktrace.pipeline.selection import Selection
from ktrace.stages.select.wanted import Crop, Filter

DOCS = Path(__file__).parent

_WIDTH = 116

INTRODUCTION = """# The canonical model, version {version}

Every reader yields, and every writer accepts, rows of four records. `docs/generate.py` writes this page
from [the JSON Schema](../schema/ktrace-1.schema.json), which `ktrace schema` prints.

A null field is left out of JSON, an empty cell in CSV and null in Parquet. In one-file forms, the first column
is `record`: it names the record of each row. Columns and kinds of other packages begin with `x_`.
"""


def model() -> str:
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


def command_page(name: str, text: str) -> str:
    """The text of the page of a command with its generated parts renewed."""
    command = command_of(name)
    if any(isinstance(param, click.Option) for param in command.params):
        text = _USAGE.sub(lambda _: f"```\n{_usage(name, command)}\n```", text, count=1)
    made = {"shared": _shared(command)} | {cls.__name__: _table(cls) for cls in (Selection, Crop, Filter)}
    return _PART.sub(lambda part: f"{part[1]}\n{made[part[2]]}\n{part[4]}", text)


_USAGE = re.compile(r"(?<=^## Usage\n\n)```\nktrace .*?```", re.DOTALL | re.MULTILINE)

#: A generated part of a page, between two comments: a table of the fields of a class, or a line that refers to it.
_PART = re.compile(r"(<!-- options: (\w+) -->)\n(.*?)\n?(<!-- end of options -->)", re.DOTALL)


def _usage(name: str, command: click.Command) -> str:
    """The line that shows all options, folded; those for a part of the trace are listed for `ktrace convert` only."""
    part = {field.name for cls in (Crop, Filter) for field, _ in options_of(cls)}
    listed = [param for param in command.params if name == "convert" or param.name not in part]
    words = [*map(_word, listed)] + ([] if listed == command.params else ["[a part of the trace: --time, --step, ...]"])
    lines = [f"ktrace {name}"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append(" " * 7)
        lines[-1] += f" {word}"
    return "\n".join(lines)


def _word(param: click.Parameter) -> str:
    if isinstance(param, click.Argument):
        return param.metavar or param.name or ""
    metavar = "|".join(param.type.choices) if isinstance(param.type, click.Choice) else param.metavar
    flags = "|".join((param.opts[0], *param.secondary_opts))
    word = flags if getattr(param, "is_flag", False) else f"{flags} {metavar}"
    return word if param.required else f"[{word}]" + "..." * param.multiple


def _table(cls: type) -> str:
    rows = ["| option | meaning |", "|---|---|"]
    for _, its in options_of(cls):
        if its.flag:
            text = re.sub(r"(?<![\w`])(--[a-z-]+)|'([^']*)'", r"`\1\2`", f"{its.help} {its.more}".strip())
            rows.append(f"| `{f'{its.flag} {its.metavar}'.strip()}` | {f'{text} {its.link}'.strip()} |")
    return "\n".join(rows)


def _shared(command: click.Command) -> str:
    """The options that a command shares with `ktrace convert`, and where they are explained."""
    names = {param.name for param in command.params}
    flags = [f"`{its.flag}`" for field, its in options_of(Selection) if its.flag and field.name in names]
    part = " and those for [a part of the trace](convert.md#a-part-of-a-trace)" if "kinds" in names else ""
    return f"{', '.join(flags)}{part} are as in [convert](convert.md#options-that-commands-share)."


def formats(text: str) -> str:
    """The text of docs/formats.md with its table renewed: formats that ktrace writes name their files, too."""
    rows = ["| format | reads | writes | what it is |", "|---|---|---|---|"]
    for fmt in builtin_formats():
        if not fmt.closed:
            reads, writes = (" yes" if it else "" for it in (fmt.reads, fmt.writes))
            names = " ".join(f"`{pattern.lstrip('*')}`" for pattern in fmt.patterns)
            files = f" ({names})" if fmt.writes else ""
            rows.append(f"| [{fmt.name}](formats/{fmt.name}.md) |{reads} |{writes} | {fmt.title}{files} |")
    return _FORMATS.sub(lambda _: "\n".join(rows) + "\n", text, count=1)


def index(text: str) -> str:
    """The text of docs/README.md with its table of formats renewed."""
    rows = ["| | |", "|---|---|"]
    for group, modules in GROUPS.items():
        names = [declared_by(module).name for module in modules.split()]
        rows.append(f"| {group} | {', '.join(f'[{name}](formats/{name}.md)' for name in names)} |")
    head, heading, _ = text.partition("## Formats\n\n")
    return f"{head}{heading}{chr(10).join(rows)}\n"


_FORMATS = re.compile(r"\| format \| reads .*?\n(?!\|)", re.DOTALL)


#: Page -> what renews its table of formats.
TABLES = {"formats.md": formats, "README.md": index}


def pages() -> dict[Path, str]:
    """The text that each generated page should have."""
    found = {DOCS / "model.md": model()}
    found |= {DOCS / name: renewed((DOCS / name).read_text("utf-8")) for name, renewed in TABLES.items()}
    for name in COMMANDS:
        path = DOCS / "commands" / f"{name}.md"
        found[path] = command_page(name, path.read_text("utf-8"))
    return found


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf-8")
