"""Finds the label of each metric, and the section that shows it, in the sections of a launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .decode import Decoder
from .fields import BODY_ITEM

#: Prefixes of names in a section that don't name a single metric.
_NO_METRIC = ("group:", "breakdown:", "regex:")


class Sections:
    """The sections of a launch. `names` has their display names by id."""

    def __init__(self, sections: list[dict[str, Any]]) -> None:
        self.names = {section["id"]: section.get("name", section["id"]) for section in sections if "id" in section}
        self._shown: dict[str, tuple[str, str]] = {}
        ordered = sorted(sections, key=lambda section: section.get("order", 0))
        for part in (_header, _others, _body):  # the section with a metric in its header has precedence
            for section in ordered:
                for metric in part(section):
                    self._add(metric, self.names.get(section.get("id", ""), ""))

    def label(self, metric: str) -> str:
        """Returns the label of a metric, "" if it has none."""
        return self._shown.get(metric, ("", ""))[0]

    def section(self, metric: str) -> str:
        """Returns the display name of the section that shows a metric, "" if none does."""
        return self._shown.get(metric, ("", ""))[1]

    def _add(self, metric: dict[str, Any], section: str) -> None:
        for variant in (metric, *metric.get("instead", ())):
            name = variant.get("name", "")
            if not name or name.startswith(_NO_METRIC):
                continue
            label, shown = self._shown.get(name, ("", section))
            self._shown[name] = label or variant.get("label", "") or metric.get("label", ""), shown


def _header(section: dict[str, Any]) -> list[dict[str, Any]]:
    metrics: list[dict[str, Any]] = section.get("header", {}).get("metrics", [])
    return metrics


def _others(section: dict[str, Any]) -> list[dict[str, Any]]:
    metrics: list[dict[str, Any]] = section.get("others", {}).get("metrics", [])
    return metrics


def _body(section: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the metrics of tables and charts. The rest of a body is layout, which isn't read."""
    for body in section.get("body", ()):
        for item in body.get("items", ()):
            try:
                parts = Decoder().message(item, BODY_ITEM, "body")
            except ValueError:
                continue
            for part in parts.values():
                yield from part.get("metrics", ())
