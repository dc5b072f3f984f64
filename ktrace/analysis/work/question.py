"""What answers a question about the work of a trace, other than "how long did it take?", and the names of groups.

A package or module of `ktrace.analysis` that answers questions has a function `questions(names, spill)`, which returns
a `Question`, and COLUMNS, the columns of the model that it looks at. `ktrace.analysis.answers.summary` lists them by
the names of their questions. Groups have the same names in all answers:

by kernel      gemm                          its short name
by device      device 0                      with the source, or the host, if there are several
by stream      device 0 stream 7             with the device if there are several
by rank        3                             of the source, from its facts
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ktrace.analysis.work.findings import Evidence
from ktrace.analysis.work.groups import CLASSIFIED, OTHER, UNCLASSIFIED
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from ktrace.analysis.work.device_work import Events, Work

#: A combination of values, or a row of statistics: by column, None or absent if the source doesn't have a value.
Shape = dict[str, Any]
Key = Callable[[Shape], str]


class Labels:
    """Keys of the rows of some sources. Names of several devices include source and host if needed.

    Where each source has a rank of its own, that stands for it.
    """

    def __init__(self, catalog: Catalog, devices: set[tuple[Any, ...]]) -> None:
        """`devices` are (source, host, device) of all work."""
        self._catalog = catalog
        self._by_source = len({source for source, _, _ in devices}) > 1
        self._by_host = len({(source, host) for source, host, _ in devices}) > len({source for source, _, _ in devices})
        self._by_device = len(devices) > 1
        ranks = {source: catalog.rank(source) for source, _, _ in devices}
        each_has_its_own = None not in ranks.values() and len({*ranks.values()}) == len(ranks)
        self._names = {source: f"rank {rank}" if each_has_its_own else source for source, rank in ranks.items()}
        self._keys: dict[str, Key] = {
            "kernel": kernel_of,
            "stream": self.stream,
            "device": self._device,
            "rank": lambda row: _key_text(self.rank(row["source"])),
            UNCLASSIFIED: _unclassified,
            "step": lambda row: OTHER,
            "run": lambda row: row.get("run") or self._run(row["source"]),
        }

    def key(self, by: str) -> Key:
        """The function that returns the key of a row; the same one each time, so that its answers can be kept."""
        return self._keys.setdefault(by, lambda row: row.get(by) or OTHER)

    def rank(self, source: str) -> int | None:
        """The rank of a source, None if it isn't known."""
        return self._catalog.rank(source)

    def _run(self, source: str) -> str:
        """The run of a source, from its facts."""
        entry = self._catalog.get("source", source=source)
        return _key_text(entry.facts.get("run") if entry else None)

    def device(self, place: tuple[str, str | None, int | None]) -> str:
        """The name of a device."""
        source, host, device = place
        words = [self._names.get(source, source)] if self._by_source else []
        words += [host] if self._by_host and host else []
        return " ".join([*words, "device" if device is None else f"device {device}"])

    def _device(self, row: Shape) -> str:
        is_named = self._by_device or row.get("device") is not None
        return self.device((row["source"], row.get("host"), row.get("device"))) if is_named else OTHER

    def stream(self, row: Shape) -> str:
        """The name of a stream: its number, else its track."""
        stream, track = row.get("stream"), row.get("track")
        if stream is None and track is None:
            return OTHER
        name = str(track) if stream is None else f"stream {stream}"
        if not self._by_device:
            return name
        return f"{self.device((row['source'], row.get('host'), row.get('device')))} {name}"


def kernel_of(row: Shape) -> str:
    """The short name of work; where the rows have none, its name."""
    return str(row.get("short_name") or row["name"])


def row_shown(work: Work, events: Events, row: int, time: int) -> Evidence:
    """A piece of work of a source as evidence, of which so much time counts; what the host did has no id."""
    begin, id_ = int(events.ts[row]), int(events.ids[row]) if work.is_on_devices else None
    name = kernel_of(work.shapes[events.shape[row]])
    return Evidence(events.source, id_, name, begin, begin + int(events.dur[row]), time)


def _unclassified(row: Shape) -> str:
    is_classified = row["kind"] != "kernel" or row.get("operation") not in (None, OTHER)
    return CLASSIFIED if is_classified else str(row["name"])


def _key_text(value: Any) -> str:
    return OTHER if value is None else str(value)


class Answer(Protocol):
    """An answer: figures of its own, and tables of them."""

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The answer as tables with at most `top` rows; `brief` leaves out columns that a terminal has no space for."""


class Question(Protocol):
    """Collects what it needs from all batches, and answers when they have been seen.

    `spans` says whether it needs `WorkInput.spans`.
    """

    spans: bool

    def see(self, batch: Batch) -> None:
        """Looks at a batch; events and links are of one source. Rows that a filter leaves out are seen, too."""

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answers by the names of the questions, without those that the trace knows nothing about."""


class Explanation(Question, Protocol):
    """A question whose answer can be drawn into the trace."""

    def explain(self, work: Work, labels: Labels) -> Iterator[pa.RecordBatch]:
        """Yields events: columns of the model without `id`."""
