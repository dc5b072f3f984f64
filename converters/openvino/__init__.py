"""OpenVINO: the counters of a model's layers as benchmark_app writes them (2018 to 2026, C++ and Python).

    CSV   layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)        average, detailed, sorted
          conv;EXECUTED;Convolution;jit_avx512_f32;0.103;0.103
    JSON  {"report_type": "detailed", "detailed_performance": [{"nodes": [{"name": "conv", "real_time": "0.103"}]}]}
    log   conv   EXECUTED   layerType: Convolution   execType: jit_avx512_f32   realTime (ms): 0.103   ...
    XML   <layer name="conv" type="Convolution"><data execTimeMcs="103" .../>           -exec_graph_path

Facts: benchmark_app in openvinotoolkit/openvino (statistics_report.cpp and .py, utils.py, common.hpp).
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.titles import utf8_head

_HEADINGS = re.compile(r"^layerName([;,])execStatus\1layerType\1execType\1realTime \(ms\)", re.MULTILINE)
_LINE = re.compile(r"\b(?:EXECUTED|NOT_RUN|OPTIMIZED_OUT)[ \t]*layerType: [^\n]{0,500}\brealTime(?: \(ms\))?: ")
_KEYS = (b'"detailed_performance"', b'"avg_performance"')
_REPORT_KEYS = (b'"cmd_options"', b'"configuration_setup"', b'"execution_results"')
_REPORT = re.compile(r"(?:Command line parameters|Configuration setup)[;\r\n]")
_WORDS = (b"layerName", b"layerType: ")
_BEGINNINGS = (b"Command line parameters", b"[Step 1", b"Configuration setup")
_STEP = re.compile(r"^\[Step \d+/11\] ", re.MULTILINE)
#: Where the words of each form appear at first: bytes of JSON and XML, characters of text.
_START = 1 << 12
_HEAD = 1 << 16
_FIRST = 1 << 20

_REMEDY = "read the counters of the layers: benchmark_app -pc -report_type detailed_counters writes them next to it"


def probe(sample: Sample) -> Match | None:
    """DIALECT for counters of layers, NEAR for a report or a log of benchmark_app without them."""
    head = utf8_head(sample)
    start = head[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if sample.is_json:
        return _json(head)
    if start == b"<":
        matches = b"execTimeMcs=" in head[:_FIRST] and b"<layer" in head[:_HEAD]
        return Match(Score.DIALECT, "is a runtime model of OpenVINO with times (execTimeMcs)") if matches else None
    first = head[:_FIRST]
    if not any(word in first for word in _WORDS) and not any(word in first[:_START] for word in _BEGINNINGS):
        return None
    text = (sample.text or "")[:_FIRST]
    if _HEADINGS.search(text):
        return Match(Score.DIALECT, "has the headings of benchmark_app's counters")
    if _LINE.search(text):
        return Match(Score.DIALECT, "has layers with counters, as benchmark_app prints them")
    if _REPORT.match(text) and "Execution results" in text:
        return Match(Score.NEAR, "is a report of benchmark_app about the run, without its layers", _REMEDY)
    if "[Step 1" in text and "[ INFO ] " in text and _STEP.search(text):
        return Match(Score.NEAR, "is a log of benchmark_app without counters of layers", "run benchmark_app with -pc")
    return None


def _json(head: bytes) -> Match | None:
    start = head[:_HEAD]
    if b'"real_time"' in start and b'"nodes"' in start and any(key in start for key in _KEYS):
        return Match(Score.DIALECT, "is a report of benchmark_app with counters of layers")
    if sum(key in start for key in _REPORT_KEYS) >= 2:
        return Match(Score.NEAR, "is a report of benchmark_app about the run, without its layers", _REMEDY)
    return None


FORMAT = Format(
    "openvino",
    "OpenVINO: counters of layers that benchmark_app writes and prints",
    patterns=("benchmark_*_report.csv", "benchmark_*_report.json", "*.log", "*.xml"),
    probe=probe,
    read="ktrace.converters.openvino.reader:read",
    words=(
        "layername",
        "layertype: ",
        '"real_time"',
        "exectimemcs",
        "configuration setup",
        "command line parameters",
        '"configuration_setup"',
        "[step 1",
    ),
    logged="a level",
)
