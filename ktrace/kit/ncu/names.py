"""Ids of the metrics that Nsight Compute prints by name on its details page; the table is `schema/ncu-metrics.json`."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources

#: Underscores distinguish an id in brackets from other words.
_BOTH = re.compile(r"(.*?) ?\(([A-Za-z0-9.:]*[a-z0-9]_[\w.:]+)\)")


@cache
def _table() -> dict[str, str | dict[str, str]]:
    text = resources.files("ktrace.schema").joinpath("ncu-metrics.json").read_text("utf-8")
    names: dict[str, str | dict[str, str]] = json.loads(text)["names"]
    return names


def metric_id(name: str, unit: str, section: str = "", part: str = "") -> str:
    """Returns the vendor's id of a metric; the name itself if it is an id or unknown.

    `unit` is its base unit, `section` the section that contains it, `part` the table or chart in that section.
    """
    found = _table().get(name, name)
    if isinstance(found, str):
        return found
    for key in (f"{section} / {part}", section, unit, ""):
        if key in found:
            return found[key] or name
    return name


def label_and_id(name: str) -> tuple[str, str | None]:
    """Returns the label and the id of a name that contains both, as --print-metric-name label-name prints them."""
    both = _BOTH.fullmatch(name)
    if not both:
        return name, None
    return (both[2] if "{" in both[1] or not both[1] else both[1]), both[2]
