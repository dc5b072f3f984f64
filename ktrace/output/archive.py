"""An archive with one Perfetto trace per source: `ktrace merge ... -o run.tar`. The viewer merges the traces.

perfetto_manifest.json   {"perfetto_manifest": {"version": 1, "files": [{"path": "rank0.perfetto", "machines": ...}]}}
rank0.perfetto           packets of machine 1, named "rank 0 on node0"
rank1.perfetto           packets of machine 2, times by the same clock

The manifest follows Perfetto's page "Trace manifest format" (perfetto.dev/docs/reference/perfetto-manifest, version 1,
read from v58 on): `machines` names the machine ids of a file's packets. Each trace has its own machine, so that equal
process ids don't collide. The first one has a clock snapshot where unix time is known, which is for all: a viewer
joins two machines that know the time of day in 1970, at a negative time. All traces already use one clock, so all
offsets in the manifest are 0. Older viewers read the archive as well and show the machines by number; v52 only if
the traces are sorted by name.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.format import Format
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import dump_json
from ktrace.model.masks import each_source
from ktrace.model.tracks import Process, host_of, rank_of
from ktrace.naming.alike import unique_name
from ktrace.output.sink import Sink, writing
from ktrace.output.write import write_batches
from ktrace.report import Report
from ktrace.scratch import scratch_folder
from ktrace.store.spill import SPILL_BYTES, Batches, Spill

#: The name that Perfetto's own tools use for the manifest.
MANIFEST = "perfetto_manifest.json"

#: Most characters of a member's name, without the suffix. TAR allows 100 bytes.
_NAME_LENGTH = 80


def write_archive(batches: Iterable[Batch], fmt: Format, sink: Sink, conversion: Conversion) -> None:
    """Writes a trace for each source into a TAR archive. Equal inputs yield equal bytes."""
    report = conversion.report
    spill = Spill(SPILL_BYTES)
    try:
        members = _by_source(batches, spill)
        names = _names(members)
        members = {source: members[source] for source in sorted(members, key=names.__getitem__)}
        machines = {source: number for number, source in enumerate(members, 1)}
        origin = min([0, *(member.begin for member in members.values())])
        same_anchor = len({offset for member in members.values() for offset in member.catalog.unix_offsets()}) == 1
        first = next(iter(members), None)
        with (
            scratch_folder() as folder,
            sink.open() as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT) as archive,
        ):
            text = _manifest(members, names, machines)
            _add(archive, MANIFEST, folder / MANIFEST, text.encode())
            for source, member in members.items():
                path = folder / names[source]
                account = Report(strict=report.strict)
                account.rows.update(member.rows)
                options = {**conversion.options, "machine": str(machines[source]), "origin": str(origin)}
                if source != first or not same_anchor:
                    options["unix"] = "none"
                with writing(Sink(str(path))) as member_sink:
                    write_batches(member.batches(), fmt, member_sink, Conversion(account, options=options))
                report.add_part(account)
                _add(archive, names[source], path)
                path.unlink()
    finally:
        spill.close()


class _Member:
    """The rows of a source, its row counts and its catalog."""

    def __init__(self, spill: Spill, number: int) -> None:
        self.catalog = Catalog()
        self.rows: dict[str, int] = {}
        self.begin = 0
        self._records: list[str] = []
        self._kept = Batches(spill, f"member{number}")

    def keep(self, batch: Batch) -> None:
        """Keeps a batch of this source."""
        if batch.record == "catalog":
            self.catalog.add(batch)
            return
        self.rows[batch.record] = self.rows.get(batch.record, 0) + len(batch)
        if batch.record == "events":
            self.begin = min(self.begin, pc.min(batch.column("ts")).as_py())
        self._records.append(batch.record)
        self._kept.append(batch.columns)

    def batches(self) -> Iterator[Batch]:
        """Yields the catalog, then all batches kept."""
        yield self.catalog.to_batch()
        for number, record in enumerate(self._records):
            yield Batch(record, self._kept.get(number))


def _by_source(batches: Iterable[Batch], spill: Spill) -> dict[str, _Member]:
    """Groups the batches by source. Sources are in the order of their first rows."""
    members: dict[str, _Member] = {}
    for batch in batches:
        for source, rows in each_source(batch):
            if source not in members:
                members[source] = _Member(spill, len(members))
            members[source].keep(rows)
    return {source: member for source, member in members.items() if member.rows} or members


def _names(members: Iterable[str]) -> dict[str, str]:
    """Returns a unique file name per source: its label without characters that trouble file systems or viewers."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for source in members:
        stem = (
            re.sub(r"[^A-Za-z0-9_#.-]", "_", source)[:_NAME_LENGTH].lstrip(".") or "trace"
        )  # viewers ignore hidden files
        name = unique_name(stem, taken.__contains__, "-")
        taken.add(name)
        names[source] = f"{name}.perfetto"
    return names


def _manifest(members: dict[str, _Member], names: dict[str, str], machines: dict[str, int]) -> str:
    """Returns the manifest: one machine per trace, named after its rank and host, or after the source without a rank.

    All traces refer to the clock of the first one. Otherwise a viewer would align them by unix time, and leave out
    traces without it. The format is Perfetto's (docs/reference/perfetto-manifest.md, v58).
    """
    shown: dict[str, str] = {}
    for source, member in members.items():
        process = Process(source, None, None, None)
        rank, host = rank_of(process, member.catalog), host_of(process, member.catalog)
        words = [f"rank {rank}"] if rank is not None else [source]
        shown[source] = " ".join([*words, *([f"on {host}"] if host else [])])
    ambiguous = [source for source, name in shown.items() if list(shown.values()).count(name) > 1]
    shown |= {source: f"{shown[source]} ({source})" for source in ambiguous}
    first = next(iter(members))
    reference = {"file": names[first], "machine": shown[first], "clock": "BOOTTIME"}
    files: list[dict[str, Any]] = []
    for source in members:
        files.append({"path": names[source], "machines": [{"id": machines[source], "name": shown[source]}]})
        if source != first:
            files[-1]["clocks"] = {"clock": "BOOTTIME", "machine": shown[source], "sync_to": reference, "offset_ns": 0}
    return dump_json({"perfetto_manifest": {"version": 1, "trace_time": reference, "files": files}})


def _add(archive: tarfile.TarFile, name: str, path: Path, data: bytes | None = None) -> None:
    """Adds a file without a time or an owner, so that equal inputs yield equal archives."""
    if data is not None:
        path.write_bytes(data)
    info = tarfile.TarInfo(name)
    info.size = path.stat().st_size
    with path.open("rb") as file:
        archive.addfile(info, file)
