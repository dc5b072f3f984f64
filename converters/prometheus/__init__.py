"""Metrics of Prometheus over time: power, clocks, temperature, utilisation, queues, whatever a server scraped.

{"status": "success", "data": {"resultType": "matrix", "result": [
  {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0", "Hostname": "node-a"},
   "values": [[1714566896.5, "312.4"], [1714566897.5, "698.7"]]}]}}         /api/v1/query_range, /api/v1/query

    [{"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0"},
      "values": [[1714566896.5, "312.4"]]}]               its result alone: prometheus-api-client and others keep it

{"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0"},
 "values": [312.4, 698.7], "timestamps": [1714566896500, 1714566897500]}     a line each: VictoriaMetrics' export

# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",Hostname="node-a"} 312.4 1714566896500       text with times: /federate

{__name__="DCGM_FI_DEV_POWER_USAGE", gpu="0"} 312.4 1714566896500            promtool tsdb dump
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

#: A metric, its labels, a value, and maybe a time.
SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)?(?:\{(?P<labels>[^\"{}]*(?:\"[^\"\\]*(?:\\.[^\"\\]*)*\"[^\"{}]*)*)\})?[ \t]+"
    r"(?P<value>[-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[iI]nf(?:inity)?|[nN]a[nN]))"
    r"(?:[ \t]+(?P<time>-?[0-9]+(?:\.[0-9]+)?))?"
    r"[ \t]*(?:#.*)?"
)
_COMMENT = re.compile(r"# (HELP|TYPE|UNIT) [a-zA-Z_:][a-zA-Z0-9_:]*( |$)")
_ANSWER = re.compile(rb'\s*\{\s*"status"\s*:\s*"success"\s*,[^\[]{0,400}"result(Type)?"\s*:')
_RESULT = re.compile(rb'\s*\[\s*\{\s*"metric"\s*:\s*\{\s*"')
_LINE = re.compile(rb'\s*\{\s*"metric"\s*:\s*\{\s*"')
_LINES = 40
_REMEDY = "ask the server for times: curl 'http://HOST:9090/api/v1/query_range?query=NAME&start=...&end=...&step=1s'"


def probe(sample: Sample) -> Match | None:
    """DIALECT for metrics with times, NEAR for what is scraped from an exporter, which has none."""
    head = sample.head[:4096]
    if _ANSWER.match(head) and (b'"metric"' in sample.head or b'"matrix"' in head or b'"vector"' in head):
        return Match(Score.DIALECT, "is an answer of Prometheus' HTTP API")
    if _RESULT.match(head) and re.search(rb'\}\s*,\s*"values?"\s*:\s*\[', sample.head):
        return Match(Score.DIALECT, 'is a list of "metric" and "values", as of Prometheus\' HTTP API')
    if _LINE.match(head) and b'"timestamps"' in sample.head:
        return Match(Score.DIALECT, 'has lines with "metric", "values" and "timestamps"')
    comments = [text for text in sample.lines[:_LINES] if _COMMENT.match(text)]
    matches = [
        match for text in sample.lines[:_LINES] if not text.startswith("#") and (match := SAMPLE.fullmatch(text))
    ]
    if not matches or not (comments or all("__name__=" in (one["labels"] or "") for one in matches)):
        return None
    if any(one["time"] for one in matches):
        return Match(Score.DIALECT, "has metrics of Prometheus with times")
    return Match(Score.NEAR, "has metrics of Prometheus, but no times", _REMEDY)


FORMAT = Format(
    "prometheus",
    "Prometheus metrics over time: answers of its HTTP API, text with times",
    patterns=("*.json", "*.jsonl", "*.prom", "*.txt"),
    probe=probe,
    read="ktrace.converters.prometheus.reader:read",
    words=('"resulttype"', '"metric"', '"timestamps"', "# help ", "# type ", "__name__"),
)
