"""Turns the messages of rules into notes, with their links as words.

Check the @section:LaunchStats:Launch Statistics@ section       Check the Launch Statistics section
See the @url:Guide:https://...@                                 See the Guide (https://...)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_SECTION = re.compile(r"@section:[^:@]*:([^@]*)@")
_URL = re.compile(r"@url:([^:@]*):([^@]*)@")

#: Number of a message's type -> the mark that Nsight Compute prints for it.
TYPES = {1: "INF", 2: "WRN", 3: "ERR", 4: "OPT"}
_SPEEDUPS = {1: "local", 2: "global"}
_SEVERITIES = {1: "low", 2: "high"}
_MARKS = {0: "SASS", 1: "source"}


def plain_text(text: str) -> str:
    """Returns a message with its links as words."""
    return _URL.sub(r"\1 (\2)", _SECTION.sub(r"\1", text)) if "@" in text else text


def notes_of(rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (text, args) for each message of a rule."""
    items = rule.get("body", {}).get("items", [])
    focus = [metric for item in items for metric in item.get("focus", ())]
    proposed = [item["proposal"]["rule"] for item in items if item.get("proposal", {}).get("rule")]
    marks = [_mark(mark) for mark in rule.get("marks", ())]
    first = True
    for item in items:
        message = item.get("message")
        if message is None:
            continue
        args = _args(rule, item, message)
        own = [_focus(metric) for metric in focus if metric.get("message") == message.get("number")]
        args |= {"Focus Metrics": own} if own and "number" in message else {}
        if first:
            args |= {"Proposed Rules": proposed} if proposed else {}
            args |= {"Source Marks": marks} if marks else {}
        first = False
        yield plain_text(message.get("text", "")), args


def _args(rule: dict[str, Any], item: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    args: dict[str, Any] = {"Rule Name": rule["rule"]} if rule.get("rule") else {}
    kind = message.get("type", 0)
    if kind:
        args["Rule Type"] = TYPES.get(kind, str(kind))
    if message.get("title"):
        args["Title"] = message["title"]
    speedup = item.get("speedup", {})
    if "percent" in speedup:
        if speedup.get("type") in _SPEEDUPS:
            args["Estimated Speedup Type"] = _SPEEDUPS[speedup["type"]]
        args["Estimated Speedup"] = speedup["percent"]
    return args


def _focus(metric: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {key: metric[key] for key in ("metric", "value") if key in metric}
    if metric.get("severity") in _SEVERITIES:
        found["severity"] = _SEVERITIES[metric["severity"]]
    return found | ({"advice": plain_text(metric["advice"])} if metric.get("advice") else {})


def _mark(mark: dict[str, Any]) -> dict[str, Any]:
    found = {"kind": _MARKS.get(mark.get("kind", 0), str(mark.get("kind")))}
    found |= {key: mark[key] for key in ("line", "address", "file") if key in mark}
    return found | ({"text": plain_text(mark["text"])} if mark.get("text") else {})
