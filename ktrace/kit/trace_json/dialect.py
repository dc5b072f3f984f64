"""A dialect of Trace Event JSON: rules for events by category, by name, by flow.

DIALECT = Dialect(
    cats={"kernel": Rule("kernel", place="device", columns=DEVICE_COLUMNS), "cpu_op": Rule("op")},
    flows={"fwdbwd": "fwdbwd", "ac2g": None},
)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

#: How an argument becomes a column: a whole number, a number, a text, [x, y, z] as three columns, the direction of a
#: copy, the ordinal of a device (-1: none), a whole number that may be a text.
How = Literal["int", "int32", "float", "text", "dims", "copy", "ordinal", "digits"]

#: The track of a row: the thread pid/tid, or the device pid (or args.device) and the stream tid (or args.stream).
Place = Literal["host", "device"]


#: Ids of flows from here on are edges between nodes of a graph, also in categories whose other flows repeat
#: `correlation` (PyTorch, torch/profiler/_cupti/monitor_trace.py).
EDGE = 1 << 40


class Into(msgspec.Struct, frozen=True):
    """The column for an argument, and the conversion. Values that the column can't represent exactly stay in `args`."""

    column: str
    how: How = "int"


class Series(msgspec.Struct, frozen=True):
    """The counter for an argument of an event: its name, its unit."""

    name: str
    unit: str | None = None


class Rule(msgspec.Struct, frozen=True):
    """How events of a category become rows.

    `columns` maps keys of `args` to columns of the model. `kinds` maps names to kinds other than `kind`, `named` does
    so for names with several spellings. `series` are arguments that become counters with the event as parent; with
    `metrics` every number becomes one. `waits` is the key of `args` with the correlation of the call that the event
    waits for, `records` are the names of such calls. `track` is that of events without a place. `processes` are other
    rules for the slices of some pids.
    """

    kind: str
    place: Place = "host"
    columns: Mapping[str, Into] = msgspec.field(default_factory=dict)
    kinds: Mapping[str, str] = msgspec.field(default_factory=dict)
    named: tuple[tuple[re.Pattern[str], str], ...] = ()
    series: Mapping[str, Series] = msgspec.field(default_factory=dict)
    metrics: bool = False
    waits: str | None = None
    records: frozenset[str] = frozenset()
    track: str | None = None
    processes: Mapping[int, Rule] = msgspec.field(default_factory=dict)

    def kind_of(self, name: str) -> str:
        """The kind of a slice with that name."""
        for pattern, kind in self.named:
            if pattern.match(name):
                return kind
        return self.kinds.get(name, self.kind)


class Sign(msgspec.Struct, frozen=True):
    """Arguments that identify slices of a kind: they have all `keys`, and the first one's text matches `value`."""

    keys: tuple[str, ...]
    rule: Rule
    value: re.Pattern[str] | None = None


class Dialect(msgspec.Struct, frozen=True):
    """How a program uses the Trace Event Format.

    `cats` are rules by the category of a slice, `patterns` those for categories with several spellings, `signs` those
    by the arguments of slices whose category has no rule, unless their name matches `calls`. `processes` are rules by
    the pid of slices that neither category nor arguments have a rule for; a reader finds these pids in the document.
    `names` are rules for instants by their name, `other` is for all other events. `flows` maps the category of a flow
    to the kind of link; None if the flow repeats `correlation`, unless its id is an `EDGE`. `device_pid` finds the
    device in a pid that is a text, `stream_name` the stream in a tid or in the name of a thread. `origin` ns were
    subtracted from all times. `quoted`: its numbers are always in quotes.
    """

    cats: Mapping[str, Rule]
    names: Mapping[str, Rule] = msgspec.field(default_factory=dict)
    patterns: tuple[tuple[re.Pattern[str], Rule], ...] = ()
    signs: tuple[Sign, ...] = ()
    calls: re.Pattern[str] | None = None
    processes: Mapping[int, Rule] = msgspec.field(default_factory=dict)
    other: Rule = msgspec.field(default_factory=lambda: Rule("range"))
    flows: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    device_pid: re.Pattern[str] | None = None
    stream_name: re.Pattern[str] | None = None
    origin: int = 0
    quoted: bool = False

    @property
    def folded(self) -> frozenset[str]:
        """The categories whose flows repeat `correlation`."""
        return frozenset(cat for cat, kind in self.flows.items() if kind is None)

    def of_cat(self, cat: str | None) -> Rule:
        """The rule for a category."""
        if cat is None:
            return self.other
        rule = self.cats.get(cat)
        if rule is None:
            rule = next((rule for pattern, rule in self.patterns if pattern.search(cat)), self.other)
        return rule
