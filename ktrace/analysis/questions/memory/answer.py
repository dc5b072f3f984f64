"""The figures of memory, and their tables. Sizes are bytes, times ns.

MemoryAnswer
  places   MemoryUse("device 0", peak 4.7 GB at 1.204 s, reserved 4.8 GB, before 301.7 MB, owners [MemoryOwner(...)])
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from ktrace.analysis.work.findings import Finding
from ktrace.model.arrays import Int64
from ktrace.tables import Cell, Column, Table, percent


class MemoryOwner(msgspec.Struct, frozen=True):
    """What holds memory: the module and operator around the allocation, its category, the innermost frame of its stack.

    "" stands for what isn't known. Without all four it is the memory that was there before the trace.
    """

    module: str
    operator: str
    category: str
    frame: str
    bytes: int
    allocations: int

    @property
    def is_known(self) -> bool:
        """Whether anything is known of it."""
        return any(getattr(self, key) for key in _KNOWN)


class StepMemory(msgspec.Struct, frozen=True):
    """The most that was allocated in a step, what was at its end, and by how much that grew since the step before."""

    label: str
    peak: int
    end: int
    growth: int | None


@dataclass(frozen=True)
class MemoryUse:
    """The memory of a device, or of the host.

    `peak` is the most that was allocated at once, `peak_at` when (from the start of the trace; None: it is what a
    snapshot found); `reserved` the most that the allocator had reserved, `unused` what of it wasn't allocated at the
    peak; `before` what was allocated before the first allocation of the trace, `end` after the last. `left` was
    allocated in the trace and is never freed in it. `allocations` and `frees` are counted. `owners` hold the memory at
    the peak, `leaks` that which is left, the greatest first; they add up to `peak` (without addresses
    that isn't known of all of it) and `left`. `allocated` and `reservations` are the course, at `times` of the trace.
    None is what the source doesn't tell.
    """

    label: str
    source: str
    device: int | None
    peak: int
    peak_at: int | None
    end: int
    left: int | None
    allocations: int
    frees: int
    owners: list[MemoryOwner]
    leaks: list[MemoryOwner]
    steps: list[StepMemory]
    times: Int64 = field(repr=False, compare=False)
    allocated: Int64 = field(repr=False, compare=False)
    reservations: Int64 | None = field(default=None, repr=False, compare=False)
    before: int | None = None
    reserved: int | None = None
    unused: int | None = None


class MemoryAnswer(msgspec.Struct):
    """Where memory went, of each device and of the host."""

    places: list[MemoryUse]
    notes: list[str] = msgspec.field(default_factory=list)

    def findings(self) -> list[Finding]:
        """The facts: the most that a device held, and who held the most of it."""
        use = max(self.places, key=lambda one: one.peak, default=None)
        if use is None:
            return []
        subject: dict[str, Cell] = {"memory": use.label, "device": use.device, "source": use.source}
        details: dict[str, Cell] = {"places": len(self.places), "left": use.left}
        facts = [
            Finding("memory.peak", "held", use.peak, "B", use.reserved, "what is reserved", subject, None, details)
        ]
        owner = next((one for one in use.owners if one.is_known), None)
        if owner is not None:
            named: dict[str, Cell] = {key: getattr(owner, key) or None for key in _KNOWN}
            much: dict[str, Cell] = {"allocations": owner.allocations}
            facts.append(
                Finding("memory.owner", "held", owner.bytes, "B", use.peak, "the peak", named | subject, None, much)
            )
        return facts

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """Tables of places, of owners at the peak, of what is left, and of steps, at most `top` rows of a place."""
        tables = [self._places(brief), self._owners("memory owners", "memory at its peak, by owner", "owners", top)]
        tables.append(self._owners("memory left", "allocated in the trace, never freed", "leaks", top))
        columns = (Column("memory"), Column("step"), Column("peak", "B"), Column("end", "B"))
        rows: list[tuple[Cell, ...]] = [
            (use.label, step.label, step.peak, step.end, step.growth) for use in self.places for step in use.steps[:top]
        ]
        more = sum(len(use.steps) for use in self.places) - len(rows)
        tables.append(
            Table("memory by step", "memory by step", (*columns, Column("growth", "B", signed=True)), rows, [], more)
        )
        return [tables[0], *(table for table in tables[1:] if table.rows)]

    def _places(self, brief: bool) -> Table:
        names = ["peak", "reserved", "unused", "before", "end", "left"]
        columns = [Column("memory"), *(Column(name, "B") for name in names[:1]), Column("at", "ns")]
        columns += [Column(name, "B") for name in names[1:]]
        columns += [] if brief else [Column("allocations", "count"), Column("frees", "count")]
        rows: list[tuple[Cell, ...]] = []
        for use in self.places:
            row: list[Cell] = [use.label, use.peak, use.peak_at, *(getattr(use, name) for name in names[1:])]
            rows.append((*row, *(() if brief else (use.allocations, use.frees))))
        return Table("memory", "memory", tuple(columns), rows, self.notes)

    def _owners(self, name: str, title: str, which: str, top: int | None) -> Table:
        """The owners of memory; columns that nothing is known of are left out."""
        every = [(use, one) for use in self.places for one in getattr(use, which)]
        keys = [key for key in _KNOWN if any(getattr(one, key) for _, one in every)]
        several = len({use.label for use, _ in every}) > 1
        columns = [Column("memory")] if several else []
        columns += [Column(key) for key in keys or ("operator",)]
        columns += [Column("held", "B"), Column("share", "%"), Column("allocations", "count")]
        rows: list[tuple[Cell, ...]] = []
        for use in self.places:
            whole = use.peak if which == "owners" else use.left or 0
            for one in getattr(use, which)[:top]:
                row: list[Cell] = [use.label] if several else []
                row += [getattr(one, key) or None for key in keys or ("operator",)]
                if not one.is_known:
                    row[int(several)] = BEFORE if not one.allocations else UNKNOWN
                rows.append((*row, one.bytes, percent(one.bytes, whole), one.allocations or None))
        return Table(name, title, tuple(columns), rows, [], len(every) - len(rows))


#: What may be known of an allocation.
_KNOWN = ("module", "operator", "category", "frame")

#: What holds memory of which nothing is known: from before the trace, and from within it.
BEFORE, UNKNOWN = "(before the trace)", "(unknown)"
