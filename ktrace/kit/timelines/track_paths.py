"""The names of the tracks of a timeline, from the process down, for outputs without tracks below tracks."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.model.tracks import Node, arrange
from ktrace.stages.order.timeline import Timeline


def track_paths(timeline: Timeline) -> dict[int, tuple[str, ...]]:
    """Track number -> process, thread or device, stream, text track; in the order in which a timeline draws them."""
    found: dict[int, tuple[str, ...]] = {}
    for process in arrange(timeline.tracks, timeline.catalog):
        found.update(_below(process, ()))
    return found


def _below(node: Node, above: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    path = (*above, node.shown.name)
    if node.number is not None:
        yield node.number, path
    for child in node.children:
        yield from _below(child, path)
