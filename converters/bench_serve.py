"""What `vllm bench serve`, benchmark_serving.py and sglang.bench_serving print: throughput and latencies.

    ============ Serving Benchmark Result ============
    Successful requests:                     100
    Benchmark duration (s):                  12.50
    Request throughput (req/s):              8.00
    ---------------Time to First Token----------------
    Mean TTFT (ms):                          45.50
    Median TTFT (ms):                        40.25
    P99 TTFT (ms):                           120.00

Facts: vllm/benchmarks/serve.py of vLLM, python/sglang/bench_serving.py of SGLang.
"""

from __future__ import annotations

from ktrace.kit.text.forms import Columns, Form, Forms

#: The first word of a line of a latency -> the figure that it is; others are arguments.
_FIGURES = {
    **{"Mean": "avg", "Median": "median", "Max": "max", "Min": "min", "Std": "stddev"},
    **{"P50": "median", "P95": "p95", "P99": "p99"},
}


def _latency(columns: Columns) -> Columns:
    """One figure of a latency."""
    word = columns["args"].pop("word")
    value, figure = columns.pop("value"), _FIGURES.get(word)
    columns |= {figure: value} if figure else {"value": value, "metric": f"duration {word}"}
    return columns


FORMS = Forms(
    "bench serve",
    ("serving benchmark result",),
    Form("", r"=+ Serving Benchmark Result =+", opens=True),
    Form(
        "metric",
        r"(?P<word>Mean|Median|Max|Min|Std|P\d{1,2}(?:\.\d)?) (?P<name>[A-Z]\w{1,20}(?: [A-Z]\w{1,20}){0,3})"
        r" \((?P<unit>ms|s)\): +(?P<value>\d{1,12}(?:\.\d{1,6})?) *",
        refine=_latency,
        within=True,
        sign=False,
    ),
    Form(
        "metric",
        r"(?P<name>Benchmark duration) \((?P<unit>s)\): +(?P<total>\d{1,12}(?:\.\d{1,6})?) *",
        within=True,
        sign=False,
    ),
    Form(
        "metric",
        r"(?P<name>[A-Z][\w -]{1,60}?)(?: \((?P<unit>(?:req|tok|token|toks)s?/s)\))?:"
        r" +(?P<value>\d{1,15}(?:\.\d{1,6})?) *",
        refine=lambda columns: columns | {"metric": columns["name"]},
        within=True,
        sign=False,
    ),
    Form("", r"-+(?:[A-Z][^-]{3,80})?-+[^-]{0,60}-*", within=True, sign=False),
    Form("", r"={10,}", within=True, closes=True, sign=False),
)

FORMAT = FORMS.format(
    "bench-serve", "vLLM and SGLang bench serve: throughput and latencies of a server", "*.log", "*.txt"
)
