"""Collectives and transfers that ranks wait in and that don't end, from flight recorders: who waits, and for whom.

rank 0    all_reduce 3 ok    all_reduce 4 started, no end        waits in all_reduce 4
rank 1    all_reduce 3 ok                                        never entered it: its last there is 3
rank 2    all_reduce 3 ok    broadcast 4 started, no end         entered another one in its place
rank 3                                                           no dump: whether it entered isn't known
rank 4    recv 4<-5 started, no end                              waits for rank 5, which has no open send to it
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.analysis.work.findings import Evidence, Finding
from ktrace.analysis.work.question import Labels
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded
from ktrace.model.masks import truth, words_in
from ktrace.naming.taxonomy import operation_in
from ktrace.tables import Cell

#: The states of PyTorch's flight recorder in which a collective hasn't ended.
_OPEN, _STARTED = ("scheduled", "started"), "started"

#: A send or receive in the recorder's words: the rank of the dump, then its peer, both by their place in the group.
_TRANSFER = re.compile(r"(?:\w+:)?(?P<what>send|recv) (?P<rank>\d{1,6})(?:->|<-)(?P<peer>\d{1,6})")
_COUNTERPART = {"send": "recv", "recv": "send"}

#: The figure of a process group that says which collective a rank entered last.
_LAST, _STATUS = "last_enqueued_collective", re.compile(r"process group (.+)")

#: Collectives of a rank in a group that are kept, the last ones.
_KEPT = 64

#: The columns of the events that are looked at.
_COLUMNS = ("name", "kind", "ts", "dur", "id", "comm", "comm_seq", "track")


class Hang(msgspec.Struct, frozen=True):
    """A collective that doesn't end: its operation, number in its group, and ranks by name.

    `waiting` entered it, `missing` never did, with the number of their last one there, `other` entered another
    operation in its place, `done` ended it; of `unknown`, by number, there is no dump. `group` has its description.
    A transfer between two ranks has no number; the peer in `idle` has no open call for it.
    """

    operation: str
    number: int | None
    group: str
    waiting: list[str]
    missing: dict[str, int | None] = msgspec.field(default_factory=dict)
    other: dict[str, str] = msgspec.field(default_factory=dict)
    done: list[str] = msgspec.field(default_factory=list)
    unknown: list[int] = msgspec.field(default_factory=list)
    idle: list[str] = msgspec.field(default_factory=list)
    rows: list[Evidence] = msgspec.field(default_factory=list)

    @property
    def finding(self) -> Finding:
        """The fact for the verdict; its figure is the number of ranks that wait."""
        members = sum(map(len, (self.waiting, self.missing, self.other, self.done, self.unknown, self.idle)))
        subject: dict[str, Cell] = {"operation": self.operation, "number": self.number, "group": self.group}
        details: dict[str, Cell] = {
            "waiting": ", ".join(self.waiting),
            "never_entered": ", ".join(self.missing),
            "last_entered": ", ".join("none" if last is None else str(last) for last in self.missing.values()),
            "entered_another": ", ".join(f"{rank}: {operation}" for rank, operation in self.other.items()),
            "done": ", ".join(self.done),
            "without_dump": ", ".join(map(str, self.unknown)),
            "without_counterpart": ", ".join(self.idle),
        }
        details = {key: value for key, value in details.items() if value}
        of = "the ranks of the group"
        return Finding("hang", "ranks", len(self.waiting), "count", members, of, subject, None, details, self.rows)


class _Entry(NamedTuple):
    """The collective that a rank entered under a number."""

    operation: str
    name: str
    is_open: bool
    ts: int
    id: int


class Entered:
    """The collectives that each rank entered, by source and group."""

    def __init__(self) -> None:
        self._entries: defaultdict[tuple[str, str], dict[int, _Entry]] = defaultdict(dict)
        self._transfers: defaultdict[tuple[str, str], dict[tuple[str, int, int], _Entry]] = defaultdict(dict)
        self._descriptions: dict[str, str] = {}
        self._groups: dict[str, str] = {}  # the number of a group -> its name
        self._last: dict[tuple[str, str], int] = {}  # by source and number of the group

    def see(self, batch: Batch) -> None:
        """Collects the collectives of a batch that state whether they have ended, and the last ones of each group."""
        if batch.record == "summaries":
            self._see_status(batch)
            return
        states = truth(batch.column("comm").is_valid())
        states &= words_in(batch.column("kind"), ("op", "instant"))
        if not states.any():
            return
        at = pa.array(np.flatnonzero(states))
        columns = {name: decoded(batch.column(name).take(at)) for name in _COLUMNS}
        columns |= {key: batch.argument(key, at) for key in ("state", "pg_id")}
        source = batch.column("source")[0].as_py()
        for row in pa.RecordBatch.from_pydict(columns).to_pylist():
            if row["state"]:
                self._add(source, row)

    def _add(self, source: str, row: dict[str, Any]) -> None:
        group = row["comm"]
        is_open = row["dur"] is None and row["state"] in ((_STARTED,) if row["kind"] == "instant" else _OPEN)
        entry = _Entry(operation_in(row["name"]) or row["name"], row["name"], is_open, row["ts"], row["id"])
        self._descriptions[group] = (row["track"] or "").removeprefix("process group").strip() or group
        if row["comm_seq"] is None:
            if transfer := _TRANSFER.fullmatch(row["name"]):
                key = transfer["what"], int(transfer["rank"]), int(transfer["peer"])
                before = self._transfers[source, group].get(key)
                self._transfers[source, group][key] = before if before and before.is_open and is_open else entry
            return
        entries = self._entries[source, group]
        entries[row["comm_seq"]] = entry
        if len(entries) > 2 * _KEPT:
            for number in sorted(entries)[:_KEPT]:
                if not entries[number].is_open:
                    del entries[number]
        if row["pg_id"] is not None:
            self._groups[str(row["pg_id"])] = group

    def _see_status(self, batch: Batch) -> None:
        rows = np.flatnonzero(words_in(batch.column("metric"), (_LAST,)))
        if not len(rows):
            return
        columns = {name: decoded(batch.column(name).take(pa.array(rows))) for name in ("source", "name", "value")}
        for row in pa.RecordBatch.from_pydict(columns).to_pylist():
            if (status := _STATUS.fullmatch(row["name"])) and row["value"] is not None:
                self._last[row["source"], status[1]] = int(row["value"])

    def hangs(self, labels: Labels, catalog: Catalog) -> list[Hang]:
        """The collectives that don't end, first those that a rank which waits for nothing keeps from ending."""
        first: dict[tuple[str, int], dict[str, _Entry]] = defaultdict(dict)
        for (source, group), entries in self._entries.items():
            number = min((number for number, one in entries.items() if one.is_open), default=None)
            if number is not None:
                first[group, number][source] = entries[number]
        busy = {source for waiting in first.values() for source in waiting}
        hangs = []
        for (group, number), waiting in first.items():
            hang, free = self._hang(group, number, waiting, busy, labels, catalog)
            since = min(one.ts for one in waiting.values())
            hangs.append((not free, not hang.missing and not hang.other, since, number, hang))
        hangs.sort(key=lambda one: one[:-1])
        return [*(hang for *_, hang in hangs), *self._transfers_open(labels, catalog)]

    def _transfers_open(self, labels: Labels, catalog: Catalog) -> list[Hang]:
        """The sends and receives that don't end, those first whose peer has no open call for them."""
        hangs: list[Hang] = []
        sources = {labels.rank(entity.key["source"]): entity.key["source"] for entity in catalog.of("source")}
        for (source, group), transfers in self._transfers.items():
            members = self._members(group, catalog)
            for (what, place, peer), entry in transfers.items():
                number = members[peer] if members is not None and peer < len(members) else peer
                other = self._transfers.get((sources.get(number, ""), group), {})
                answer = other.get((_COUNTERPART[what], peer, place))
                is_joint = answer is not None and answer.is_open
                if not entry.is_open or (is_joint and what == "recv"):
                    continue  # it is said of the send
                rank = labels.rank(source)
                row = Evidence(source, entry.id, entry.name, entry.ts, entry.ts, 0)
                operation = f"{what} {'to' if what == 'send' else 'from'} rank {number}"
                waiting = [source if rank is None else str(rank)]
                hang = Hang(operation, None, self._descriptions[group], waiting, rows=[row])
                if number not in sources:
                    hang.unknown.append(number)
                else:
                    (hang.waiting if is_joint else hang.idle).append(str(number))
                hangs.append(hang)
        return sorted(hangs, key=lambda one: (not one.idle, one.rows[0].begin_ns))

    def _hang(
        self, group: str, number: int, waiting: dict[str, _Entry], busy: set[str], labels: Labels, catalog: Catalog
    ) -> tuple[Hang, bool]:
        """What a collective waits for, and whether a rank that waits for nothing is missing."""
        entry = next(iter(waiting.values()))
        rows = [Evidence(source, one.id, one.name, one.ts, one.ts, 0) for source, one in waiting.items()]
        hang = Hang(entry.operation, number, self._descriptions[group], [], rows=rows[:3])
        members, sources = self._members(group, catalog), {entity.key["source"] for entity in catalog.of("source")}
        if members is not None and not {labels.rank(source) for source in waiting} <= {*members}:
            members = None  # numbers within the group, or those of another run
        free, ranks = False, set()
        for source in sorted(sources, key=lambda one: (labels.rank(one) is None, labels.rank(one) or 0, one)):
            rank = labels.rank(source)
            entries = self._entries.get((source, group))
            ranks.add(rank)
            if (members is not None and rank not in members) or (members is None and entries is None):
                continue
            name = source if rank is None else str(rank)
            current = (entries or {}).get(number)
            last = self._last_of(source, group)
            if current is not None and current.operation != entry.operation:
                hang.other[name] = current.operation
            elif source in waiting:
                hang.waiting.append(name)
            elif current is None and (last is None or last < number):
                hang.missing[name] = last
                free |= source not in busy
            else:
                hang.done.append(name)
        hang.unknown.extend(sorted(set(members or ()) - ranks))
        return hang, free

    def _last_of(self, source: str, group: str) -> int | None:
        """The number of the last collective that a rank entered in a group."""
        entered = [*self._entries.get((source, group), ())]
        entered += [last for (one, key), last in self._last.items() if one == source and self._groups.get(key) == group]
        return max(entered, default=None)

    def _members(self, group: str, catalog: Catalog) -> list[int] | None:
        """The ranks of a group as any source states them; None where none does."""
        for entity in catalog.of("source"):
            groups = entity.facts.get("process_groups")
            ranks = groups.get(group) if isinstance(groups, dict) else None
            if isinstance(ranks, str) and re.fullmatch(r"\[[0-9, ]+\]", ranks):
                return [*map(int, json.loads(ranks))]
        return None


def said(hang: Finding) -> str:
    """The sentence about a collective that doesn't end.

    Rank 0 waits in all_reduce 4 of process group 0 default_pg, which rank 1 never entered (its last there: 3).
    """
    subject, details = hang.subject, {key: str(value) for key, value in hang.details.items()}
    waiting, missing, done, unknown = (
        _listed(details.get(key, "")) for key in ("waiting", "never_entered", "done", "without_dump")
    )
    number = "" if subject["number"] is None else f" {subject['number']}"
    what = f"{subject['operation']}{number} of process group {subject['group']}"
    clauses = []
    if idle := _listed(details.get("without_counterpart", "")):
        counterpart = _COUNTERPART[str(subject["operation"]).partition(" ")[0]]
        clauses.append(f"; {idle} has no open {counterpart} for it")
    if missing:
        lasts = [*dict.fromkeys(details["last_entered"].split(", "))]
        last = f" ({'its' if missing.startswith('rank ') else 'their'} last there: {', '.join(lasts[:_NAMED])})"
        clauses.append(f", which {missing} never entered{'' if lasts == ['none'] else last}")
    if other := details.get("entered_another"):
        rank, _, operation = other.split(", ")[0].partition(": ")
        clauses.append(f", where rank {rank} entered {operation}")
    if done:
        clauses.append(f", which {done} ended")
    if unknown:
        verb, whether = ("isn't", "it") if unknown.startswith("rank ") else ("aren't", "they")
        dumps = f"the dump{'' if whether == 'it' else 's'} of {unknown} {verb} here"
        clauses.append(f"; {dumps}, so that whether {whether} entered isn't known")
    if not clauses:
        clauses.append(
            ", which all its ranks entered and none ended" if number else ", which both entered and neither ended"
        )
    verb = "waits" if hang.value == 1 else "wait"
    return f"{waiting[:1].upper()}{waiting[1:]} {verb} in {what}{''.join(clauses)}."


#: How many ranks are named.
_NAMED = 4


def _listed(ranks: str) -> str:
    """Ranks in words: rank 0; ranks 0, 1, 2, 3 and 4 more."""
    if not ranks:
        return ""
    names = ranks.split(", ")
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"rank{'s' if len(names) > 1 else ''} {', '.join(names[:_NAMED])}{more}"
