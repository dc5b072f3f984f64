"""Reads each sample as a counter of its series, and the reasons of low clocks as ranges."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.text.headings import to_base
from ktrace.kit.text.json_items import beginning
from ktrace.kit.text.lines import Line, Lines
from ktrace.kit.text.states import REASONS_TRACK, States, reasons
from ktrace.kit.trace_json.salvage import decode_whole
from ktrace.model.batch import Batch
from ktrace.model.json_text import NOT_JSON
from ktrace.model.row_builder import RowBuilder

from . import SAMPLE
from .series import NAME, Devices, Series, unit_of

_TEXT = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_LABEL = re.compile(rf"\s*(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_TEXT})\s*=\s*{_TEXT}\s*(?:,|$)")
_ESCAPED = re.compile(r'\\(["\\n])')
_COMMENT = re.compile(r"# (HELP|TYPE|UNIT) ([a-zA-Z_:][a-zA-Z0-9_:]*)(?:[ \t](.*))?")

#: DCGM's and nvidia-smi's masks of why clocks are low.
_MASK = re.compile(
    r"DCGM_FI_DEV_CLOCKS?_(?:THROTTLE|EVENT)_REASONS|nvidia_smi_clocks_(?:throttle|event)_reasons_active"
)
_LIMIT = 1 << 62

#: Why NaN becomes no row: the server has no value at that time.
_NO_VALUE = "no value"

#: A time in text from here on is in ms, else in s: 1973 in ms, and the year 5138 in s.
_MILLISECONDS = 100_000_000_000


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a counter for each sample. Raises DamagedInput if the document isn't of a form that the probe knows."""
    head = beginning(source)
    rows = RowBuilder(conversion)
    samples = _Samples(rows)
    if re.match(r'\{\s*"metric"', head):
        reading = _lines_of_json(source, conversion, samples)
    elif re.match(r'\{\s*"|\[\s*\{', head):
        reading = _answer(source, conversion, samples)
    else:
        reading = _text(source, conversion, samples)
    for _ in reading:
        yield from rows.ready()
    samples.finish()
    yield from rows.rest()


class _Samples:
    """The series that were seen, and their samples as rows."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self._devices = Devices()
        self._states = States(rows)
        self._known: dict[tuple[Any, Any], str] = {}

    def series(self, labels: Mapping[str, str], help: str | None = None, unit: str | None = None) -> Series:
        """The series with these labels; adds what they say of its device, once."""
        about_device = self._devices.series(labels, unit_of(labels.get(NAME, ""), help, unit))
        host, device = about_device.columns["host"], about_device.columns["device"]
        description = f"{about_device.device_name} {about_device.facts}"
        if device is not None and self._known.get((host, device)) != description:
            self._known[host, device] = description
            self._rows.fact(
                "device", host=host, device=device, name=about_device.device_name, facts=about_device.facts or None
            )
        return about_device

    def add(self, series: Series, ts: int, value: float) -> str | None:
        """Adds a sample; returns why it can't."""
        if math.isnan(value):
            return _NO_VALUE
        if not math.isfinite(value):
            return f"the value is {value}"
        if abs(ts) >= _LIMIT:
            return "the time is beyond the model's"
        unit, factor = to_base(Decimal(1), series.unit)
        columns = series.columns | {"unit": unit or None, "value": value * float(factor)}
        self._rows.event("counter", series.name, ts=ts, **columns)
        if _MASK.fullmatch(series.name) and value.is_integer() and 0 <= value < 1 << 63:
            place = series.columns["host"], series.columns["device"]
            place_columns = {name: series.columns[name] for name in ("host", "device")}
            self._states.change(place, place_columns, ts, ((REASONS_TRACK, reason) for reason in reasons(int(value))))
        return None

    def finish(self) -> None:
        """Ends the states that last, and says what the clock is."""
        self._states.finish()
        self._rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})


def _answer(source: Source, conversion: Conversion, samples: _Samples) -> Iterator[None]:
    """Reads an answer of the HTTP API, or its result: a matrix has many samples of each series, a vector one."""
    report = conversion.report
    document = decode_whole(source, report, partial(_damaged, source), "can't be read")
    data = document.get("data") if isinstance(document, dict) else {"result": document}
    results = data.get("result") if isinstance(data, dict) else None
    if not isinstance(results, list):
        raise _damaged(source, "has no data.result")
    for number, one in enumerate(results):
        where = f"data.result[{number}]"
        series = samples.series(_labels_of(one))
        values = one.get("values", [one["value"]] if "value" in one else []) if isinstance(one, dict) else None
        if not isinstance(values, list):
            report.record()
            report.issue("bad-record", where, "no values")
            continue
        histograms = one.get("histograms", [one["histogram"]] if "histogram" in one else [])
        if isinstance(histograms, list) and histograms:
            report.record(len(histograms))
            report.issue("bad-record", where, "native histograms", len(histograms))
        for place, pair in enumerate(values):
            report.record()
            problem = _pair(samples, series, pair)
            if problem == _NO_VALUE:
                report.used(outcome="structure")
            elif problem:
                report.issue("bad-record", f"{where}.values[{place}]", problem)
            else:
                report.used()
        yield


def _labels_of(one: Any) -> dict[str, str]:
    labels = one.get("metric") if isinstance(one, dict) else None
    return {name: value for name, value in labels.items() if isinstance(value, str)} if isinstance(labels, dict) else {}


def _pair(samples: _Samples, series: Series, pair: Any) -> str | None:
    """Adds a time in s with a value in text; returns why it can't."""
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], (int, float)):
        return "not a time and a value"
    at, value = _parse_float(pair[0]), _parse_float(pair[1])
    if value is None or at is None or not math.isfinite(at):
        return "not a number"
    return samples.add(series, round(pair[0] * 1000) * 10**6, value)  # the server's times are in ms


def _parse_float(text: Any) -> float | None:
    try:
        return float(text) if isinstance(text, (str, int, float)) else None
    except (ValueError, OverflowError):
        return None


def _damaged(source: Source, what: str) -> DamagedInput:
    return DamagedInput(
        what,
        path=source.path,
        expected='an answer of Prometheus\' HTTP API: {"status": "success", "data": {"result": [...]}}',
        remedy="ask the server again: /api/v1/query_range",
    )


def _lines_of_json(source: Source, conversion: Conversion, samples: _Samples) -> Iterator[None]:
    """Reads VictoriaMetrics' export: a line for each series, or a part of one."""
    lines = Lines(source, conversion)
    for line in lines:
        if not line.text.strip():
            lines.structure()
            continue
        try:
            one = msgspec.json.decode(line.text)
        except NOT_JSON as error:
            lines.skip("bad-record", str(error))
            continue
        values, times = (one.get(name) if isinstance(one, dict) else None for name in ("values", "timestamps"))
        if not isinstance(values, list) or not isinstance(times, list) or len(values) != len(times):
            lines.skip("bad-record", "not as many values as timestamps")
            continue
        series = samples.series(_labels_of(one))
        problems = (_dumped(samples, series, ts, value) for ts, value in zip(times, values, strict=True))
        wrong = [problem for problem in problems if problem not in (None, _NO_VALUE)]
        lines.used()
        if wrong:
            conversion.report.record(len(wrong))
            conversion.report.issue("bad-record", f"line {line.number}", wrong[0], len(wrong))
        yield


def _dumped(samples: _Samples, series: Series, ts: Any, value: Any) -> str | None:
    if value is None:
        return _NO_VALUE
    number = _parse_float(value)
    if number is None or not isinstance(ts, int):
        return "not a number" if ts is not None else "no time"
    return samples.add(series, ts * 10**6, number)


def _text(source: Source, conversion: Conversion, samples: _Samples) -> Iterator[None]:
    """Reads the text format, and what `promtool tsdb dump` prints."""
    lines = Lines(source, conversion)
    comments: dict[str, dict[str, str]] = {}
    series_of_labels: dict[str, Series | None] = {}
    for line in lines:
        text = line.text.strip()
        if not text or text.startswith("#"):
            if comment := _COMMENT.fullmatch(text):
                comments.setdefault(comment[2], {})[comment[1]] = (comment[3] or "").strip()
            lines.structure()
        elif (problem := _sample(line, samples, series_of_labels, comments)) == _NO_VALUE:
            lines.structure()
        elif problem:
            lines.skip("bad-record", problem)
        else:
            lines.used()
        yield


def _sample(
    line: Line, samples: _Samples, series_of_labels: dict[str, Series | None], comments: Mapping[str, Mapping[str, str]]
) -> str | None:
    """Adds the sample of a line; returns why it can't."""
    text = line.text.strip()
    match = SAMPLE.fullmatch(text)
    if match is None:
        return "not a metric with a value"
    if not match["time"]:
        return "no time"
    key = text[: match.start("value")]
    if key not in series_of_labels:
        labels = _labels(match["labels"] or "")
        if labels is not None and match["name"]:
            labels[NAME] = match["name"]
        about = comments.get((labels or {}).get(NAME, ""), {})
        series_of_labels[key] = None if labels is None else samples.series(labels, about.get("HELP"), about.get("UNIT"))
    series, time = series_of_labels[key], Decimal(match["time"])
    if series is None:
        return "labels that can't be read"
    scale = 10**6 if "." not in match["time"] and abs(time) >= _MILLISECONDS else 10**9
    return samples.add(series, int(time * scale), float(match["value"]))


def _labels(text: str) -> dict[str, str] | None:
    """The labels between braces, None if they can't be read."""
    labels, place = dict[str, str](), 0
    while place < len(text.rstrip()):
        match = _LABEL.match(text, place)
        if match is None:
            return None
        name = match[1] or match[2]
        labels[name] = _ESCAPED.sub(lambda one: "\n" if one[1] == "n" else one[1], match[3])
        place = match.end()
    return labels
