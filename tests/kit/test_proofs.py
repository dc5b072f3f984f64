"""What figures prove of columns that no heading names: rows without headings, units by shares, sums among rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ktrace.errors import KtraceError
from ktrace.trace import read

#: Three rows as people paste them without their headings: share, time, calls, mean, least, greatest, name.
PASTED = """\
                   41.25%  82.500ms       330  250.00us  190.00us  1.2500ms  void blur<float>(float*, int)
                   20.00%  40.000ms         8  5.0000ms  4.9000ms  5.1000ms  sharpen_64x64
                    1.50%  3.0000ms      1500  2.0000us     900ns  14.000us  [CUDA memcpy HtoD]
"""

PASSES = """\
===-----------------------------------------------------------===
                 ... Execution time report ...
===-----------------------------------------------------------===
  Total Execution Time: 20.0000 seconds

  ----User Time----  ----Wall Time----  ----Name----
   15.0000 ( 50.0%)   12.0000 ( 60.0%)  'gpu.module' Pipeline
    6.0000 ( 20.0%)    5.0000 ( 25.0%)    TileLoops
    3.0000 ( 10.0%)    3.0000 ( 15.0%)    Outline
    9.0000 ( 30.0%)    6.0000 ( 30.0%)  Canonicalizer
    0.0000 (  0.0%)    0.0000 (  0.0%)    (A) Dominance
    6.0000 ( 20.0%)    2.0000 ( 10.0%)  Rest
   30.0000 (100.0%)   20.0000 (100.0%)  Total
"""

REGIONS = """\
type       bytes[B]     visits  time[s] time[%] time/visit[us]  region
 ALL      9,000,123  1,000,300    40.00   100.0          39.99  ALL
 USR      9,000,000  1,000,000    30.00    75.0          30.00  USR
 COM            123        300    10.00    25.0       33333.33  COM

 USR      8,000,000    900,000    24.00    60.0          26.67  step:advance
 USR      1,000,000    100,000     6.00    15.0          60.00  step:reduce
 COM            123        300    10.00    25.0       33333.33  main
"""


def rows(text: str, tmp_path: Path, *columns: str) -> list[tuple[Any, ...]]:
    path = tmp_path / "pasted.txt"
    path.write_text(text)
    found = read(path).summaries[list(columns)]
    return [tuple(None if pd.isna(value) else value for value in row) for row in found.values.tolist()]


def test_rows_without_headings_are_read_where_a_time_is_a_count_times_a_mean(tmp_path: Path) -> None:
    fields = ("name", "total", "count", "avg", "min", "max", "percent")
    assert rows(PASTED, tmp_path, *fields) == [
        ("void blur<float>(float*, int)", 82_500_000, 330, 250_000, 190_000, 1_250_000, 41.25),
        ("sharpen_64x64", 40_000_000, 8, 5_000_000, 4_900_000, 5_100_000, 20),
        ("[CUDA memcpy HtoD]", 3_000_000, 1500, 2_000, 900, 14_000, 1.5),
    ]


def test_names_may_come_first(tmp_path: Path) -> None:
    text = "blur    330  250.00us  82.500ms\nsharpen   8  5.0000ms  40.000ms\nfill      2  1.0000ms  2.0000ms\n"
    found = [("blur", 82_500_000, 330), ("sharpen", 40_000_000, 8), ("fill", 2_000_000, 2)]
    assert rows(text, tmp_path, "name", "total", "count") == found


@pytest.mark.parametrize(
    "text",
    [
        PASTED.replace("330", "331").replace("8  5.0000ms", "9  5.0000ms"),  # no time is a count times a mean
        PASTED.replace("ms", "").replace("us", "").replace("ns", ""),  # no unit
        PASTED.splitlines()[0] + "\n",  # one row proves nothing
        "a  1.00ms  1  1.00ms  2.00ms\nb  3.00ms  1  3.00ms  4.00ms\n",  # nothing ran twice
        "iter  100  12.0s  0.12s\niter  200  24.0s  0.12s\niter  300  36.0s  0.12s\n",  # one thing, as it goes on
        "".join(f"[2026-01-01 10:00:{i}0] iter  {i}00  {12 * i}.0s  0.12s\n" for i in (1, 2, 3)),
        "a  2  1.0ms  2.0ms  3.0us  6.0us\nb  4  2.0ms  8.0ms  1.0us  4.0us\n",  # two times are
    ],
)
def test_rows_that_prove_nothing_are_no_table(text: str, tmp_path: Path) -> None:
    from ktrace.converters.table import probe
    from ktrace.input.source import Source

    path = tmp_path / "pasted.txt"
    path.write_text(text)
    assert probe(Source(str(path)).sample()) is None


def test_the_unit_of_shares_is_that_of_the_stated_total(tmp_path: Path) -> None:
    passes = rows(PASSES, tmp_path, "name", "metric", "kind", "value")
    found = {(name, metric): (kind, value) for name, metric, kind, value in passes}
    assert found["TileLoops", "duration"] == ("op", 5e9)
    assert found["'gpu.module' Pipeline", "duration"] == ("op", 4e9)
    assert found["'gpu.module' Pipeline", "inclusive"] == ("metric", 12e9)
    assert found["Total", "duration"] == ("total", 20e9)
    assert sum(value for kind, value in found.values() if kind == "op") == 20e9


@pytest.mark.parametrize(
    "text",
    [
        PASSES.replace("20.0000 seconds", "19.0000 seconds"),
        PASSES.replace("Total Execution Time: 20.0000 seconds", "Memory in use: 20.0000 seconds"),
    ],
)
def test_shares_of_another_total_state_no_unit(text: str, tmp_path: Path) -> None:
    with pytest.raises(KtraceError):
        rows(text, tmp_path, "name")


def test_rows_called_as_their_group_are_sums_of_it(tmp_path: Path) -> None:
    found = rows(REGIONS, tmp_path, "kind", "name", "total", "count")
    assert [row[0] for row in found] == ["total"] * 3 + ["op"] * 3
    assert sum(total for kind, _, total, _ in found if kind == "op") == 40e9
    assert found[3] == ("op", "step:advance", 24e9, 900_000)


def test_rows_are_no_sums_where_their_shares_add_up(tmp_path: Path) -> None:
    text = (
        "op    kernel  time (ms)  time %\ngemm  gemm  6.0  60.0\ngemm  gemm_splitk  3.0  30.0\nrelu  relu  1.0  10.0\n"
    )
    assert {row[0] for row in rows(text.replace("  ", "\t"), tmp_path, "kind")} == {"op"}


def test_a_row_of_a_hundred_percent_beside_others_is_their_sum(tmp_path: Path) -> None:
    alone = "| Stage | Time (ms) | Time % |\n|---|--:|--:|\n| frame | 10.0 | 100.0 |\n"
    text = f"{alone}| blur | 6.0 | 60.0 |\n| rest | 4.0 | 40.0 |\n"
    assert rows(text, tmp_path, "kind", "name") == [("total", "frame"), ("op", "blur"), ("op", "rest")]
    assert rows(alone, tmp_path, "kind", "name") == [("op", "frame")]


def test_a_total_that_contradicts_its_count_and_mean_is_no_sum(tmp_path: Path) -> None:
    text = "Name\tCalls\tTotal (ms)\tAvg (ms)\nblur\t4\t8.0\t2.0\nMemory: pool\t50\t900.0\t450.0\n"
    assert rows(text, tmp_path, "kind", "name", "total") == [("op", "blur", 8e6), ("metric", "Memory: pool", 900e6)]


@pytest.mark.parametrize(("calls", "count"), [("240k", 240_000), ("1.5M", 1_500_000), ("12", 12), ("7x", None)])
def test_counts_may_be_shortened(calls: str, count: int | None, tmp_path: Path) -> None:
    text = f"Section      ncalls    time\nblur         {calls:>6}    3.0ms\nrest              1    1.0ms\n"
    assert rows(text, tmp_path, "name", "count")[0] == ("blur", count)


def test_a_line_of_its_own_states_the_unit_of_all_tables_below(tmp_path: Path) -> None:
    above = "Time unit: ms\nSorted by name\nOne\nTwo\nThree\nFour\n\n"
    text = f"{above}Event    Calls    Total    Ave.\nblur     2        8.5      4.25\nrest     1        1.5      1.5\n"
    assert rows(text, tmp_path, "name", "total") == [("blur", 8.5e6), ("rest", 1.5e6)]
    with pytest.raises(KtraceError):
        rows(text.replace("Time unit: ms", "Time unit of the clock is 1 ms wide"), tmp_path, "name")


#: timemory's table, whose names have pipes.
TIMEMORY = """\
|-----------------------------------------------------------------------------------------|
|                        REAL-CLOCK TIMER (I.E. WALL-CLOCK TIMER)                          |
|-----------------------------------------------------------------------------------------|
|         LABEL         | COUNT | DEPTH |   METRIC   | UNITS |  SUM  | MEAN | % SELF |
|-----------------------|-------|-------|------------|-------|-------|------|--------|
| |0>>> main            |     1 |     0 | wall_clock | sec   | 4.000 | 4.00 |   25.0 |
| |0>>> |_copy          |    10 |     1 | wall_clock | sec   | 1.000 | 0.10 |  100.0 |
| |0>>> |_step          |     2 |     1 | wall_clock | sec   | 2.000 | 1.00 |   25.0 |
| |0>>>   |_launch      |   100 |     2 | wall_clock | sec   | 1.500 | 0.02 |  100.0 |
|-----------------------------------------------------------------------------------------|
"""


def test_names_of_timemory_are_a_tree_though_they_have_pipes(tmp_path: Path) -> None:
    found = rows(TIMEMORY, tmp_path, "kind", "name", "total", "count", "percent")
    assert [row for row in found if row[0] == "op"] == [
        ("op", "main", 1e9, 1, None),
        ("op", "copy", 1e9, 10, None),
        ("op", "step", 0.5e9, 2, None),
        ("op", "launch", 1.5e9, 100, None),
    ]
    assert [row[1:3] for row in found if row[0] == "metric"] == [("main", 4e9), ("step", 2e9)]


@pytest.mark.parametrize(
    "text",
    [
        "| Model | Top-1 | Latency (ms) |\n|---|--:|--:|\n| small | 70.1 | 2.0 |\n| large | 77.2 | 9.0 |\n",
        "| Job | Status | Duration |\n|---|---|---|\n| lint | ok | 1m 12s |\n| gpu tests | failed | 21m 40s |\n",
        "| Backend | Time (ms) |\n|---|--:|\n| cuda | 1.5 |\n| vulkan | 2.5 |\n",
        "Batch size  Latency (ms)\nfour        3.5\neight       5.5\n",
    ],
)
def test_times_of_what_a_run_has_one_of_dont_add_up(text: str, tmp_path: Path) -> None:
    assert {row[0] for row in rows(text, tmp_path, "kind")} == {"metric"}


#: Lines of texts with figures, some with times, that aren't times of the work of a program.
NO_TIMES = {
    "processes of devices": (
        "|  GPU   PID   Type   Process name  GPU Memory |",
        "|    0  2203      G   Xorg          35MiB |",
    ),
    "ps": ("USER   PID %CPU %MEM START   TIME COMMAND", "bob   4120 99.8  4.2 10:02  42:17 python train.py"),
    "top": (
        "  PID USER      VIRT    RES S  %CPU     TIME+ COMMAND",
        " 4120 bob    9123456 689123 R  99.8  42:17.01 python",
    ),
    "df": ("Filesystem      Size  Used Avail Use% Mounted on", "/dev/sda1        98G   41G   53G  44% /"),
    "layers": (" Layer (type)     Output Shape     Param #", "=====", " dense (Dense)    (None, 64)       50240"),
    "accuracy": ("| Model | Top-1 | Top-5 |", "|---|--:|--:|", "| small | 70.1 | 89.3 |", "| large | 77.2 | 93.6 |"),
    "ollama ps": (
        "NAME         SIZE      PROCESSOR    UNTIL",
        "small:8b     6.7 GB    100% GPU     4 minutes from now",
    ),
    "pip list": ("Package    Version", "---------- -------", "numpy      1.26.4", "torch      2.4.0"),
    "docker ps": (
        "CONTAINER ID   IMAGE     CREATED          STATUS",
        "0123456789ab   cuda:12   42 seconds ago   Up 41 s",
    ),
    "squeue": (
        "  JOBID PARTITION   NAME  USER ST       TIME  NODES",
        "   4711       gpu  train   bob  R    1:12:33      2",
    ),
    "ls": ("-rw-r--r-- 1 bob bob 4096 Nov  1 10:02 run.log", "-rw-r--r-- 1 bob bob  812 Nov  1 10:05 run.py"),
    "losses": (
        "epoch  train_loss  val_loss  acc",
        "1      0.912       0.850     61.2",
        "2      0.640       0.701     70.3",
    ),
    "versions": ("| Tool | Version |", "|---|---|", "| nvcc | 12.4 |", "| driver | 550.54 |"),
    "git log": ("0123abc 2 days ago  Faster blur (#12)", "4567def 3 days ago  Sharpen 2x"),
    "lspci": ("01:00.0 VGA compatible controller: Made GPU 9", "02:00.0 Non-Volatile memory controller: Made SSD"),
    "speeds": ("| size | GB/s |", "|---|--:|", "| 1 MiB | 12.5 |", "| 2 MiB | 13.0 |"),
    "free": ("               total        used        free", "Mem:           31Gi        12Gi       9.1Gi"),
}


@pytest.mark.parametrize("lines", NO_TIMES.values(), ids=list(NO_TIMES))
def test_tables_without_times_of_work_are_none_of_kernels(lines: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(KtraceError):
        rows("\n".join(lines) + "\n", tmp_path, "name")


def test_a_time_is_the_total_if_it_is_the_rounded_mean_times_the_calls(tmp_path: Path) -> None:
    text = """\
% time     seconds  usecs/call     calls    errors call
------ ----------- ----------- --------- --------- ------------
 70.00    0.000700         350         2         1 made_launch
 20.00    0.000206          13        16           made_query
 10.00    0.000098          98         1           made_wait
------ ----------- ----------- --------- --------- ------------
100.00    0.001004          53        19         1 total
"""
    assert rows(text, tmp_path, "kind", "name", "total", "count") == [
        ("op", "made_launch", 700_000, 2),
        ("op", "made_query", 206_000, 16),
        ("op", "made_wait", 98_000, 1),
        ("total", "total", 1_004_000, 19),
    ]
