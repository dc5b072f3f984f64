"""The sections of a launch: the label of each metric, and the section where it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .decode import Decoder
from .fields import BODY_ITEM

#: What may stand before the name of a metric in a section.
_NO_METRIC = ("group:", "breakdown:", "regex:")


class Sections:
    """`names` has the display name of each section; `label` and `section` are of a metric, '' where none shows it."""

    def __init__(self, sections: list[dict[str, Any]]) -> None:
        self.names = {section["id"]: section.get("name", section["id"]) for section in sections if "id" in section}
        self._shown: dict[str, tuple[str, str]] = {}
        ordered = sorted(sections, key=lambda section: section.get("order", 0))
        for part in (_header, _others, _body):  # what stands in the header of a section is its own before all
            for section in ordered:
                for metric in part(section):
                    self._add(metric, self.names.get(section.get("id", ""), ""))

    def label(self, metric: str) -> str:
        """What people call it."""
        return self._shown.get(metric, ("", ""))[0]

    def section(self, metric: str) -> str:
        """The display name of the section that shows it."""
        return self._shown.get(metric, ("", ""))[1]

    def _add(self, metric: dict[str, Any], section: str) -> None:
        for said in (metric, *metric.get("instead", ())):
            name = said.get("name", "")
            if not name or name.startswith(_NO_METRIC):
                continue
            label, shown = self._shown.get(name, ("", section))
            self._shown[name] = label or said.get("label", "") or metric.get("label", ""), shown


def _header(section: dict[str, Any]) -> list[dict[str, Any]]:
    metrics: list[dict[str, Any]] = section.get("header", {}).get("metrics", [])
    return metrics


def _others(section: dict[str, Any]) -> list[dict[str, Any]]:
    metrics: list[dict[str, Any]] = section.get("others", {}).get("metrics", [])
    return metrics


def _body(section: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The metrics of tables and charts. The rest of a body is layout, and isn't looked at."""
    for body in section.get("body", ()):
        for item in body.get("items", ()):
            try:
                found = Decoder().message(item, BODY_ITEM, "body")
            except ValueError:
                continue
            for part in found.values():
                yield from part.get("metrics", ())
