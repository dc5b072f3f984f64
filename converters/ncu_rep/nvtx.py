"""Reads the NVTX ranges around a launch: the stack of its thread is its scope, everything else goes to its args."""

from __future__ import annotations

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
