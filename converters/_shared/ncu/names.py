"""The metric ids of names that Nsight Compute prints on its details page; the table is `schema/ncu-metrics.json`."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


@cache
def _table() -> dict[str, str | dict[str, str]]:
    text = resources.files("ktrace.schema").joinpath("ncu-metrics.json").read_text("utf-8")
    names: dict[str, str | dict[str, str]] = json.loads(text)["names"]
    return names


def metric_id(name: str, unit: str) -> str:
    """The vendor's id of a metric, `unit` in base units; the name itself where it is an id or isn't known."""
    found = _table().get(name, name)
    return found if isinstance(found, str) else found.get(unit, name)
