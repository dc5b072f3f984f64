"""A trace in several outputs that a viewer can open: numbered parts, or an archive with one trace for each source.

run.perfetto becomes run.000.perfetto, run.001.perfetto, ... (`--split-by`). Either all parts appear or none does. A
part larger than the limit is written again with fewer rows.

`ktrace merge ... -o run.tar` writes an archive, whose traces the viewer merges:

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
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import OutputError, UsageError
from ktrace.input.format import Format
from ktrace.input.source import COMPRESSED
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import dump_json
from ktrace.model.masks import each_source
from ktrace.model.tracks import Process, host_of, rank_of
from ktrace.naming.alike import unique_name
from ktrace.output import Sink, writing
from ktrace.output.swap import recover, swap_files
from ktrace.output.write import open_sink, write_batches
from ktrace.report import Report
from ktrace.scratch import Held, make, name_for, scratch_folder
from ktrace.stages.order.pairing import pair_halves
from ktrace.stages.split import Split, SplitBy
from ktrace.store import SPILL_BYTES, BatchSpool, Spill

#: Largest number of parts: their numbers have three digits.
MAX_PARTS = 1000

#: For parts of a given size: rows of the first attempt, and the share of the size that later attempts aim at.
_FIRST_ROWS, _AIM = 100_000, 0.95

#: A part below this share of the size is written again with more rows.
_MIN_SHARE = 0.6


class NumberedOutputs:
    """The numbered outputs of a trace, which appear together (`writing`). `path` is the name without a number.

    Raises UsageError for standard output, and OutputError if parts exist already and `overwrite` isn't set. With
    `overwrite` all existing parts are removed, also those with numbers that the new trace doesn't reach.
    """

    def __init__(self, path: str, fmt: Format, *, overwrite: bool = False) -> None:
        if path == "-":
            raise UsageError("--split-by writes several files", expected="a name with -o, not '-'")
        self.path = path
        self.format = fmt
        self._overwrite = overwrite
        whole = Path(path)
        self._folder = whole.parent
        self._suffix = _suffix(whole.name, fmt)
        self._stem = whole.name.removesuffix(self._suffix)
        self._sinks: list[Sink] = []
        self._held: Held | None = None
        if self._folder.is_dir():
            recover(self._folder.resolve())
        if (existing := self._existing()) and not overwrite:
            raise OutputError(
                "already exists",
                path=str(existing[0]),
                remedy="--overwrite (in Python overwrite=True), or another name",
            )

    def _existing(self) -> list[Path]:
        """The parts that already exist."""
        if not self._folder.is_dir():
            return []
        name = re.compile(re.escape(self._stem) + r"\.[0-9]{3}" + re.escape(self._suffix))
        return sorted(path for path in self._folder.iterdir() if name.fullmatch(path.name))

    def begin(self) -> Sink:
        """Creates the output of the next part."""
        number = len(self._sinks)
        if number >= MAX_PARTS:
            raise UsageError(f"that makes more than {MAX_PARTS} parts", remedy="a longer time, or a larger size")
        path = str(self._folder / f"{self._stem}.{number:03d}{self._suffix}") + "/" * self.path.endswith("/")
        if Path(path).is_symlink():
            raise OutputError("is a symbolic link", path=path, expected="a file", remedy="another name with -o")
        sink = open_sink(path, self.format, overwrite=self._overwrite, inside=self._held.path if self._held else None)
        self._sinks.append(sink)
        sink.make()
        return sink

    def drop(self) -> None:
        """Removes the last part, so that it can be written again."""
        self._sinks.pop().abort()

    def make(self) -> None:
        """Creates the folder of the unfinished parts; `begin` creates the parts."""
        try:
            self._held = make(self._folder.resolve() / name_for(self._stem), folder=True)
        except OSError as error:
            raise OutputError(
                f"can't write there: {error.strerror}", path=self.path, remedy="choose another folder with -o"
            ) from None

    def commit(self) -> None:
        """Moves all parts to their places and removes the existing ones, all in one step (`swap_files`)."""
        for sink in self._sinks:
            sink.finish()
            sink.prepare()
        moves = [sink.move for sink in self._sinks]
        try:
            if moves:
                swap_files(
                    moves, [path.parent.resolve() / path.name for path in self._existing()], overwrite=self._overwrite
                )
        except FileExistsError as error:
            raise OutputError(
                "now exists: it appeared during the conversion",
                path=error.filename2 or error.filename,
                remedy="--overwrite (in Python overwrite=True), or another name",
            ) from None
        if self._held:
            self._held.remove()

    def abort(self) -> None:
        """Removes all parts."""
        for sink in self._sinks:
            sink.abort()
        if self._held:
            self._held.remove()


def _suffix(name: str, fmt: Format) -> str:
    """Returns the end of a name that shows format and compression: ".trace.json.gz"."""
    packed = next((end for end in COMPRESSED if name.lower().endswith(end)), "")
    plain = name[: len(name) - len(packed)]
    ends = [pattern.removeprefix("*") for pattern in fmt.patterns if plain.lower().endswith(pattern.removeprefix("*"))]
    return name[len(plain) - len(max(ends, key=len, default=Path(plain).suffix)) :]


def write_parts(batches: Iterable[Batch], by: SplitBy, parts: NumberedOutputs, conversion: Conversion) -> None:
    """Writes all batches in parts. Lists each in `Report.parts`, and adds its account to that of the conversion.

    Raises UsageError if there are too many parts, or if the size is too small for any part.
    """
    with Split(pair_halves(batches, conversion.report), by) as split:
        writer = _Writer(split, parts, conversion)
        if by.size is not None:
            writer.by_size(by.size)
            return
        if len(split.cuts) > MAX_PARTS:
            raise UsageError(f"that makes {len(split.cuts):,} parts", expected=f"at most {MAX_PARTS}")
        for first, last in zip(split.cuts, [*split.cuts[1:], split.rows], strict=True):
            if split.count(first, last) or len(split.cuts) == 1:
                writer.keep(first, last, *writer.write(first, last))


class _Writer:
    """Writes parts, each with its own account."""

    def __init__(self, split: Split, parts: NumberedOutputs, conversion: Conversion) -> None:
        self._split = split
        self._parts = parts
        self._report = conversion.report
        self._options = conversion.options

    def write(self, first: int, last: int) -> tuple[Report, int, str]:
        """Writes a part. Returns its account, its size in bytes and its path."""
        account = Report(strict=self._report.strict)
        sink = self._parts.begin()
        rows = _count_rows(self._split.batches(first, last), account)
        write_batches(rows, self._parts.format, sink, Conversion(account, options=self._options))
        account.require_balance()
        return account, sink.finish(), sink.path

    def keep(self, first: int, last: int, account: Report, size: int, path: str) -> None:
        """Keeps a part: adds its account to the report and lists it."""
        self._report.add_part(account)
        start, end = self._split.span(first, last) or (None, None)
        entry = {"path": path, "rows": account.written, "bytes": size, "start_ns": start, "end_ns": end}
        self._report.parts.append(entry)

    def by_size(self, limit: int) -> None:
        """Writes parts of at most `limit` bytes. A row larger than that gets its own part."""
        first, rows = 0, _FIRST_ROWS
        while first < self._split.rows:
            written, rows = self._write_within(first, rows, limit)
            first += written

    def _write_within(self, first: int, rows: int, limit: int) -> tuple[int, int]:
        """Writes the part that begins at rank `first`, trying row counts from `rows` on until its size is right.

        Returns the number of rows written, and the number to try for the next part.
        """
        left = self._split.rows - first
        rows, enough, too_many = min(rows, left), 0, left + 1
        while True:
            account, size, path = self.write(first, first + rows)
            likely = max(1, int(rows * limit / size * _AIM))
            if size > limit and rows > 1:
                if not enough:
                    self._check_empty(limit)
                too_many = rows
            elif size >= _MIN_SHARE * limit or rows + 1 >= too_many:
                self.keep(first, first + rows, account, size, path)
                return rows, likely
            else:
                enough = rows
            self._parts.drop()
            rows = likely if enough < likely < too_many else max(1, (enough + too_many) // 2)

    def _check_empty(self, limit: int) -> None:
        """Raises UsageError if a part without events is already too large."""
        _, size, _ = self.write(0, 0)
        self._parts.drop()
        if size >= limit:
            raise UsageError(
                f"parts of {limit:,} bytes are too small: a part without events has {size:,}", remedy="a larger size"
            )


def _count_rows(batches: Iterable[Batch], account: Report) -> Iterator[Batch]:
    for batch in batches:
        account.rows[batch.record] += len(batch)
        yield batch


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
        self._kept = BatchSpool(spill, f"member{number}")

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
    times = Counter(shown.values())
    shown |= {source: f"{name} ({source})" for source, name in shown.items() if times[name] > 1}
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
