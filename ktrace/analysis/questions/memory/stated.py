"""Memory that the source itself adds up: that of categories over time, and what a snapshot found.

Snapshots are the segments and blocks of PyTorch's, and the space in profiles of memory (JAX, Go):

    alloc  linear (functional.py:12)   blocks/active_allocated   1,536 B, once     device 0     held by that frame
    alloc  segment                     segments                  2,097,152 B       device 0     reserved
    alloc  make                        space                     262,144 B         cpu:0        held by that function
           scope train.py:10           args.frame make (train.py:7)

Their rows are summaries. Where a source has allocations over time, too, these say more and are taken alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.questions.memory.answer import MemoryOwner, MemoryUse
from ktrace.analysis.work.question import Labels
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded
from ktrace.model.masks import words_in
from ktrace.model.tracks import natural
from ktrace.naming.frames import owner_of

#: The columns of the model that say what is held, and where.
_COLUMNS = ("source", "host", "device", "name", "scope", "metric", "value", "total", "count")

#: What profiles call the bytes that are held, and how many allocations hold them.
_SPACE, _OBJECTS = ("space", "inuse_space"), ("allocations", "inuse_objects")

#: The scopes of a snapshot's segments, and of its blocks that somebody holds.
_SEGMENTS, _HELD = ("segments",), ("blocks", "active_allocated")

#: A place of memory: source, host, device, its name where it has no number.
_Place = tuple[str, str | None, int | None, str]


class Snapshots:
    """The bytes held and reserved in each place."""

    def __init__(self) -> None:
        self._held: dict[_Place, dict[str, list[int]]] = defaultdict(dict)
        self._reserved: dict[_Place, int] = defaultdict(int)

    def see(self, batch: Batch) -> None:
        """Collects what is held among summaries."""
        allocations = np.flatnonzero(words_in(batch.column("kind"), ("alloc",)))
        if not len(allocations):
            return
        at = pa.array(allocations)
        columns = {name: decoded(batch.column(name).take(at)) for name in _COLUMNS}
        columns |= {"named": batch.argument("device", at), "frame": batch.argument("frame", at)}
        for row in pa.RecordBatch.from_pydict(columns).to_pylist():
            place = (row["source"], row["host"], row["device"], row["named"] or "")
            scope, metric = tuple(row["scope"] or ()), row["metric"]
            if scope == _SEGMENTS:
                self._reserved[place] += int(row["value"] or 0)
            elif scope[:2] == _HELD or metric in (*_SPACE, *_OBJECTS):
                sums = self._held[place].setdefault(_frame(row, scope), [0, 0])
                sums[0] += 0 if metric in _OBJECTS else int(row["total"] or 0)
                sums[1] += int((row["total"] if metric in _OBJECTS else row["count"]) or 0)

    def reserved(self, source: str, host: str | None, device: int | None) -> int | None:
        """What was reserved on a device when a snapshot was taken; None where no segment says it."""
        return self._reserved.get((source, host, device, ""))

    def uses(self, timed: Container[str], labels: Labels) -> Iterator[MemoryUse]:
        """Yields what each place has, but of the sources that have allocations over time."""
        for place in sorted(self._held | self._reserved, key=lambda one: natural(str(one))):
            source, host, device, name = place
            if source in timed:
                continue
            frames = self._held[place].items()
            owners = [MemoryOwner("", "", "", frame, held, count) for frame, (held, count) in frames if held]
            held, reserved = sum(one.bytes for one in owners), self._reserved.get(place)
            if not held and reserved is None:
                continue  # allocations of unknown sizes
            nothing = np.zeros(0, np.int64)
            yield MemoryUse(
                label=name or ("memory" if device is None else labels.device((source, host, device))),
                source=source,
                device=device,
                peak=held,
                peak_at=None,
                end=held,
                left=None,
                allocations=sum(one.allocations for one in owners),
                frees=0,
                owners=sorted(owners, key=lambda one: (-one.bytes, one.frame)),
                leaks=[],
                steps=[],
                times=nothing,
                allocated=nothing,
                reserved=reserved,
                unused=None if reserved is None else reserved - held,
            )


def _frame(row: dict[str, Any], scope: tuple[str, ...]) -> str:
    """Who holds memory; "" where nothing says it: blocks without a stack are called after their state."""
    if scope[:2] == _HELD:
        return "" if row["name"] == scope[1] else str(row["name"])
    innermost = str(row["frame"] or row["name"])
    return owner_of([*scope, innermost]) or innermost


def of_categories(source: str, rows: Mapping[str, Any], names: Sequence[str], start: int) -> MemoryUse:
    """The memory of a source that states the memory of each category over time."""
    times, at = np.unique(rows["ts"], return_inverse=True)
    each = np.zeros((len(names), len(times)), np.int64)
    each[rows["category"], at.reshape(-1)] = rows["value"]
    allocated = each.sum(axis=0)
    peak = int(allocated.argmax())
    owners = [MemoryOwner("", "", name, "", int(value), 0) for name, value in zip(names, each[:, peak], strict=True)]
    return MemoryUse(
        label="memory",
        source=source,
        device=None,
        peak=int(allocated[peak]),
        peak_at=int(times[peak]) - start,
        end=int(allocated[-1]),
        left=None,
        allocations=0,
        frees=0,
        owners=sorted((one for one in owners if one.bytes), key=lambda one: -one.bytes),
        leaks=[],
        steps=[],
        times=times - start,
        allocated=allocated,
        before=int(allocated[0]),
    )
