"""One odd value in the middle of a text costs its record at most: every format of texts, in samples of all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES
from nightly import few

import ktrace
from ktrace.errors import InputError
from ktrace.report import KINDS, Report, Severity
from tests.fuzz.samples import Sample, samples

#: A text and a number as values of JSON; a word and a number of any other text.
_STRING = re.compile(rb'(?<=[:\[,])(\s*)"((?:[^"\\\n]|\\.)*)"(?=\s*[,\]}])')
_NUMBER = re.compile(rb"(?<=[:\[,])(\s*)(-?\d+(?:\.\d+)?)(?=\s*[,\]}])")
_WORD = re.compile(rb"()([A-Za-z_]\w{2,})")
_FIGURE = re.compile(rb"()(?<![\w.:/-])(\d+(?:\.\d+)?)(?![\w.:/])")

_DEEP = b"[" * 2000 + b"1" + b"]" * 2000

#: The middle is what other records need: a heading, an id, the only record with a column that its mapping names.
_NEEDED = {
    "mapped/nested-objects-counters-and-a-broken-line.jsonl": "the column 'used' is in the middle record alone",
    "nsys-stats/launches-in-sum_cuda_kern_exec_sum.csv": "a heading",
    "nsys-stats/old-headings-without-median.txt": "the figure that shows the unit of the table",
    "latencyprism/strict-no-findings-virtual-gpu.md": "the number that shows which character is the decimal point",
    "tenstorrent/cpp_device_perf_report.csv": "a heading",
    "rocprof/counters-with-times-of-another-run.csv": "a heading",
    "ascend-csv/l2-cache-of-a-310p.csv": "a heading",
    "xctrace/tables-of-the-host-hangs-signposts-samples.xml": "the columns of a table",
}


#: Formats of bytes; a page whose trace is compressed; a text that is parsed at once, by the package perfetto.
_NOT_TEXTS = ("perfetto", "xplane", "legion-prof", "trace2html", "perfetto-text")

#: Each bracket of one odd row counts as a record; all other rows come out.
_PIECES = {("memory-timeline-from-before-the-capture.raw.json", "nested deeply")}

#: Records that others need, too -> how many are lost with the one in the middle.
_WITH_OTHERS = {"cpu-profile-in-chunks-out-of-order.json": 4}  # it has the nodes that samples of other chunks name

#: Nothing tells where a text without its end ends: in lists of lists, and in a member that goes on to the end.
_ENDLESS = {
    (name, "a text without its end")
    for name in ("query-range-of-two-gpus.json", "hermes-samples-with-numbers-as-texts.json")
}


def _most(fmt: str, way: str) -> int:
    """How many records may be lost: a half needs its other half, and a text without its end may take the next event."""
    halves = fmt in ("chrome", "ggml-opencl", "speedscope") or way == "a text without its end"
    return 2 if halves else 1


def _middle(pattern: re.Pattern[bytes], data: bytes) -> tuple[int, int] | None:
    found = min(pattern.finditer(data), key=lambda one: abs(one.start() - len(data) // 2), default=None)
    return found.span(2) if found else None


def is_json(data: bytes) -> bool:
    """Whether a text is JSON, or has it on lines."""
    return data.lstrip(b"\xef\xbb\xbf \r\n")[:1] in (b"{", b"[")


def damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The text with one value in its middle made odd, in each way."""
    quoted = is_json(data)

    def put(start: int, end: int, new: bytes) -> bytes:
        return data[:start] + new + data[end:]

    if text := _middle(_STRING if quoted else _WORD, data):
        start, end = text
        old = data[start:end]
        yield "half of a surrogate pair", put(start, end, old + rb"\ud800")
        yield "not UTF-8", put(start, end, old + b"\xff")
        yield "a text nested deeply", put(start - quoted, end + quoted, _DEEP)
        yield "a text of words", put(start - quoted, end + quoted, b"two words")
        if quoted:
            yield "a text without its end", put(start, end + 1, old)
    if number := _middle(_NUMBER if quoted else _FIGURE, data):
        for way, new in (
            ("digits", b"9" * 400),
            ("null", b"null"),
            ("word", b"oops"),
            ("words", b"two words"),
            ("nested deeply", _DEEP),
        ):
            yield way, put(*number, new)


def _lost(report: Report) -> int:
    return sum(issue.rows for kind, issue in report.issues.items() if KINDS[kind].severity >= Severity.SKIP)


def _converted(path: Path, fmt: str) -> Report:
    report = ktrace.convert(path, path.with_name("out.jsonl"), overwrite=True, from_=fmt)
    assert report.balanced()
    return report


def _texts() -> Iterator[Any]:
    """The samples that are texts, as parameters."""
    for fmt, several in samples().items():
        for sample in several if fmt not in _NOT_TEXTS else ():
            if sample.path.is_file() and f"{fmt}/{sample.name}" not in _NEEDED:
                head = sample.path.read_bytes()[:4096]
                if b"\0" not in head and head[:2] != b"\x1f\x8b":
                    yield pytest.param(fmt, sample, id=f"{fmt}/{sample.name}")


@pytest.mark.parametrize(("fmt", "sample"), few(_texts(), 1, by=lambda values: values[0]))
def test_one_odd_value_costs_its_record(fmt: str, sample: Sample, tmp_path: Path) -> None:
    path, data = sample.copy(tmp_path), sample.path.read_bytes()
    whole = _converted(path, fmt)
    for way, text in damaged(data):
        path.write_bytes(text)
        if (sample.name, way) in _ENDLESS:
            with pytest.raises(InputError, match=r"JSON is malformed|nothing to write"):
                _converted(path, fmt)
            continue
        report = _converted(path, fmt)
        if is_json(data) and (sample.name, way) not in _PIECES:
            most = _WITH_OTHERS.get(sample.name, _most(fmt, way))
            assert _lost(report) - _lost(whole) <= most, way
        if is_json(data) and way in ("a text without its end", "a text of words"):
            assert report.issues, way


@pytest.mark.parametrize("indent", [2, None])
def test_keys_of_canonical_json_may_have_any_order(indent: int | None, tmp_path: Path) -> None:
    document = json.loads((SAMPLES / "json/pretty-printed.json").read_text())
    data = json.dumps(document, indent=indent, sort_keys=True).encode()  # as `jq -S .` prints it
    path = tmp_path / "sorted.json"
    path.write_bytes(data)
    whole = _converted(path, "json")
    for way, text in damaged(data):
        path.write_bytes(text)
        report = _converted(path, "json")
        assert whole.written - report.written <= 1, way
        assert report.issues or way == "null", way
