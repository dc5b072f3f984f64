"""TensorRT: what its benchmark program trtexec exports and prints (TensorRT 5.1 to 11).

    --exportProfile   [ { "count" : 4 }                                             the time of each layer
                      , { "name" : "Conv_0", "timeMs" : 0.5, "averageMs" : 0.125, "medianMs" : 0.12, "percentage" : 50 }
    --exportTimes     [ { "startEnqMs" : 2.7, "endEnqMs" : 2.71, ..., "computeMs" : 0.87, ... }      each query
    --exportLayerInfo {"Layers": [{"Name": "Conv_0", "LayerType": "CaskConvolution", ...}], "Bindings": ["x"]}
    its log           [05/08/2024-14:05:14] [I] === Profile (2094 iterations ) ===
                      [05/08/2024-14:05:14] [I] Latency: min = 0.85 ms, max = 0.87 ms, ..., percentile(99%) = 0.87 ms

A folder with the exports of one run is one trace, its files named as trex names them:

    resnet.profile.json or resnet.onnx.engine.profile.json     read second: each layer gets its description
    resnet.graph.json                                          read first
    resnet.timing.json                                         the queries

Facts: samples/common/sampleReporting.cpp, sampleDevice.cpp and logging.h of NVIDIA/TensorRT from 2019 to 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.titles import utf8_head

_PROFILE = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"count"\s*:\s*\d+\s*\}\s*(?:\]|(?:,\s*)?\{\s*"name"\s*:)')
_TIMES = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"start(?:Enq|In)Ms"\s*:')
_LAYERS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"Layers"\s*:\s*\[')
_TREX = re.compile(rb'\s*\{\s*"(?:performance_summary|model_options)"\s*:')
_LAYER_WORDS = (b'"LayerType"', b'"TacticValue"', b'"TacticName"', b'"Bindings"')

_TITLE = re.compile(r"=== Profile \(\d+ iterations \) ===")
_LINES = ("=== Performance summary ===", "Average on ", "Average over ")
_BEGINNINGS = (b"TensorRT.trtexec", b"runs - GPU latency")
_BEGIN = 1 << 16
_RUN = "&&&& RUNNING TensorRT.trtexec"

_TREX_REMEDY = "read the files next to it: NAME.profile.json, NAME.timing.json, or trtexec's own log"
_LOG_REMEDY = "run trtexec with --dumpProfile or --exportProfile=profile.json, and let the run end"

_NAME = re.compile(r"(?P<run>[^/]+)\.(?P<what>graph|profile|timing)\.json(?:\.gz|\.zst)?")

#: The order in which the files are read.
_ORDER = ("graph", "profile", "timing")


def probe(sample: Sample) -> Match | None:
    """MAGIC for an export, DIALECT for a log, NEAR for facts about a run and for a log without times."""
    if sample.listing is not None:
        files = own_files(sample.listing)
        return Match(Score.DIALECT, f"contains the exports of a run of trtexec: {', '.join(files)}") if files else None
    head = utf8_head(sample)
    if sample.is_json:
        return _json(head)
    if b"=== P" not in head and not any(word in head[:_BEGIN] for word in _BEGINNINGS):
        return None
    text = sample.text or ""
    if match := _TITLE.search(text):
        return Match(Score.DIALECT, f"has trtexec's title '{match[0]}'")
    if _LINES[0] in text and "Throughput: " in text:
        return Match(Score.DIALECT, "has the performance summary of trtexec")
    if "runs - GPU latency: " in text or (_RUN in text and any(line in text for line in _LINES)):
        return Match(Score.DIALECT, "is a log of trtexec with average times of runs")
    if _RUN in text:
        return Match(Score.NEAR, "is a log of trtexec without any times", _LOG_REMEDY)
    return None


def _json(head: bytes) -> Match | None:
    if _PROFILE.match(head):
        return Match(Score.MAGIC, "is a profile of trtexec: a list with a count, then names")
    if _TIMES.match(head):
        return Match(Score.MAGIC, "is a list of times of trtexec")
    if _LAYERS.match(head) and any(word in head for word in _LAYER_WORDS):
        return Match(Score.MAGIC, "describes the layers of a TensorRT engine")
    if _TREX.match(head):
        return Match(Score.NEAR, "is a file of facts about a TensorRT engine, without its profile", _TREX_REMEDY)
    return None


def own_files(listing: Iterable[str]) -> dict[str, str]:
    """Returns what -> file of a folder with one run; nothing for another folder, or one with several runs."""
    matches = [match for path in listing if (match := _NAME.fullmatch(path))]
    files = {match["what"]: match[0] for match in matches}
    one = len({match["run"] for match in matches}) == 1 and len(files) == len(matches)
    return {what: files[what] for what in _ORDER if what in files} if one and len(files) > 1 else {}


FORMAT = Format(
    "tensorrt",
    "TensorRT: profiles, times and layers that trtexec exports, its log",
    patterns=("*.profile.json", "*.timing.json", "*.graph.json", "*.log"),
    probe=probe,
    read="ktrace.converters.tensorrt.exports:read",
    words=(
        '"count"',
        '"startenqms"',
        '"startinms"',
        '"layers"',
        "=== p",
        "tensorrt.trtexec",
        "gpu latency",
        '"performance_summary"',
        '"model_options"',
    ),
    reads_folders=True,
    logged="a time",
)
