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

A test is a range with the time of a repetition, and a metric with tokens/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source, begins_as_json
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import Columns, Heading
from ktrace.kit.text.json_items import beginning, json_items, plain_value
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import number, unix_ns
from ktrace.kit.text.tables import Row, Text, find_tables, read_tables
from ktrace.model.batch import Batch
from ktrace.model.fitting import as_int64
from ktrace.model.json_text import NOT_JSON, decode_document
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

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


def columns_of(headings: Sequence[Heading], below: object = None) -> dict[str, int] | None:
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
    for table in find_tables(sample, columns_of):
        score = Score.SHAPE if sample.has_any(_TIMINGS) else Score.DIALECT
        return Match(score, f"has a table of tests of llama-bench (line {table.line})")
    return None


#: Times are below this: 2^62 ns.
_LIMIT = 1 << 62

#: Short names of settings, as Markdown has them, and the values that it leaves out: those of a call without options.
#: `flash_attn` was a yes or no until 2025, and is -1, 0 or 1 since then.
_SETTINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "n_gpu_layers": ("ngl", ()),
    "n_cpu_moe": ("n_cpu_moe", ("0",)),
    "n_threads": ("threads", ()),
    "cpu_mask": ("cpu_mask", ("0x0",)),
    "cpu_strict": ("cpu_strict", ("0",)),
    "poll": ("poll", ("50",)),
    "n_batch": ("n_batch", ("2048",)),
    "n_ubatch": ("n_ubatch", ("512",)),
    "type_k": ("type_k", ("f16",)),
    "type_v": ("type_v", ("f16",)),
    "main_gpu": ("main_gpu", ("0",)),
    "split_mode": ("sm", ("layer",)),
    "no_kv_offload": ("nkvo", ("0",)),
    "flash_attn": ("fa", ("-1",)),
    "devices": ("dev", ("auto",)),
    "tensor_split": ("ts", ("0.00",)),
    "tensor_buft_overrides": ("ot", ("none",)),
    "use_mmap": ("mmap", ("1",)),
    "load_mode": ("lm", ("mmap",)),
    "embeddings": ("embd", ("0",)),
    "no_op_offload": ("nopo", ("0",)),
    "no_host": ("noh", ("0",)),
    "fit_target": ("fitt", ("0",)),
    "fit_min_ctx": ("fitc", ("0",)),
}

#: Fields that aren't arguments: they become columns.
_FIGURES = ("model_type", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts")

#: Fields of which facts are made, if all tests have the same value.
_FACTS = ("build_commit", "build_number", "cpu_info", "gpu_info", "backends", "model_type")

_RATE = re.compile(r"(?P<avg>\d+(?:\.\d+)?) ± (?P<stddev>\d+(?:\.\d+)?|-?nan)")
_APIS = {"CUDA": "cuda", "ROCm": "hip", "Vulkan": "vulkan", "Metal": "metal", "MTL": "metal", "OpenCL": "opencl"}


class Results:
    """Adds the rows of tests, and at the end the facts in which all tests agree."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self._seen: dict[str, set[str]] = {}
        self._has_times = False

    def see(self, fields: dict[str, Any]) -> None:
        """Notes the values of which facts may be made."""
        for field in _FACTS:
            seen = self._seen.setdefault(field, set())
            if (value := str(fields.get(field, ""))) and len(seen) < 2:
                seen.add(value)

    def add(self, test: dict[str, Any]) -> str | None:
        """Adds a test with the fields of CSV, JSON or SQL; returns what is wrong with another record."""
        prompt, gen, depth = (_to_int_or_none(test.get(field, 0)) for field in ("n_prompt", "n_gen", "n_depth"))
        if prompt is None or gen is None or depth is None or not (prompt or gen):
            return "no n_prompt and n_gen"
        rate = {column: _finite(test.get(field)) for column, field in (("avg", "avg_ts"), ("stddev", "stddev_ts"))}
        if rate["avg"] is None:
            return "no avg_ts"
        self.see(test)
        name = "+".join(f"{what}{n}" for what, n in (("pp", prompt), ("tg", gen)) if n)
        name += f" @ d{depth}" if depth else ""
        model, ts = test.get("model_type"), _time(test.get("test_time"))
        self._has_times = self._has_times or ts is not None
        place: dict[str, Any] = {"scope": _scope(model, [str(test.get("backends", "")), *_settings(test)]), "table": 0}
        took = _durations(test)
        args = {key: value for key, value in test.items() if key not in (*_FIGURES, "samples_ts")}
        parent = None
        if took:
            parent = self._rows.summary("range", name, unit="ns", ts=ts, args=args, **took, **place)
            args = {}
        if isinstance(samples := test.get("samples_ts"), list):
            args["samples_ts"] = samples
            place["count"] = len(samples)
        self._rows.summary(
            "metric", name, metric="tokens/s", unit="tokens/s", ts=ts, parent=parent, args=args, **rate, **place
        )
        return None

    def add_printed(self, name: str, model: str, rate: str, cells: dict[str, str], table: int) -> str | None:
        """Adds a row of Markdown, `cells` are the others by their headings; returns what is wrong with another row."""
        match = _RATE.fullmatch(rate.strip())
        if not match or not name:
            return "no tokens/s" if name else "no test"
        backend = cells.get("backend", "")
        self.see({"model_type": model, "backends": backend})
        settings = [f"{head} {cell}" for head, cell in cells.items() if head not in ("size", "params", "backend")]
        place: dict[str, Any] = {"scope": _scope(model, [backend, *settings]), "table": table, "args": cells}
        figures = {"avg": float(match["avg"]), "stddev": _finite(match["stddev"])}
        self._rows.summary("metric", name, metric="tokens/s", unit="tokens/s", **place, **figures)
        return None

    def facts(self) -> None:
        """Adds the build, the processor, the devices and the model, each if all tests have the same."""
        same = {field: next(iter(seen)) for field, seen in self._seen.items() if len(seen) == 1}
        version = " ".join(filter(None, (same.get("build_commit"), f"({same.get('build_number')})")))
        facts = {
            "tool": "llama-bench",
            "version": version if {"build_commit", "build_number"} <= same.keys() else None,
            "model": same.get("model_type"),
        }
        self._rows.fact("source", facts={key: value for key, value in facts.items() if value})
        if self._has_times:
            self._rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
        if "cpu_info" in same:
            self._rows.fact("host", facts={"cpu": same["cpu_info"]})
        api = _APIS.get(same.get("backends", ""))
        for device, name in enumerate(filter(None, same.get("gpu_info", "").split(", "))):
            self._rows.fact("device", device=device, name=name, facts={"api": api} if api else {})


def _scope(model: Any, settings: list[str]) -> list[str]:
    return [text for text in (model if isinstance(model, str) else "", ", ".join(filter(None, settings))) if text]


def _settings(test: dict[str, Any]) -> list[str]:
    """The settings that tell tests of one run apart, as Markdown names them."""
    options = []
    for field, (short, usual) in _SETTINGS.items():
        value = test.get(field)
        text = str(int(value)) if isinstance(value, bool) else str(value)
        if value is not None and text not in usual:
            options.append(f"{short} {text}")
    return options


def _durations(test: dict[str, Any]) -> dict[str, Any]:
    """The columns of the time of a repetition in ns: mean and deviation, with JSON also count, total, least, most."""
    avg, stddev = _to_int_or_none(test.get("avg_ns")), _to_int_or_none(test.get("stddev_ns"))
    if avg is None:
        return {}
    took: dict[str, Any] = {"avg": float(avg), "stddev": None if stddev is None else float(stddev)}
    samples = test.get("samples_ns")
    if isinstance(samples, list) and samples and None not in (times := [_to_int_or_none(one) for one in samples]):
        whole = [one for one in times if one is not None]
        took |= {"count": len(whole), "total": float(sum(whole)), "min": float(min(whole)), "max": float(max(whole))}
    return took


def _to_int_or_none(value: Any) -> int | None:
    return as_int64(value, 0, _LIMIT - 1)


def _finite(value: Any) -> float | None:
    parsed = number(str(value)) if type(value) in (int, float, str) else None
    return float(parsed) if parsed is not None and parsed.is_finite() else None


def _time(text: Any) -> int | None:
    """The unix time in ns of a text such as 2025-04-24T11:57:09Z."""
    return unix_ns(text[:-1]) if isinstance(text, str) and _TIME.fullmatch(text) else None


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_INSERT = re.compile(r"\s*INSERT INTO (?:llama_bench|test) \((?P<fields>[\w, ]+)\) VALUES \('(?P<values>.*)'\);\s*")
_CREATE = re.compile(r"CREATE TABLE IF NOT EXISTS (?:llama_bench|test) \(|  \w+ (?:TEXT|INTEGER|REAL),?|\);")
_LINE = re.compile(
    r"^(?:INSERT INTO|CREATE TABLE IF NOT EXISTS) (?:llama_bench|test) |^\{\"build_commit\":", re.MULTILINE
)
_BUILD = re.compile(r"build: (?P<commit>\w+) \((?P<number>\d+)\)")
_DEVICE = re.compile(r"\s*Device (?P<number>\d{1,4}): (?P<name>[^,]+), compute capability (?P<capability>\d+\.\d+)\b.*")

#: Fields that are texts, whatever they look like: a commit may be 12345678 or 8e427551.
_TEXTS = frozenset(
    (
        *("build_commit", "cpu_info", "gpu_info", "backends", "model_filename", "model_type"),
        *("cpu_mask", "devices", "tensor_split", "tensor_buft_overrides"),
    )
)

_INTEGER, _DECIMAL = re.compile(r"-?\d{1,19}"), re.compile(r"-?\d{1,18}\.\d{1,9}")

#: Bytes in which the first statement or the first object of a log is looked for.
_BEGINNING = 1 << 16


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a range and a metric for each test: the time of a repetition, and tokens/s."""
    rows = RowBuilder(conversion)
    results = Results(rows)
    begin = beginning(source, _BEGINNING)
    if begin.startswith("[") and begins_as_json(begin):
        tests = _of_json(source, results, conversion.report)
    elif begins_as_json(begin) or _LINE.search(begin):
        tests = _of_lines(Lines(source, conversion), results)
    else:
        tests = _of_tables(Lines(source, conversion), results, rows)
    for _ in tests:
        yield from rows.ready()
    results.facts()
    yield from rows.rest()


def _of_json(source: Source, results: Results, report: Report) -> Iterator[None]:
    for item in json_items(source, report):
        report.record()
        if item.problem:
            report.issue(item.problem, item.where, item.text[:80])
        elif not isinstance(item.value, dict):
            report.issue("bad-record", item.where, "not a test")
        elif problem := results.add({key: plain_value(value) for key, value in item.value.items()}):
            report.issue("bad-record", item.where, problem)
        else:
            report.used()
        yield


def _of_lines(lines: Lines, results: Results) -> Iterator[None]:
    """The tests of JSON Lines or SQL."""
    for line in lines:
        text = line.text
        if not text.strip() or _CREATE.fullmatch(text):
            lines.structure()
        elif text.lstrip().startswith(("{", "INSERT INTO ")):
            is_last = lines.peek() is None
            try:
                problem = results.add(_object(text) if text.lstrip().startswith("{") else _inserted(text))
            except (*NOT_JSON, ValueError) as error:
                lines.skip("cut" if is_last else "bad-record", str(error))
            else:
                lines.skip("bad-record", problem) if problem else lines.used()
        yield


def _object(text: str) -> dict[str, Any]:
    document = decode_document(text.encode())
    if not isinstance(document, dict):
        raise ValueError("not a test")
    return document


def _inserted(text: str) -> dict[str, Any]:
    """The fields of a statement, whose values are in quotes that nothing escapes. Raises ValueError for another."""
    match = _INSERT.fullmatch(text)
    if not match:
        raise ValueError("not a whole statement")
    names, values = match["fields"].split(", "), match["values"].split("', '")
    if len(names) != len(values):
        raise ValueError(f"{len(values)} values of {len(names)} fields")
    return _typed(names, values)


def _typed(names: Iterable[str], values: Iterable[str]) -> dict[str, Any]:
    """The fields of CSV or SQL with the types that they have in JSON, but 0 and 1 for booleans."""
    return {name: value if name in _TEXTS else _value(value) for name, value in zip(names, values, strict=True)}


def _value(text: str) -> int | float | str:
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _of_tables(lines: Lines, results: Results, rows: RowBuilder) -> Iterator[None]:
    """The tests of Markdown or CSV, and what a log says of build and devices around them."""
    for item in read_tables(lines, columns_of):
        if isinstance(item, Row):
            problem = _in_table(item, results)
            lines.skip("bad-record", problem) if problem else lines.used()
        elif isinstance(item, Text):
            if match := _BUILD.fullmatch(item.text.strip()):
                results.see({"build_commit": match["commit"], "build_number": match["number"]})
                lines.became("catalog")
            elif match := _DEVICE.fullmatch(item.text):
                facts = {"api": "cuda", "compute_capability": match["capability"]}
                rows.fact("device", device=int(match["number"]), name=match["name"], facts=facts)
                lines.became("catalog")
        yield


def _in_table(row: Row, results: Results) -> str | None:
    cells = {head.text: cell.strip() for head, cell in zip(row.table.headings, row.cells, strict=True)}
    fields = row.table.fields or {}
    if "rate" not in fields:
        return results.add(_typed(cells.keys(), cells.values()))
    printed = {row.table.headings[fields[field]].text for field in ("name", "model", "rate")}
    settings = {heading: cell for heading, cell in cells.items() if heading not in printed and cell}
    return results.add_printed(row.text("name"), row.text("model"), row.text("rate"), settings, row.table.ordinal)


FORMAT = Format(
    "llama-bench",
    "llama.cpp llama-bench results: Markdown, CSV, JSON, SQL",
    patterns=("*.md", "*.csv", "*.json", "*.jsonl", "*.sql"),
    probe=probe,
    read=read,
    words=("avg_ts", " t/s |"),
)
