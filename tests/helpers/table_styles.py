"""Tables of three kernels in every style that libraries print, made by the libraries themselves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import product
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import prettytable
import tabulate
import texttable
from rich import box
from rich.console import Console
from rich.table import Table

HEADINGS = ["Kernel", "Calls", "Total (us)", "Avg (us)", "%"]
ROWS: list[list[Any]] = [
    ["step_a_kernel(double*, double*, int)", 10, 50.0, 5.0, 50.0],
    ["step_b_kernel(double*, float)", 10, 30.0, 3.0, 30.0],
    ["step_c(float*)", 10, 20.0, 2.0, 20.0],
]
TOTAL: list[Any] = ["Total", 30, 100.0, "", 100.0]

#: Formats in which nothing tells that headings go on in the next line; in TSV nothing tells it of names either.
_ONE_LINE = {"asciidoc", "textile", "tsv", "jira"}

_BOXES = {name: value for name, value in vars(box).items() if name.isupper() and isinstance(value, box.Box)}
_POLARS = (
    *("ASCII_FULL", "ASCII_FULL_CONDENSED", "ASCII_NO_BORDERS", "ASCII_BORDERS_ONLY", "ASCII_BORDERS_ONLY_CONDENSED"),
    *("ASCII_HORIZONTAL_ONLY", "ASCII_MARKDOWN", "MARKDOWN", "UTF8_FULL", "UTF8_FULL_CONDENSED", "UTF8_NO_BORDERS"),
    *("UTF8_BORDERS_ONLY", "UTF8_HORIZONTAL_ONLY", "NOTHING"),
)


def of_tabulate() -> Iterator[tuple[str, str]]:
    """Yields (name, text) of all formats: plain, with an index, with wrapped names and headings of two lines."""
    two = ["Kernel", "Calls", "Total\n(us)", "Avg\n(us)", "%"]
    for style in tabulate.tabulate_formats:
        if style == "mediawiki":  # it begins as JSON does
            continue
        yield style, tabulate.tabulate(ROWS, HEADINGS, tablefmt=style)
        yield f"{style} index", tabulate.tabulate(ROWS, HEADINGS, tablefmt=style, showindex=True)
        if style != "tsv":
            wrapped = tabulate.tabulate(ROWS, HEADINGS, tablefmt=style, maxcolwidths=[18, None, None, None, None])
            yield f"{style} wrapped", wrapped
        if style not in _ONE_LINE:
            yield f"{style} two lines", tabulate.tabulate(ROWS, two, tablefmt=style)


def of_rich() -> Iterator[tuple[str, str]]:
    """Yields the same for rich, whose narrow tables end a word that does not fit with an ellipsis."""
    for (name, style), (index, lines, width) in product(
        _BOXES.items(),
        [(False, False, 100), (True, False, 100), (False, True, 100), (False, False, 60), (False, True, 60)],
    ):
        table = Table(
            *([""] if index else []), *HEADINGS, box=style, show_lines=lines, title="kernels" if lines else None
        )
        for number, row in enumerate(ROWS):
            table.add_row(*([str(number)] if index else []), *map(str, row))
        yield f"{name}{' index' * index}{' lines' * lines}{' narrow' * (width < 100)}", drawn(table, width)


def drawn(table: Table, width: int) -> str:
    """The text of a table of rich."""
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return file.getvalue()


def of_prettytable() -> Iterator[tuple[str, str]]:
    """Yields the same for prettytable, but its style of random characters."""
    for style in prettytable.TableStyle:
        if style.name == "RANDOM":
            continue
        for variant in ("", "wrapped", "rules", "title"):
            table = prettytable.PrettyTable(HEADINGS)
            table.set_style(style)
            table.add_rows(ROWS)
            if variant == "wrapped":
                table.max_width["Kernel"] = 18
            elif variant == "rules":
                table.hrules = prettytable.HRuleStyle.ALL
            elif variant == "title":
                table.title = "Kernels"
            yield f"{style.name} {variant}".rstrip(), table.get_string()


def of_texttable() -> Iterator[tuple[str, str]]:
    """Yields the same for texttable: 16 decorations, wide and narrow."""
    for width, decoration in product((90, 60), range(16)):
        table = texttable.Texttable(width)
        table.set_deco(decoration)
        table.add_rows([HEADINGS, *ROWS])
        yield f"{decoration}{' narrow' * (width < 90)}", table.draw()


def of_pandas() -> Iterator[tuple[str, str]]:
    """Yields the same for pandas: with and without an index, of names, of two levels; CSV and HTML."""
    frame = pd.DataFrame(ROWS, columns=HEADINGS)
    yield "", frame.to_string()
    yield "no index", frame.to_string(index=False)
    yield "left", frame.to_string(justify="left")
    yield "names are the index", frame.set_index("Kernel").to_string()
    levels = frame.assign(gpu=["gpu0", "gpu0", "gpu1"]).set_index(["gpu", "Kernel"])
    yield "two levels", levels.to_string()
    yield "csv", frame.to_csv()
    yield "csv no index", frame.to_csv(index=False)
    yield "tsv", frame.to_csv(sep="\t")
    yield "html", frame.to_html()
    yield "html no index", frame.to_html(index=False)
    yield "markdown", tabulate.tabulate(frame, headers="keys", tablefmt="pipe")


def of_polars() -> Iterator[tuple[str, str]]:
    """Yields the same for polars: with types below, in or without headings, and narrow."""
    frame = pl.DataFrame(ROWS, schema=HEADINGS, orient="row")
    variants: dict[str, dict[str, Any]] = {
        "": {},
        "no types": {"tbl_hide_column_data_types": True},
        "inline": {"tbl_column_data_type_inline": True},
        "narrow": {"tbl_width_chars": 60},
        "no separator": {"tbl_hide_dtype_separator": True},
        "shape below": {"tbl_dataframe_shape_below": True},
    }
    for style, (variant, options) in product(_POLARS, variants.items()):
        settings: dict[str, Any] = {"tbl_formatting": style, "fmt_str_lengths": 100, "tbl_width_chars": 120}
        with pl.Config(**(settings | options)):
            yield f"{style} {variant}".rstrip(), str(frame)


def of_duckdb() -> Iterator[tuple[str, str]]:
    """Yields what DuckDB prints, with types below the headings."""
    frame = pd.DataFrame(ROWS, columns=HEADINGS)
    with duckdb.connect() as connection:
        connection.register("kernels", frame)
        yield "", str(connection.sql("SELECT * FROM kernels"))


def with_totals() -> Iterator[tuple[str, str]]:
    """Yields tables with a total below, in a row like the others or below a rule."""
    for style in tabulate.tabulate_formats:
        if style == "mediawiki":
            continue
        yield f"tabulate {style}", tabulate.tabulate([*ROWS, TOTAL], HEADINGS, tablefmt=style)
        apart = [*ROWS, tabulate.SEPARATING_LINE, TOTAL]
        yield f"tabulate {style} apart", tabulate.tabulate(apart, HEADINGS, tablefmt=style)
    for name, style in _BOXES.items():
        table = Table(box=style, show_footer=True)
        for heading, footer in zip(HEADINGS, map(str, TOTAL), strict=True):
            table.add_column(heading, footer=footer)
        for row in ROWS:
            table.add_row(*map(str, row))
        yield f"rich {name} footer", drawn(table, 100)
        table = Table(*HEADINGS, box=style)
        for row in ROWS:
            table.add_row(*map(str, row))
        table.add_section()
        table.add_row(*map(str, TOTAL))
        yield f"rich {name} section", drawn(table, 100)
    yield "pandas", pd.DataFrame([*ROWS, TOTAL], columns=HEADINGS).to_string()


LIBRARIES = {
    "tabulate": of_tabulate,
    "rich": of_rich,
    "prettytable": of_prettytable,
    "texttable": of_texttable,
    "pandas": of_pandas,
    "polars": of_polars,
    "duckdb": of_duckdb,
}
