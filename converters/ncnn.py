"""What ncnn prints of its speed: benchncnn's time of each network, and of each layer, if built with NCNN_BENCHMARK.

    loop_count = 8
    num_threads = 4
    powersave = 0
    gpu_device = -1
    cooling_down = 1
    Convolution        conv1             1.25ms    | [227, 227,   3 *1] -> [113, 113,  16 *4]     kernel: 3 x 3     ...
    Split              splitncnn_0       0.00ms    |
    Convolution        conv1           152.30us    |
              squeezenet  min =    2.35  max =    2.61  avg =    2.48

Times of networks are in ms (benchmark/benchncnn.cpp). Layers whose time is in us ran on a GPU, between two of its
timestamps (src/net.cpp); the others are timed on the host (src/benchmark.cpp). Each line of a layer is an execution,
also in runs of the warm-up. Layers of a network are printed before its own line.

Reads networks, and each execution of a layer, as summaries: no line has a time of day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_TIME = r"(\d{1,9}\.\d\d)"
#: What Android's log puts before a line.
_LOGGED = re.compile(r"(?:.{0,80}\s)?(?:[VDIWEF]/)?ncnn *(?:\( *\d+\) *)?: ")
_NETWORK = re.compile(rf"(\S.{{0,200}}?) +min = +{_TIME} +max = +{_TIME} +avg = +{_TIME}")
_LAYER = re.compile(rf"([^\s|]\S{{0,99}}) +([^\s|].{{0,200}}?) +{_TIME}([mu])s {{4}}\|(.{{0,400}})")
_SETTING = re.compile(r"(loop_count|num_threads|powersave|gpu_device|cooling_down) = (-?\d{1,9})")
_DEVICE = re.compile(r"\[(\d{1,4}) ([^\[\]]{1,200})\] +[\w/-]+=.{0,400}")
_SHAPES = re.compile(r" *\[([^\[\]]{1,60})\] -> \[([^\[\]]{1,60})\]")
_WINDOW = re.compile(r"(kernel|stride): (\d+ x \d+(?: x \d+)?)")
_NS = {"m": 1_000_000, "u": 1_000}


def probe(sample: Sample) -> Match | None:
    """DIALECT for the time of a network or of a layer."""
    for number, text in enumerate(sample.lines, 1):
        if "s    |" in text and _LAYER.fullmatch(_bare(text)):
            return Match(Score.DIALECT, f"has layers of ncnn (line {number})")
        if "  avg = " in text and _NETWORK.fullmatch(_bare(text)) and "[ - ]" not in text:
            return Match(Score.DIALECT, f"has networks of ncnn's benchncnn (line {number})")
    return None


def _bare(text: str) -> str:
    """A line without what a logger puts before it."""
    logged = _LOGGED.match(text)
    return (text[logged.end() :] if logged else text).strip()


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each network and for each line of a layer."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    settings: dict[str, str] = {}
    table = 0
    for line in lines:
        text = _bare(line.text)
        if not text:
            lines.structure()
        elif match := _NETWORK.fullmatch(text):
            _network(rows, match, settings, table)
            table += 1
            lines.used()
        elif match := _LAYER.fullmatch(text):
            _layer(rows, match, settings, table)
            lines.used()
        elif match := _SETTING.fullmatch(text):
            settings[match[1]] = match[2]
            lines.structure()
        elif match := _DEVICE.fullmatch(text):
            rows.fact("device", device=int(match[1]), name=match[2], facts={"api": "vulkan"})
            lines.became("catalog")
        yield from rows.ready()
    rows.fact("source", facts={"tool": "ncnn", **({"settings": settings} if settings else {})})
    yield from rows.rest()


def _network(rows: RowBuilder, match: re.Match[str], settings: dict[str, str], table: int) -> None:
    """Adds the time of a network: of loop_count runs, without those of the warm-up."""
    names = ("min", "max", "avg")
    times = zip(names, match.groups()[1:], strict=True)
    figures: dict[str, Any] = {name: float(Decimal(time) * _NS["m"]) for name, time in times}
    loops = int(settings.get("loop_count", 0))
    figures["count"] = loops if loops > 0 else None
    args = {key: int(value) for key, value in settings.items()}
    rows.summary("metric", match[1], unit="ns", device=_device(settings), table=table, args=args, **figures)


def _layer(rows: RowBuilder, match: re.Match[str], settings: dict[str, str], table: int) -> None:
    """Adds an execution of a layer."""
    kind, name, time, unit, rest = match.groups()
    shapes = _SHAPES.match(rest)
    args = {} if shapes is None else {"in": " ".join(shapes[1].split()), "out": " ".join(shapes[2].split())}
    args |= dict(_WINDOW.findall(rest))
    on_gpu = unit == "u"
    rows.summary(
        "kernel" if on_gpu else "op",
        kind,
        unit="ns",
        total=float(Decimal(time) * _NS[unit]),
        count=1,
        layer=name,
        table=table,
        device=_device(settings) if on_gpu else None,
        args=args,
    )


def _device(settings: dict[str, str]) -> int | None:
    """The GPU that was asked for, None for the CPU."""
    device = int(settings.get("gpu_device", -1))
    return device if device >= 0 else None


FORMAT = Format(
    "ncnn",
    "ncnn: times of networks (benchncnn) and of layers",
    patterns=("*.log", "*.txt"),
    probe=probe,
    read=read,
    words=("  avg = ", "ms    |", "us    |"),
    prose=True,
)
