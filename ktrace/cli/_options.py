"""Options that several commands share, each defined once, so that names and help texts agree, and their completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import Field
from functools import wraps
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from ktrace.errors import UsageError
from ktrace.input.options import Option, options_of
from ktrace.pipeline.selection import Selection
from ktrace.stages.select.wanted import Crop, Filter
from ktrace.tables import Limits

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def complete_by(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns what tables can be grouped by; of a list the last item is completed."""
    from ktrace.analysis.answers.diff.matching import COMPARED
    from ktrace.analysis.answers.summary import QUESTIONS
    from ktrace.analysis.work.groups import BY

    return _listed(incomplete, [*BY, *QUESTIONS] if ctx.info_name == "summary" else COMPARED)


def complete_alignment(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the rules of alignment."""
    from ktrace.stages.align import RULES

    return _listed(incomplete, RULES)


def complete_folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns what the folders of a dataset can be by; of a list the last item is completed."""
    from ktrace.input.dataset_manifest import FOLDERS

    return _listed(incomplete, FOLDERS)


def _listed(incomplete: str, values: Iterable[str]) -> list[CompletionItem]:
    """The values that complete the last item of a list, with the items before it; none of these again."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [CompletionItem(before + comma + value) for value in values if value.startswith(last) and value not in given]


def _complete_words(place: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Completes with the words at "module:name", a sequence or a function that returns them or pairs with a help."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        module, _, name = place.partition(":")
        words = getattr(import_module(module), name)
        if not callable(words):
            return _listed(incomplete, words)
        return [CompletionItem(word, help=text) for word, text in words() if word.startswith(incomplete)]

    return complete


Callback = Callable[[click.Context, click.Parameter, str | None], tuple[str | int, ...]]


def listed(item: type[str] | type[int]) -> Callback:
    """Returns a callback that parses a comma-separated list: `kernel,memcpy`, `0,1`."""

    def items(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str | int, ...]:
        try:
            parts = tuple(item(part.strip()) for part in value.split(",")) if value is not None else ()
        except ValueError:
            raise click.BadParameter(f"'{value}' isn't a list of whole numbers, such as 0,1") from None
        if "" in parts:
            raise click.BadParameter(f"'{value}' has an empty item")
        return parts

    return items


#: The title of the options of `Crop` and `Filter` in the help.
PART = "A part of the trace"


def _joined(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Returns what an option was given several times as one text, None if it wasn't given."""
    return ",".join(values) if values else None


def _under_limits(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> None:
    """Puts the limits in force until the command ends. Raises UsageError."""
    if values:
        from ktrace.input.limits import in_force

        ctx.with_resource(in_force(",".join(values)))


def _click_option(field: Field[Any], its: Option) -> Decorator:
    """Makes an option of a declared field: a switch, a number, a list or a text, by the field's type."""
    how: dict[str, Any] = {"metavar": its.metavar or None, "help": its.help}
    if not its.metavar:
        how["is_flag"] = True
    elif its.is_list:
        how["callback"] = listed(int if "int" in str(field.type) else str)
    elif its.repeatable:
        how |= {"multiple": True} if "Sequence" in str(field.type) else {"multiple": True, "callback": _joined}
    elif field.type == "int | None":
        how["type"] = click.IntRange(its.least)
    if its.words:
        how["shell_complete"] = _complete_words(its.words)
    if field.name == "limits":  # for all that the command reads; it receives none
        how |= {"callback": _under_limits, "expose_value": False}
    return click.option(its.flag, field.name, **how)


def _options_of(cls: type, names: Iterable[str] | None = None) -> list[Decorator]:
    chosen = None if names is None else set(names)
    return [
        _click_option(field, its)
        for field, its in options_of(cls)
        if its.flag and (chosen is None or field.name in chosen)
    ]


def selection_options(*groups: type | str) -> Decorator:
    """Adds the options of fields of a `Selection`: those of a TypedDict, or of one name.

    The command receives what they say as `selection`. With `crop` or `filter` come the options of their fields.
    """
    names = [name for one in groups for name in ([one] if isinstance(one, str) else one.__annotations__)]
    parts = [cls for name, cls in (("crop", Crop), ("filter", Filter)) if name in names]
    options = [*_options_of(Selection, names), *(option for cls in parts for option in _options_of(cls))]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_selection(*arguments: Any, **given: Any) -> Any:
            fields = {name: given.pop(name) for name in [*names, *_PART] if name in given}
            return command(*arguments, selection=_selection(fields), **given)

        decorated: Callable[..., Any] = with_selection
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


#: The names of the fields of a crop and a filter.
_PART = {field.name: cls for cls in (Crop, Filter) for field, _ in options_of(cls)}


def _selection(fields: dict[str, Any]) -> Selection:
    """The selection that the options of a command say. Raises UsageError as `Crop` and `Filter` do."""
    # 0 is a value, though it equals False.
    given = {name: value for name, value in fields.items() if value is not None and value is not False and value != ()}
    for name, cls in (("crop", Crop), ("filter", Filter)):
        part = {field: given.pop(field) for field in [*given] if _PART.get(field) is cls}
        if part:
            given[name] = cls(**part)
    return Selection(**given)


class Grouped(click.Command):
    """A command whose help lists the options of `Crop` and `Filter` under a separate title."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, with those of a part of the trace last."""
        parts: dict[str, list[tuple[str, str]]] = {"Options": [], PART: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                parts[PART if param.name in _PART else "Options"].append(record)
        for title, records in parts.items():
            with formatter.section(title):
                formatter.write_dl(records)


def limit_options(*, tables: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds the options that say how much is printed, of which `tables`; the command receives them as `within`."""
    options = [
        click.option("--bytes", "bytes_", type=click.IntRange(1), metavar="N", help="At most N bytes, in whole rows."),
        click.option("--after", metavar="NAME:ROWS", help="Continue where the rows were cut: the value of `next`."),
    ]
    if tables:
        options.insert(0, click.option("--tables", metavar="NAME,...", callback=listed(str), help="Only these tables."))

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def limited(*arguments: Any, bytes_: int | None, after: str | None, **given: Any) -> Any:
            within = Limits(given.pop("tables", ()), None, bytes_, after)
            return command(*arguments, within=within, **given)

        decorated: Callable[..., Any] = limited
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def as_size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The bytes of a size that an option names: 500MB."""
    from ktrace.stages.split import parse_size

    return None if value is None else parse_size(value)


inputs_argument = click.argument(
    "inputs", metavar="IN...", nargs=-1, required=True, type=click.Path(allow_dash=True, readable=False)
)

output_option = click.option("-o", "--output", metavar="OUT", help="Where to write; '-' is standard output.")


def output_of(output: str | None, command: str, inputs: tuple[str, ...], suffix: str = ".perfetto") -> str:
    """The output that was named; raises UsageError with the line to type if none was."""
    if output:
        return output
    from shlex import quote

    from ktrace.input.source import stem
    from ktrace.tables import escape_controls

    given = " ".join(quote(escape_controls(path)) for path in inputs)
    several = len(inputs) > 1 or inputs[0] == "-"
    name = "run" if several else stem(inputs[0].rstrip("/")).removesuffix(".trace").removesuffix(".pt")
    out = f"{name}{suffix}"
    raise UsageError("no output is named", remedy=f"ktrace {command} {given} -o {quote(escape_controls(out))}")


#: Of commands that make no selection. The limits are in force, and no command receives them.
limits_option = _options_of(Selection, ["limits"])[0]

to_option = click.option(
    "--to",
    metavar="FORMAT",
    shell_complete=_complete_words("ktrace.input.format:writable"),
    help="Format to write; by default the name of OUT decides.",
)

gpu_option = click.option(
    "--gpu",
    type=click.Choice(["auto", "stages", "slices", "stages-by-stream", "slices-by-stream"]),
    default="auto",
    help="How a Perfetto trace shows device work: as stages of a GPU (viewers from v55 on) or as slices (any viewer). "
    "Many streams of graphs are folded into lanes, except by stream.",
)

strict_option = click.option(
    "--strict", is_flag=True, help="Fail if anything has to be repaired or skipped, or if the input is cut off."
)

overwrite_option = click.option("--overwrite", is_flag=True, help="Replace an existing output.")
