"""What the nightly run measures: a case of each shape, and what was once over the budget. Cheap, with fixed sizes."""

from __future__ import annotations

from typing import NamedTuple

from .rows import sources
from .source import Source


class Chosen(NamedTuple):
    """A row by the name of its sample, a shape, an output and the smaller size."""

    sample: str
    shape: str
    output: str
    size: int

    @property
    def source(self) -> Source:
        """The row."""
        name = self.sample.partition("/")[0]
        return next(one for one in sources()[name] if one.sample == self.sample)


_KINETO = "kineto/one-step-of-training.pt.trace.json"

SELECTION = (
    Chosen(_KINETO, "rows", "perfetto", 30_000),
    Chosen(_KINETO, "names", "perfetto", 20_000),
    Chosen(_KINETO, "open", "perfetto", 30_000),
    Chosen(_KINETO, "lanes", "perfetto", 6_000),
    Chosen(_KINETO, "together", "perfetto", 60_000),
    Chosen(_KINETO, "crossing", "perfetto", 6_000),
    Chosen(_KINETO, "keys", "perfetto", 3_000),
    Chosen(_KINETO, "keys", "summary", 3_000),
    Chosen(_KINETO, "text", "perfetto", 12_000_000),
    Chosen(_KINETO, "row", "perfetto", 1_000_000),
    Chosen(_KINETO, "empty", "perfetto", 3_000_000),
    Chosen(_KINETO, "lines", "parquet", 1_000_000),
    Chosen("llama-bench/log-with-devices-two-builds.md", "rows", "perfetto", 3_000),
    Chosen(_KINETO, "quotes", "parquet", 60_000),
    Chosen("chrome/begins-without-ends-and-an-end-too-many.json", "tracks", "perfetto", 4_000),
    Chosen("rpd2tracing/two-gpus-a-barrier-and-no-end.json", "tracks", "perfetto", 4_000),
    Chosen("rocprofv3/77_guid-first-never-run-and-backwards_kernel_trace.csv", "tracks", "perfetto", 4_000),
    Chosen("perfetto/phases-of-an-older-chrome.pftrace", "tracks", "perfetto", 4_000),
    Chosen("rocprofv3-json/records-before-the-names-two-processes_results.json", "keys", "perfetto", 3_000),
    Chosen("otlp/console-between-lines-older-sdk.txt", "rows", "perfetto", 2_000),
    Chosen("nsys/schema-2.9-calls-twice-mpi-as-a-domain.sqlite", "names", "parquet", 20_000),
    Chosen("csv/events-alone.csv", "number", "parquet", 4_000_000),
    Chosen("table/a-drawn-box-marks-of-markdown-and-totals.md", "rows", "parquet", 4_000),
    Chosen("mapped/decimal-commas-own-kinds-and-rows-without.csv", "row", "parquet", 2_000_000),
)
