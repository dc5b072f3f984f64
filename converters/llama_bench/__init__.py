"""Results of llama.cpp's llama-bench in each of its outputs (`-o md`, `csv`, `json`, `jsonl`, `sql`).

    | model                  |       size |     params | backend    | ngl |            test |                  t/s |
    | ---------------------- | ---------: | ---------: | ---------- | --: | --------------: | -------------------: |
    | qwen2 7B Q4_K - Medium |   4.36 GiB |     7.62 B | CUDA       |  99 |           pp512 |      7340.20 ± 23.45 |

    build: 8cf427ff (5163)

All others have the fields of a test by name: what was built and run, its settings, `n_prompt`, `n_gen`, `n_depth`, the
time at which it began, mean and deviation of its repetitions (`avg_ns`, `stddev_ns`, `avg_ts`, `stddev_ts` in
tokens/s). JSON has each repetition, too (`samples_ns`, `samples_ts`). tools/llama-bench/llama-bench.cpp (until 2025
examples/llama-bench/) writes them; the fields of settings have changed from 2023 to 2026, those of figures haven't.
The table of SQL is `llama_bench`, in 2023 and 2024 `test`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import Columns, Heading

_KEYS = ('"model_type"', '"n_prompt"', '"n_gen"', '"avg_ts"')
_SQL = re.compile(r"(?:INSERT INTO|CREATE TABLE IF NOT EXISTS) (?:llama_bench|test) \(\s*build_commit\b")
_OBJECT = re.compile(r"^\{\"build_commit\":[^\n]*\"avg_ts\":", re.MULTILINE)

#: Words of other lines of llama.cpp, which say more than the table below them.
_TIMINGS = ("vulkan timings:", "print: ", "print_timing", " us/run - ")

#: The columns of Markdown and of CSV.
MARKDOWN = Columns(
    {"name": ("test",), "model": ("model",), "rate": ("t/s",)},
    required=("name", "model", "rate"),
)
CSV = Columns(
    {"name": ("model type",), "prompt": ("n prompt",), "gen": ("n gen",), "avg": ("avg ts",)},
    required=("name", "prompt", "gen", "avg"),
)


def columns_of(headings: Sequence[Heading], first: Sequence[str] = ()) -> dict[str, int] | None:
    """Returns the columns of a table of tests, in Markdown or CSV."""
    return MARKDOWN.match(headings) or CSV.match(headings)


def probe(sample: Sample) -> Match | None:
    """DIALECT for tests in any of the outputs, SHAPE for a table in a log that has other figures, too."""
    text = sample.text or ""
    if sample.is_json:
        is_test = all(key in text for key in _KEYS)
        return Match(Score.DIALECT, "has tests of llama-bench with n_prompt, n_gen and avg_ts") if is_test else None
    if _SQL.search(text):
        return Match(Score.DIALECT, "fills a table with tests of llama-bench")
    if _OBJECT.search(text):
        return Match(Score.DIALECT, "has a test of llama-bench with build_commit and avg_ts")
    from ktrace.kit.text.tables import find_tables

    for table in find_tables(sample, columns_of):
        score = Score.SHAPE if sample.has_any(_TIMINGS) else Score.DIALECT
        return Match(score, f"has a table of tests of llama-bench (line {table.line})")
    return None


FORMAT = Format(
    "llama-bench",
    "llama.cpp llama-bench results: Markdown, CSV, JSON, SQL",
    patterns=("*.md", "*.csv", "*.json", "*.jsonl", "*.sql"),
    probe=probe,
    read="ktrace.converters.llama_bench.reader:read",
    words=("avg_ts", " t/s |"),
)
