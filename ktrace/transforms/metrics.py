"""Metrics that one tool measured of each launch are put on the launches in the timeline of another.

    ncu       gemm (64,1,1)x(256,1,1)   sm__throughput... 63.7 %       a launch each, in the order of the launches
    nsys      gemm (64,1,1)x(256,1,1)   ts 1,000  dur 31,000           ──► a counter of the kernel, at its time

Launches belong together by process, device, name, grid and block: the first here is the first there, and so on, but
only where both sides have equally many. Where a number of launches was skipped before the metrics were taken, the
launches behind these must follow one another here as there. What doesn't is reported; nothing is guessed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.catalog import Catalog
from ktrace.jsontext import decoded
from ktrace.kernel_names import base_name, spelled_alike
from ktrace.model import Batch
from ktrace.report import Report
from ktrace.rows import to_batch, to_rows

#: What is remembered of a kernel of the timeline, beside its name.
_PLACE = ("source", "host", "pid", "tid", "device", "context", "stream", "track", "clock")
_SIZE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_KEPT = ("id", "ts", "dur", "correlation", *_PLACE, *_SIZE, "name", "short_name")

#: How names are compared, the strictest way first.
_SPELLINGS: tuple[Callable[[str], str], ...] = (str, spelled_alike, base_name)

_ROWS = 16_384


Kernel = dict[str, Any]
Found = tuple[Kernel | None, str]
Key = tuple[str, int | None, tuple[Any, ...] | None]
Spelling = Callable[[str], str]


class Metric(NamedTuple):
    """A figure of a launch."""

    name: str
    unit: str | None
    value: float


@dataclass
class Launch:
    """A launch of which metrics are known. `place` says where it stands, for a report."""

    place: str
    process: int | None
    device: int | None
    name: str
    size: tuple[int | None, ...]
    metrics: list[Metric] = field(default_factory=list)
    others: int = 0


def read_launches(batches: Iterable[Batch]) -> tuple[list[Launch], Catalog]:
    """The launches that tables say, with their metrics, in the order of the source; and what is known beside."""
    found: dict[tuple[str, int], Launch] = {}
    catalog = Catalog()
    for batch in batches:
        if batch.record == "catalog":
            catalog.add(batch)
        if batch.record != "summaries":
            continue
        for row in to_rows(batch):
            head = found.get((row["source"], row.get("parent", -1)))
            if head is not None:
                if row.get("kind") == "metric" and row.get("value") is not None:
                    metric = Metric(row["metric"], row.get("unit"), row["value"])
                    if head.metrics[:1] != [metric]:  # the duration, which the head says, too
                        head.metrics.append(metric)
                else:
                    head.others += 1
            elif row["kind"] == "kernel" and "parent" not in row:
                found[row["source"], row["id"]] = _launch(row)
    return list(found.values()), catalog


def _launch(row: dict[str, Any]) -> Launch:
    size = tuple(row.get(name) for name in _SIZE)
    launch = Launch(f"{row['source']} row {row['id']}", row.get("pid"), row.get("device"), row["name"], size)
    duration = row.get("total", row.get("value"))
    if row["metric"] == "duration" and duration is not None:
        launch.metrics.append(Metric("gpu__time_duration.sum", row.get("unit"), duration))
    return launch


def with_metrics(
    batches: Iterable[Batch], launches: list[Launch], known: Catalog, report: Report, skip: int | None = None
) -> Iterator[Batch]:
    """Passes batches on, and then the metrics of `launches` as counters of the kernels to which they belong.

    `skip` is how many launches of each process came before those whose metrics were taken; None where all have some.
    Launches without a kernel are reported as "unmatched-launch".
    """
    names = {spelling(launch.name) for launch in launches for spelling in _SPELLINGS}
    kernels: list[pa.Table] = []
    catalog = Catalog()
    greatest: dict[str, int] = defaultdict(int)
    passed = 0
    for batch in batches:
        if batch.record == "catalog":
            catalog.add(batch)
        else:
            passed += len(batch)
            for source in pc.unique(decoded(batch.column("source"))).to_pylist():
                greatest[source] = max(greatest[source], pc.max(batch.column("id")).as_py())
        if batch.record == "events" and (part := _kernels(batch, None if skip else names)) is not None:
            kernels.append(part)
        yield batch
    ledger = report.stage("metrics")
    ledger.taken = ledger.given = passed
    matched = _Matching(launches, known, _rows(kernels), catalog, skip).pairs()
    for place, launch in enumerate(launches):
        rows = len(launch.metrics) + launch.others
        ledger.added["metrics"] += rows
        kernel, why = matched[place]
        if kernel is None:
            report.issue("unmatched-launch", launch.place, f"{launch.name}: {why}", rows, stage=ledger)
        elif launch.others:
            report.issue("metric-text", launch.place, launch.name, launch.others, stage=ledger)
    counters = [
        _counter(kernel, metric, greatest)
        for launch, (kernel, _) in zip(launches, matched, strict=True)
        if kernel is not None
        for metric in launch.metrics
    ]
    ledger.given += len(counters)
    for first in range(0, len(counters), _ROWS):
        yield to_batch("events", counters[first : first + _ROWS])


def _kernels(batch: Batch, names: set[str] | None) -> pa.Table | None:
    """What is to be remembered of the kernels of a batch, of those with certain names."""
    wanted = pc.fill_null(pc.equal(decoded(batch.column("kind")), "kernel"), False)
    if names is not None:
        name = batch.column("name")
        coded = name if pa.types.is_dictionary(name.type) else name.dictionary_encode()
        fits = [any(how(word) in names for how in _SPELLINGS) for word in coded.dictionary.to_pylist()]
        mine = pa.array(np.array(fits, np.bool_)[coded.indices.to_numpy(zero_copy_only=False)])
        if batch.has("short_name"):
            short = pc.is_in(decoded(batch.column("short_name")), pa.array(list(names)))
            mine = pc.or_(mine, short)
        wanted = pc.and_(wanted, mine)
    if not pc.any(wanted).as_py():
        return None
    columns = {name: decoded(batch.column(name)) for name in _KEPT}
    return pa.table(columns).filter(wanted)


def _rows(kernels: list[pa.Table]) -> list[dict[str, Any]]:
    """The kernels in the order of their launches: that of their correlation ids where all have one, else of time."""
    if not kernels:
        return []
    rows: list[dict[str, Any]] = pa.concat_tables(kernels).to_pylist()
    by = "ts" if any(row["correlation"] is None for row in rows) else "correlation"
    rows.sort(key=lambda row: (row[by], row["ts"]))
    return rows


def _counter(kernel: dict[str, Any], metric: Metric, greatest: dict[str, int]) -> dict[str, Any]:
    source = kernel["source"]
    greatest[source] += 1
    return {name: kernel[name] for name in (*_PLACE, "ts", "dur") if kernel[name] is not None} | {
        "id": greatest[source],
        "parent": kernel["id"],
        "kind": "counter",
        "name": metric.name,
        "unit": metric.unit,
        "value": metric.value,
        "timing": "derived",
    }


class _Matching:
    """Which kernel of the timeline each launch is."""

    def __init__(
        self, launches: list[Launch], known: Catalog, kernels: list[Kernel], catalog: Catalog, skip: int | None
    ) -> None:
        self._launches = launches
        self._kernels = kernels
        self._skip = skip
        self._process = _processes(
            {launch.process: _name(known, launch.process) for launch in launches},
            {kernel["pid"]: _name(catalog, kernel["pid"]) for kernel in kernels},
        )
        self._one_device = len({kernel["device"] for kernel in kernels}) == 1

    def pairs(self) -> list[Found]:
        """For each launch its kernel, or None and why."""
        found: list[tuple[dict[str, Any] | None, str]] = [(None, "no such kernel in the timeline")] * len(
            self._launches
        )
        for process in dict.fromkeys(launch.process for launch in self._launches):
            mine = [n for n, launch in enumerate(self._launches) if launch.process == process]
            if process not in self._process:
                for number in mine:
                    found[number] = None, f"no process of the timeline is known to be {process}"
                continue
            theirs = [kernel for kernel in self._kernels if kernel["pid"] == self._process[process]]
            self._match(mine, theirs, found)
        return found

    def _match(self, mine: list[int], kernels: list[Kernel], found: list[Found]) -> None:
        """Finds the kernels of the launches of a process, each by the strictest spelling in which its name is there."""
        sized = all(self._launches[number].size[0] is not None for number in mine)
        left, reason = mine, ""
        for spelling in _SPELLINGS:
            here = {number: self._ours(self._launches[number], spelling, sized) for number in left}
            there = [self._theirs(kernel, spelling, sized) for kernel in kernels]
            if self._skip:
                reason = self._in_sequence(here, kernels, there, found)
                if not reason:
                    return
                continue
            shared = {key[0] for key in here.values()} & {key[0] for key in there}
            _pair_groups({n: key for n, key in here.items() if key[0] in shared}, kernels, there, found)
            left = [number for number, key in here.items() if key[0] not in shared]
            kernels = [kernel for kernel, key in zip(kernels, there, strict=True) if key[0] not in shared]
        if reason:
            for number in mine:
                found[number] = None, reason

    def _ours(self, launch: Launch, spelling: Spelling, sized: bool) -> Key:
        device = None if self._one_device else launch.device
        return spelling(launch.name), device, launch.size if sized else None

    def _theirs(self, kernel: Kernel, spelling: Spelling, sized: bool) -> Key:
        name = kernel["short_name"] if spelling is base_name and kernel["short_name"] else kernel["name"]
        device = None if self._one_device else kernel["device"]
        return spelling(name), device, tuple(kernel[column] for column in _SIZE) if sized else None

    def _in_sequence(self, here: dict[int, Key], kernels: list[Kernel], there: list[Key], found: list[Found]) -> str:
        """Pairs the launches with the kernels behind those that were skipped, if these are the same, else says why not.

        The number may be of all kernels, or of those with the names that have metrics, as tools count that were asked
        for some names.
        """
        names = {key[0] for key in here.values()}
        named = [place for place, key in enumerate(there) if key[0] in names]
        first, last = self._skip or 0, (self._skip or 0) + len(here)
        fitting = {
            tuple(places[first:last])
            for places in (list(range(len(there))), named)
            if [there[place] for place in places[first:last]] == list(here.values())
        }
        if len(fitting) != 1:
            what = "may be those of all names or of these" if fitting else "aren't these"
            return f"the launches behind the first {first:,} of the timeline {what}"
        for number, place in zip(here, fitting.pop(), strict=True):
            found[number] = kernels[place], ""
        return ""


def _pair_groups(here: dict[int, Key], kernels: list[Kernel], there: list[Key], found: list[Found]) -> None:
    """Pairs what is equally often here and there."""
    ours: defaultdict[Key, list[int]] = defaultdict(list)
    for number, key in here.items():
        ours[key].append(number)
    theirs: defaultdict[Key, list[Kernel]] = defaultdict(list)
    for kernel, key in zip(kernels, there, strict=True):
        theirs[key].append(kernel)
    for key, numbers in ours.items():
        others = theirs[key]
        if len(others) == len(numbers):
            for number, kernel in zip(numbers, others, strict=True):
                found[number] = kernel, ""
        else:
            why = f"{len(numbers):,} launches of this size have metrics, {len(others):,} are in the timeline"
            for number in numbers:
                found[number] = None, why


def _name(catalog: Catalog, pid: int | None) -> str | None:
    names = {entry.name for entry in catalog.of("process") if entry.key.get("pid") == pid}
    return next(iter(names)) if len(names) == 1 else None


def _processes(
    ours: dict[int | None, str | None], theirs: dict[int | None, str | None]
) -> dict[int | None, int | None]:
    """The process of the timeline that each of ours is: the same number, the only one, or the only one of its name."""
    if set(ours) <= set(theirs):
        return {pid: pid for pid in ours}
    if len(ours) == len(theirs) == 1:
        return {next(iter(ours)): next(iter(theirs))}
    found: dict[int | None, int | None] = {}
    for pid, name in ours.items():
        same = [other for other, known in theirs.items() if name and known == name]
        if len(same) == 1 and list(ours.values()).count(name) == 1:
            found[pid] = same[0]
    return found
