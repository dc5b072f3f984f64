"""What is said about a launch: the NVTX ranges around it, and the messages of rules as notes, links as words.

Check the @section:LaunchStats:Launch Statistics@ section       Check the Launch Statistics section
See the @url:Guide:https://...@                                 See the Guide (https://...)

The stack of the launch's thread is its scope, everything else about ranges goes to its args.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_COLOR_ARGB, _PLAIN = 1, {"name", "call"}
_PAYLOADS = ("uint64", "int64", "double", "uint32", "int32", "float", "text", "uint64")


def scope_of(state: dict[str, Any], tid: int | None) -> tuple[list[str], list[dict[str, Any]]]:
    """Returns the names of the ranges that the thread pushed, outermost first, and the ranges with more than a name.

    The latter have a domain other than the default one, a category, colour, payload or message, were started rather
    than pushed, or belong to other threads.
    """
    default = state.get("default", 0)
    domains = {domain.get("id", 0): domain.get("name", "") for domain in state.get("domains", ())}
    strings = {
        (domain.get("id", 0), string.get("id", 0)): string.get("text", "")
        for domain in state.get("domains", ())
        for string in domain.get("strings", ())
    }
    scope: list[str] = []
    others: list[dict[str, Any]] = []
    threads = state.get("threads", ())
    own = tid if any(thread.get("tid") == tid for thread in threads) or len(threads) != 1 else threads[0].get("tid")
    for thread in threads:
        for domain in thread.get("domains", ()):
            which = domain.get("domain", 0)
            for range_ in domain.get("ranges", ()):
                described = _describe(range_, which, strings) | _domain(which, default, domains)
                if thread.get("tid") != own:
                    others.append({"tid": thread.get("tid"), **described})
                    continue
                scope += [described["name"]] if described["name"] else []
                others += [described] if described.keys() - _PLAIN else []
    for domain in state.get("started", ()):
        which = domain.get("domain", 0)
        for range_ in domain.get("ranges", ()):
            described = _describe(range_, which, strings) | _domain(which, default, domains)
            others.append({"started": True, **described})
    return scope, others


def _domain(which: int, default: int, domains: dict[int, str]) -> dict[str, Any]:
    name = domains.get(which, "")
    return {} if which == default or not name or name == "<default domain>" else {"domain": name}


def _describe(range_: dict[str, Any], domain: int, strings: dict[tuple[int, int], str]) -> dict[str, Any]:
    """Returns the attributes of a range that have a value, and its name."""
    attributes = range_.get("attributes", {})
    message = attributes.get("message", {})
    registered = strings.get((domain, message.get("handle", -1)), "")
    name = range_.get("name") or message.get("text") or registered
    described: dict[str, Any] = {"name": name}
    described |= {key: range_[key] for key in ("id", "tid") if key in range_}
    text = message.get("text") or registered
    if text and text != name:
        described["message"] = text
    if attributes.get("category"):
        described["category"] = attributes["category"]
    if attributes.get("color", {}).get("type") == _COLOR_ARGB:
        described["color"] = f"#{attributes['color'].get('argb', 0):08x}"
    payload = attributes.get("payload", {})
    kind = payload.get("type", 0)
    if 0 < kind <= len(_PAYLOADS):
        described["payload"] = payload.get(_PAYLOADS[kind - 1], 0)
    return described


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
