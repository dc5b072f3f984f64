"""Tables in text: what is written by hand, or by simple writers here, in each dialect comes back cell by cell."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.headings import STATISTICS, Columns, cell_quantity, heading, plain, read_figures
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.tables import Row, SampleLines, Table, Text, read_tables
from ktrace.report import Report

COLUMNS = Columns({"name": ("name", "kernel"), **STATISTICS}, required=("name", "total|avg|max"))
HEADINGS = ["Name", "Total Time (ns)", "Calls", "Remark"]


def items(text: str) -> list[Table | Row | Text]:
    return list(read_tables(SampleLines(text.split("\n")), COLUMNS.match))


def rows(text: str) -> list[Row]:
    return [item for item in items(text) if isinstance(item, Row)]


def cells(text: str) -> list[list[str]]:
    return [row.cells for row in rows(text)]


def account(text: str, tmp_path: Path) -> tuple[Report, list[Row]]:
    """Reads a file for real, every row used, and gives the report."""
    path = tmp_path / "table.txt"
    path.write_text(text, "utf-8")
    report = Report()
    lines = Lines(Source(str(path)), Conversion(report))
    found = []
    for item in read_tables(lines, COLUMNS.match):
        if isinstance(item, Row):
            found.append(item)
            lines.used()
    return report, found


# Writers, one a dialect. They know nothing of the reader.


def write_github(table: list[list[str]], *, escape: bool) -> str:
    table = [[cell.replace("|", "\\|") if escape else cell for cell in row] for row in table]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in table]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def write_inner_pipes(table: list[list[str]]) -> str:
    lines = [" | ".join(row) for row in table]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def write_delimited(table: list[list[str]], delimiter: str) -> str:
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows(table)
    return stream.getvalue()


def write_dashes(table: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(map(str.rjust, row, widths)) for row in table]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


NAMES = st.text("abcXYZ_<>(){}#&*,;|:'\"-. 12é类", min_size=1, max_size=30).map(
    lambda text: "k" + " ".join(text.split())
)
NUMBERS = st.one_of(
    st.integers(0, 10**12).map(str),
    st.integers(1000, 10**12).map(lambda number: f"{number:,}"),
    st.decimals("0.001", 10**6, places=3).map(str),
)
COUNTS = st.integers(0, 10**6).map(str)
REMARKS = st.sampled_from(["warm", "x y", "-", "100.0%"])
TABLES = st.lists(st.tuples(NAMES, NUMBERS, COUNTS, REMARKS).map(list), min_size=1, max_size=5)


@given(TABLES, st.booleans())
def test_cells_between_pipes_come_back(table: list[list[str]], escape: bool) -> None:
    assert cells(write_github([HEADINGS, *table], escape=escape)) == table


@given(TABLES)
def test_cells_with_pipes_inside_only_come_back(table: list[list[str]]) -> None:
    assert cells(write_inner_pipes([HEADINGS, *table])) == table


@given(TABLES, st.sampled_from(",;"))
def test_cells_of_csv_come_back(table: list[list[str]], delimiter: str) -> None:
    assert cells(write_delimited([HEADINGS, *table], delimiter)) == table


@given(TABLES)
def test_cells_between_tabs_come_back(table: list[list[str]]) -> None:
    assert cells("\n".join("\t".join(row) for row in [HEADINGS, *table])) == table


@given(TABLES)
def test_cells_below_dashes_come_back(table: list[list[str]]) -> None:
    assert cells(write_dashes([HEADINGS, *table])) == table


@given(TABLES, st.permutations(range(4)))
def test_the_order_of_columns_makes_no_difference(table: list[list[str]], order: list[int]) -> None:
    shuffled = [[row[column] for column in order] for row in [HEADINGS, *table]]
    found = rows(write_github(shuffled, escape=True))
    assert [[row.text(field) for field in ("name", "total", "count")] for row in found] == [row[:3] for row in table]


@given(TABLES, st.data())
def test_a_cut_table_gives_the_rows_that_are_whole(table: list[list[str]], data: st.DataObject) -> None:
    text = write_github([HEADINGS, *table], escape=True)
    size = data.draw(st.integers(0, len(text)))
    lines = zip(text[:size].split("\n"), text.split("\n"), strict=False)
    whole = sum(cut == line for cut, line in list(lines)[2:])
    assert cells(text[:size]) == table[:whole]


# What stands in real files.


def test_columns_two_blanks_apart_without_a_rule() -> None:
    lines = [
        "Name            Total (us)   Calls",
        "conv 3x3             12.5       4",
        "relu                            7",
    ]
    text = "\n".join([*lines, "pool        1e3"])
    assert cells(text) == [["conv 3x3", "12.5", "4"], ["relu", "", "7"], ["pool", "1e3", ""]]


def test_one_rule_below_headings_two_blanks_apart() -> None:
    text = "Name     Total Time (us)  Calls\n-------------------------------\nconv a              12.5      4\n"
    assert cells(text) == [["conv a", "12.5", "4"]]


def test_a_boxed_table_and_the_rules_between_its_rows() -> None:
    rule = "+------+------------+"
    text = f"{rule}\n| name | total (ms) |\n{rule}\n| a    | 1          |\n{rule}\n| b|c  | 2          |\n{rule}"
    assert cells(text) == [["a", "1"], ["b|c", "2"]]


def test_a_number_that_stands_out_of_its_column_to_the_left() -> None:
    text = "Name        Total\n--------  -------\nab      123456789\nab cd          7\n"
    assert cells(text) == [["ab", "123456789"], ["ab cd", "7"]]


def test_a_name_that_stands_out_of_its_column_to_the_right() -> None:
    text = "Name      Total Time\n--------  ----------\naveryveryverylongname 12.5 ms\n"
    assert cells(text) == [["averyveryverylongname", "12.5 ms"]]


def test_a_name_that_is_the_last_column_takes_the_rest_of_the_line() -> None:
    assert cells("Total\tName\n1\ta\tb\n")[0] == ["1", "a\tb"]
    assert cells("Total,Name\n1,f(a, b), c\n")[0] == ["1", "f(a, b), c"]


def test_padded_and_quoted_cells_between_commas() -> None:
    assert cells('   Name, Total (ns), Calls\n  "f(a, b)",     1234, 3\n')[0] == ["f(a, b)", "1234", "3"]


def test_a_quoted_name_of_two_lines_is_one_row(tmp_path: Path) -> None:
    report, found = account('Name,Total\n"first\nsecond",12\nlast,13\n', tmp_path)
    assert [row.cells for row in found] == [["first\nsecond", "12"], ["last", "13"]]
    assert [row.line for row in found] == [2, 4]
    assert report.reader.taken == 4 and report.reader.balanced()


def test_a_quote_that_never_ends_costs_its_line_only(tmp_path: Path) -> None:
    report, found = account('Name,Total\n"first,12\nlast,13\n', tmp_path)
    assert [row.cells for row in found] == [["last", "13"]]
    assert report.issues["unrecognised"].places == [("line 2", "")]


def test_a_row_of_units_belongs_to_the_headings() -> None:
    table = next(item for item in items('"Total","Name","Size"\nms,,KB\n1.5,"k",3\n') if isinstance(item, Table))
    assert [(head.text, head.unit) for head in table.headings] == [
        ("Total (ms)", "ms"),
        ("Name", ""),
        ("Size (KB)", "KB"),
    ]


def test_several_tables_have_their_own_columns_scope_and_ordinal() -> None:
    text = (
        "name\ttotal\na\t1\n\nsome words\n\n# One\n## Two\ntotal | name\n--- | ---\n2 | b\n\n"
        "| key | text |\n|---|---|\n| x | y |\n\n# Three\nname,avg\nc,3\n"
    )
    found = [(row.text("name"), row.table.ordinal, row.table.scope, row.table.layout.name) for row in rows(text)]
    assert found == [
        ("a", 0, ["name (line 1)"], "tabs"),
        ("b", 1, ["One", "Two"], "pipes"),
        ("c", 3, ["Three"], "commas"),
    ]


@pytest.mark.parametrize(
    ("line", "scope"),
    [
        ("## Deep thoughts ##", "Deep thoughts"),
        ("=== Device Timing Summary ===", "Device Timing Summary"),
        (" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):", "CUDA GPU Kernel Summary (cuda_gpu_kern_sum)"),
        ("**Table 3**", "Table 3"),
    ],
)
def test_a_title_is_the_scope(line: str, scope: str) -> None:
    assert rows(f"{line}\n\nname\ttotal\na\t1")[0].table.scope == [scope]


def test_a_line_of_the_program_between_rows_is_handed_out() -> None:
    found = items("name,total\na,1\nstep 3 of 9, loss is low\nb,2\n")
    assert [item.text for item in found if isinstance(item, Text)] == ["step 3 of 9, loss is low"]
    assert [item.cells for item in found if isinstance(item, Row)] == [["a", "1"], ["b", "2"]]


def test_every_line_is_in_the_account(tmp_path: Path) -> None:
    text = "hello\n\n| name | total |\n|---|---|\n| a | 1 |\n\n| key | text |\n|---|---|\n| x | y |\nbye\n"
    report, found = account(text, tmp_path)
    assert [row.cells for row in found] == [["a", "1"]]
    assert report.reader.taken == len(text.splitlines())
    assert report.reader.removed == {"structure": 4, "unrecognised": 5}
    assert [place for place, _ in report.issues["unrecognised"].places] == ["line 1", "lines 7-9", "line 10"]


def test_the_last_row_that_breaks_off_is_a_cut(tmp_path: Path) -> None:
    report, found = account("name\ttotal\tcalls\na\t1\t2\nb\t1", tmp_path)
    assert [row.cells for row in found] == [["a", "1", "2"]]
    assert report.issues["cut"].places == [("line 3", "the last row is cut off")]
    assert report.reader.balanced()


def test_headings_without_rows_are_a_table() -> None:
    (table,) = items("| name | total |\n|---|---|\n")
    assert isinstance(table, Table)


def test_crlf_and_a_byte_order_mark(tmp_path: Path) -> None:
    _, found = account("\ufeffname\ttotal\r\na\t1\r\n", tmp_path)
    assert [row.cells for row in found] == [["a", "1"]]


PLAIN = [
    "== Times ==",
    "",
    "Name   Total (us)  Calls",
    "-----  ----------  -----",
    "f(a)         12.5      4",
    "g            7.25      3",
]
WITHIN = [["f(a)", "12.5", "4"], ["g", "7.25", "3"]]


@pytest.mark.parametrize(
    "prefix",
    [
        "> ",
        ">",
        "> > ",
        "[05/08/2026-14:05:14] [I] ",
        "2026-05-08 14:05:14,123 INFO: ",
        "[rank0]: ",
        "[1,0]<stdout>: ",
        "// ",
    ],
)
def test_a_prefix_of_each_line_is_left_away(prefix: str, tmp_path: Path) -> None:
    report, found = account("\n".join(f"{prefix}{line}" for line in PLAIN) + "\n", tmp_path)
    assert [row.cells for row in found] == WITHIN
    assert found[0].table.scope == ["Times"]
    assert report.reader.taken == len(PLAIN) and report.reader.balanced() and not report.issues


def test_a_table_behind_a_quotation_has_its_own_lines() -> None:
    quoted = [f"> {line}" for line in PLAIN]
    assert cells("\n".join([*quoted, "", "so I said:", "", *PLAIN, ""])) == [*WITHIN, *WITHIN]


def test_a_time_of_day_in_the_first_cell_is_no_prefix() -> None:
    text = "When,Name,Total\n2026-05-08 14:05:14,a,1\n2026-05-08 14:05:15,b,2\n"
    assert cells(text) == [["2026-05-08 14:05:14", "a", "1"], ["2026-05-08 14:05:15", "b", "2"]]


def test_a_box_of_drawn_lines() -> None:
    text = (
        "Busy for 5 ms\n"
        "┏━━━━━━┳━━━━━━━━━━━━┓\n"
        "┃ Name ┃ Total (ms) ┃\n"
        "┡━━━━━━╇━━━━━━━━━━━━┩\n"
        "│ a|b  │ 1.5        │\n"
        "├──────┼────────────┤\n"
        "│ c    │ 2          │\n"
        "└──────┴────────────┘\n"
    )
    assert cells(text) == [["a|b", "1.5"], ["c", "2"]]
    assert rows(text)[0].table.ordinal == 0


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("**k**", "k"),
        ("`k`", "k"),
        ("**`k<T *>`**", "k<T *>"),
        ("a ** b", "a ** b"),
        ("**a** b **c**", "**a** b **c**"),
    ],
)
def test_marks_of_markdown_around_a_cell_are_no_part_of_it(cell: str, name: str) -> None:
    assert cells(f"| Name | Total (ms) |\n|---|---|\n| {cell} | **2.5** |\n| z | 1 |\n") == [[name, "2.5"], ["z", "1"]]


def test_tabs_that_became_blanks() -> None:
    table = [
        ["Time", "Total", "Calls", "Avg", "Min", "Max", "Name"],
        ["57.0%", "1.266 s", "192", "6.596 ms", "6.428 ms", "6.801 ms", "void f<4>(int, T *)"],
        ["4.0%", "900 ns", "36864", "2.390 μs", "1 ns", "-", "3d_kernel"],
    ]
    for blanks in (1, 4, 8):
        text = "\n".join("\t".join(row) for row in table) + "\n"
        text = text.replace("\t", " ") if blanks == 1 else text.expandtabs(blanks)
        assert cells(text) == table[1:], blanks


def test_headings_that_a_terminal_wrapped(tmp_path: Path) -> None:
    text = "Total (ns)  Calls\n        Name\n----------  -----  --------------\n      1200      3  f(int, float)\n"
    report, found = account(text, tmp_path)
    assert [row.cells for row in found] == [["1200", "3", "f(int, float)"]]
    assert report.reader.removed == {"structure": 3}


def test_a_rule_above_the_last_rows() -> None:
    text = (
        "Name    Total (us)  Calls  Device\n"
        "conv          12.5      4    cuda0\n"
        "--------\n"
        "Sum           12.5      4\n"
        "--------\n"
        "the end of it\n"
    )
    assert cells(text) == [["conv", "12.5", "4", "cuda0"], ["Sum", "12.5", "4", ""]]


@pytest.mark.parametrize("character", [" ", "-", "─", "|", "="])
def test_a_line_that_is_almost_a_rule_comes_to_an_end(character: str) -> None:
    line = character * 4000 + "x"
    assert cells(f"Name  Total (us)\na          1\n{line}\n") == [["a", "1"]]


# Headings and figures.


@pytest.mark.parametrize(
    ("text", "key", "unit"),
    [
        ("Total Time (ns)", "total time", "ns"),
        ("Total_Time_ms", "total time", "ms"),
        ("TotalDurationNs", "total duration", "ns"),
        ("Duration [µs]", "duration", "µs"),
        ("Time(%)", "time %", "%"),
        ("% of Total", "of total %", "%"),
        ("Cumulative %", "cumulative %", "%"),
        ("Throughput (GB/s)", "throughput", "GB/s"),
        ("Name (demangled)", "name (demangled)", ""),
        ("Kernel_Name", "kernel name", ""),
        ("Avg.(ms)", "avg", "ms"),
        ("Δμ", "δμ", ""),
        ("Δµ", "δμ", ""),
    ],
)
def test_a_heading_is_taken_apart(text: str, key: str, unit: str) -> None:
    assert (heading(text).key, heading(text).unit) == (key, unit)


def figures(headings: str, row: str, unit: str = "") -> tuple[dict[str, object], dict[str, object]]:
    heads = [heading(text) for text in headings.split("|")]
    found = read_figures(heads, row.split("|"), COLUMNS.match(heads) or {}, unit=unit)
    return found.columns, found.args


@pytest.mark.parametrize("micro", ["μs", "µs", "us", "usec", "microseconds"])
def test_units_in_cells_may_differ_from_cell_to_cell(micro: str) -> None:
    columns, args = figures("name|total|avg|min|max", f"k|1.266 s|84.724 {micro}|768 ns|6.5 ms")
    assert columns == {"total": 1.266e9, "avg": 84724.0, "min": 768.0, "max": 6.5e6, "unit": "ns"}
    assert args == {}


def test_a_figure_without_a_unit_has_that_of_the_others() -> None:
    assert figures("name|total time (ms)|avg", "k|2|1")[0] == {"total": 2e6, "avg": 1e6, "unit": "ns"}
    assert figures("name|total|avg", "k|2|1", "ns")[0] == {"total": 2.0, "avg": 1.0, "unit": "ns"}


def test_units_that_do_not_go_together_stay_apart() -> None:
    columns, args = figures("name|total (MB)|avg", "k|2.5|3 ms")
    assert (columns, args) == ({"total": 2.5, "unit": "MB"}, {"avg": "3 ms"})


def test_what_no_field_takes_goes_to_args_under_its_heading() -> None:
    columns, args = figures(
        "name|total|calls|Cumulative %|Style|Style|big", "k|1|n/a|41.59%|PushPop|7|0.1234567890123456789"
    )
    assert columns == {"total": 1.0}
    assert args == {"Cumulative %": 41.59, "Style": "PushPop", "Style#2": 7, "big": "0.1234567890123456789"}


def test_nan_is_a_figure() -> None:
    columns, _ = figures("name|total (ns)|max", "k|nan|3")
    assert str(columns["total"]) == "nan" and columns["max"] == 3.0


@given(st.decimals(0, 10**9, places=6), st.sampled_from([("s", 9), ("ms", 6), ("us", 3), ("ns", 0)]))
def test_times_are_exact(value: Decimal, unit: tuple[str, int]) -> None:
    columns, _ = figures("name|total", f"k|{value} {unit[0]}")
    assert columns["total"] == float(value.scaleb(unit[1]))


@pytest.mark.parametrize("text", ["GPU 7", "3 of 4 done", "12 (5%)", "", "-"])
def test_text_is_no_quantity(text: str) -> None:
    assert cell_quantity(text) is None


@pytest.mark.parametrize(
    ("text", "value"), [("8,192", 8192), ("1e-3", 0.001), ("nan", "NaN"), ("3 MB", "3 MB"), ("0", 0)]
)
def test_a_plain_value(text: str, value: object) -> None:
    assert plain(text) == value


@pytest.mark.parametrize("text", ["1e999", "1e-999999", "9e99999999"])
def test_a_number_that_no_float_holds_stays_text(text: str) -> None:
    assert figures("name|total (ms)|max (ms)", f"k|{text}|3") == ({"max": 3e6, "unit": "ns"}, {"total (ms)": text})


@pytest.mark.parametrize("text", ["9223372036854775808", "1.5", "inf", "3 ms"])
def test_a_count_that_is_no_int64_stays_in_args(text: str) -> None:
    columns, args = figures("name|total (ns)|calls", f"k|1|{text}")
    assert "count" not in columns and list(args) == ["calls"]


@pytest.mark.parametrize("rule", ["", "---------  ---------  -----\n"])
@pytest.mark.parametrize(
    "stray",
    [
        "\n",
        "[W 2025-01-01 10:00:00] clock throttled\n",
        "INFO: step 3\nINFO: saved\n",
        "\n{'loss': 2.1, 'lr': 1e-4}\n\n",
    ],
)
def test_lines_amid_rows_end_no_table_of_fixed_width(stray: str, rule: str) -> None:
    text = f"Kernel      Total(ms)   Calls\n{rule}gemm           12.50       3\n{stray}relu            2.50       4\n"
    text += f"{stray}softmax         1.50       5\n"
    assert [row.text("name") for row in rows(text)] == ["gemm", "relu", "softmax"]


@pytest.mark.parametrize(
    "behind",
    [
        "Layer       Size(MB)   Parts\nconv           12.50       3\n",  # other headings, of no time
        "\n" * 30 + "conv           12.50       3\n",
        "\nINFO: took  12.50 s    in 3 steps\n",  # no figures where they belong
        "\n12          12.50      3\n",  # no name
    ],
)
def test_what_follows_a_table_of_fixed_width_is_none_of_its_rows(behind: str) -> None:
    text = f"Kernel      Total(ms)   Calls\ngemm           12.50       3\nrelu            2.50       4\n{behind}"
    assert [row.text("name") for row in rows(text)] == ["gemm", "relu"]
