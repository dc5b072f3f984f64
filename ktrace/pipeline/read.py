"""From inputs to batches, through the stages that options ask for.

paths ──► inputs ──► readers ──► decode ──► align ──► attach ──► classify ──► clock ──► explain ──► crop, ...
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.conversion import Conversion
from ktrace.errors import InputError, KtraceError
from ktrace.input.boundary import BadFiles, input_faults
from ktrace.input.capabilities import ByteRange, Pushdown
from ktrace.input.detection import by_name, choose
from ktrace.input.expand import Input, expanded, in_parts, labels, open_input, paths_of
from ktrace.input.format import Format
from ktrace.input.limits import References, in_force
from ktrace.input.mapping import mapping_of
from ktrace.input.relabel import Labels
from ktrace.input.snapshot import unchanged
from ktrace.input.source import Source, printable
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.json_text import dump_json
from ktrace.model.row_builder import REMARKS, remarks_of, to_batch
from ktrace.model.text_sizes import bounded
from ktrace.parallel.interruption import INTERRUPTION
from ktrace.pipeline.selection import Selection, cached_batches, mapped_format
from ktrace.report import Doubts, Report
from ktrace.stages.names import with_decoded_names
from ktrace.stages.order.pairing import pair_halves

if TYPE_CHECKING:
    from ktrace.model.arrays import Int64
    from ktrace.stages.replays import Arrows

Progress = Callable[[int], None]

#: All columns and rows.
EVERYTHING = Pushdown()

#: Columns that crop, filter and classify need, in addition to those that are never null.
_DECIDING = frozenset(
    {*TRACK_COLUMNS, "parent", "dur", "correlation", "event", "bind", "scope"}
    | {"short_name", "operation", "library", "precision", "layer"}
)

#: Columns that the alignment of clocks needs.
_ALIGNING = frozenset({"ts", "dur", "kind", "name", "comm", "comm_seq", "bytes"})


def read_batches(
    paths: Sequence[str],
    report: Report,
    *,
    format: str | None = None,
    batch_rows: int = 65_536,
    progress: Progress | None = None,
    jobs: int = 1,
    pushdown: Pushdown = EVERYTHING,
    part: ByteRange | None = None,
    labelled: Labels | None = None,
    keep_export: bool = False,
    map: str | Path | None = None,
    replays: bool = False,
) -> Generator[Batch, None, None]:
    """Yields the batches of all inputs, one input after the other, each with facts about its source first.

    A path may be a pattern or a folder: one trace where a format claims it, else the traces in it. `pushdown` names the
    columns and rows that will be looked at; formats that can't leave out others yield all. `part` is the byte range of
    a single input to read. No two inputs have rows of one source label; `labelled` records which input has which. `map`
    is the mapping of the columns of tables, whose format is "mapped". With `replays`, replayed kernels get the
    operators of captures in the same input.

    Raises InputError and its subclasses at the first batch of an input that can't be read.
    """
    named = expanded(paths, report, format if map is None else mapped_format(format))
    inputs = named if part is not None else [one for each in named for one in in_parts(each)]
    taken = Labels() if labelled is None else labelled
    options = {"keep_export": "yes"} if keep_export else {}
    options |= {"map": mapping_of(map).text()} if map is not None else {}
    bad, captures = BadFiles(report), _InlineCaptures(report, jobs)
    for one, name in zip(inputs, labels(inputs), strict=True):
        label = taken.free(name)
        report.path = one.path
        conversion = Conversion(report, label, batch_rows, options, progress=progress, jobs=jobs)
        batches = taken.apart(_batches(one, conversion, pushdown, part), one.path, report)
        batches = captures.attached(batches, one.path) if replays else batches
        yield from bad.left_out(one.path, batches, waiting=True) if one.found else batches
    bad.end()
    report.path = None
    yield from captures.arrows.rows(report, "own-captures", report.rows_read) if captures.arrows else ()


def _batches(one: Input, conversion: Conversion, pushdown: Pushdown, part: ByteRange | None) -> Iterator[Batch]:
    """Yields the batches of one input and counts their rows. An input whose first batch fails isn't listed."""
    source, fmt = open_input(one, conversion.label, conversion)
    conversion.expanded = References(source.path, lambda: source.stored).give
    report, batches = conversion.report, _rows(source, fmt, conversion, pushdown, part)
    before = {kind: (issue.rows, len(issue.places)) for kind, issue in report.issues.items()}
    remarks: list[tuple[str, str]] = []
    # Closed at once where reading stops: Python 3.10 would keep the reader, and its child, until garbage is collected.
    with unchanged(source.path), input_faults(source.path, fmt, report), closing(batches):  # later stages raise outside
        first = next(batches, None)
        report.inputs.append({"path": one.path, "format": fmt.name, "source": source.label})
        if not fmt.writes:  # A canonical input brings its own facts.
            about_rank = {} if one.part is None or one.part.rank is None else {"rank": one.part.rank}
            facts = dump_json({"path": printable(source.path), "format": fmt.name, **about_rank})
            about = {"entity": "source", "source": source.label, "id": 0, "name": source.label, "facts": facts}
            yield to_batch("catalog", [about])
        for batch in batches if first is None else chain([first], batches):
            report.rows[batch.record] += len(batch)
            if batch.record == "events" and len(batch):
                report.timed.add(conversion.label)
            INTERRUPTION.check()
            if batch.record == "summaries":
                remarks += remarks_of(batch, REMARKS - len(remarks))
            yield from bounded(with_decoded_names(batch), conversion.expanded)
        doubts = Doubts.from_issues(report.issues.values(), before, tables=conversion.label not in report.timed)
        doubts.remarks = remarks
        stated = {name: value for name, value in vars(doubts).items() if value}
        if stated and not fmt.writes:
            yield to_batch("catalog", [about | {"facts": dump_json({"doubts": stated})}])


class _InlineCaptures:
    """The captures of graphs in the inputs themselves; `arrows` lead from their calls, None without any."""

    def __init__(self, report: Report, jobs: int) -> None:
        self._report, self._jobs = report, jobs
        self.arrows: Arrows | None = None

    def attached(self, batches: Iterator[Batch], path: str) -> Iterator[Batch]:
        """Yields the batches of one input, replayed kernels with the operators of captures in it."""
        first = next(batches, None)  # once it is there, the report knows the format
        if first is None:
            return
        fmt, batches = by_name(self._report.inputs[-1]["format"]), chain([first], batches)
        if fmt.captures and Path(path).is_file():
            from ktrace.stages.replays import Arrows, with_own_captures

            self.arrows = self.arrows or Arrows()
            again = partial(read_batches, [path], Report(), format=fmt.name, jobs=self._jobs)
            batches = with_own_captures(batches, again, self._report, self.arrows)
        yield from batches


def _rows(
    source: Source, fmt: Format, conversion: Conversion, pushdown: Pushdown, part: ByteRange | None
) -> Generator[Batch, None, None]:
    """Reads one input, with the capability of its format that fits the request."""
    batches: Iterable[Batch]
    if part is not None:
        batches = fmt.function("read_range")(source, conversion, part)
    elif pushdown and (read_part := fmt.function("read_part")):
        batches = read_part(source, conversion, pushdown)
    else:
        batches = fmt.batches(source, conversion)
    yield from batches


def read_selected(
    paths: Sequence[str],
    report: Report,
    selection: Selection,
    *,
    progress: Progress | None = None,
    columns: frozenset[str] | None = None,
    part: ByteRange | None = None,
    replays: bool = True,
) -> Iterator[Batch]:
    """The selected rows of all inputs, with what the selection adds to them: what is read goes through `_stages`.

    `columns` are those that will be looked at, None for all; those that the stages need are read, too. `part` is the
    byte range of a single input to read; without `replays` captures in the inputs themselves aren't looked for. Begins
    and ends are paired where there is a crop or filter. Raises InputError and its subclasses.
    """
    labelled = Labels()
    stages = _stages(selection, report, labelled)
    columns = _columns_of(columns, stages)
    if "crop" in stages and not stages.keys() & {"align", "metrics", "nodes", "capture", "clock", "explain"}:
        columnar = _columnar(paths, selection.from_)
        if columnar is not None:
            batches = _cropped_twice(paths, report, selection.replace(from_=columnar), progress, columns)
            for name in ("pair", "filter", "coarsen") if stages.keys() & {"filter", "coarsen"} else ():
                batches = stages[name](batches) if name in stages else batches
            return batches
    plain = part is None and replays and "align" not in stages
    if plain and (kept := cached_batches(paths, selection, report, columns)) is not None:
        for stage in stages.values():
            kept = stage(kept)
        return kept
    ranks = selection.filter.ranks if selection.filter else ()
    if stages.keys() & {"align", "metrics", "clock", "explain", "crop"}:  # they need the other ranks, too
        ranks = ()
    batches = read_batches(
        paths,
        report,
        format=selection.from_,
        progress=progress,
        jobs=selection.jobs or cores(),
        pushdown=Pushdown(columns, ranks=frozenset(ranks) or None),
        part=part,
        labelled=labelled,
        keep_export=selection.keep_export,
        map=selection.map,
        replays=replays and not selection.capture,
    )
    for stage in stages.values():
        batches = stage(batches)
    return batches


_Stage = Callable[[Iterator[Batch]], Iterator[Batch]]


def _stages(selection: Selection, report: Report, labelled: Labels) -> dict[str, _Stage]:
    """What is done to the rows after they are read, by name and in this order: only what is asked for."""
    crop, filter, align, metrics = selection.crop, selection.filter, selection.align, selection.metrics
    stages: dict[str, _Stage] = {}
    if align is not None:
        from ktrace.stages.align import aligned

        stages["align"] = lambda batches: aligned(batches, align, report, labelled.inputs)
    if metrics is not None:
        stages["metrics"] = lambda batches: _joined(batches, str(metrics), report, selection.launch_skip)
    if selection.execution_trace is not None:
        stages["nodes"] = lambda batches: _with_nodes(batches, str(selection.execution_trace), report)
    if selection.capture:
        stages["capture"] = lambda batches: _with_captures(batches, selection, report, labelled)
    if selection.classify:
        stages["classify"] = lambda batches: _classified(batches, selection, report)
    if selection.repair_clock or selection.explain or selection.budget or crop or filter:  # slices as a whole
        stages["pair"] = lambda batches: pair_halves(batches, report)
    if selection.repair_clock:
        from ktrace.stages.clock_repair import with_repaired_clocks

        stages["clock"] = lambda batches: with_repaired_clocks(batches, report)
    if selection.explain:
        from ktrace.pipeline.explain import explained

        stages["explain"] = lambda batches: explained(
            batches, selection.explain, report, is_classified=bool(selection.classify)
        )
    if crop is not None:
        from ktrace.stages.select.crop import cropped

        stages["crop"] = lambda batches: cropped(batches, crop, report)
    if filter is not None:
        from ktrace.stages.select.filter import filtered

        stages["filter"] = lambda batches: filtered(batches, filter, report)
    if selection.budget is not None:
        from ktrace.stages.select.coarsen import coarsened

        budget = int(selection.budget)
        stages["coarsen"] = lambda batches: coarsened(batches, budget, report)
    return stages


def _columns_of(columns: frozenset[str] | None, stages: Mapping[str, _Stage]) -> frozenset[str] | None:
    """The columns to read: those that will be looked at, and those that the stages need; None for all."""
    if columns is None or stages.keys() & {"metrics", "nodes", "capture"}:
        return None
    deciding = _DECIDING if stages.keys() & {"classify", "crop", "filter"} else frozenset()
    if "clock" in stages:
        from ktrace.stages.clock_repair import COLUMNS

        deciding = deciding | COLUMNS
    return columns | deciding | (_ALIGNING if "align" in stages else frozenset())


def _joined(batches: Iterator[Batch], path: str, report: Report, skip: int | None) -> Iterator[Batch]:
    """Adds the metrics in a table of launches to the kernels of the batches."""
    from ktrace.stages.metrics import read_launches, with_metrics

    account = Report(strict=report.strict)
    measured = read_launches(read_batches([path], account))
    if not measured.launches:
        raise InputError(
            "has no launches with metrics",
            path=path,
            expected="a report of Nsight Compute, or its printed output",
            remedy="ncu --set full -o metrics ./app, then --metrics metrics.ncu-rep; counters of other profilers are "
            "read with their own kernels, without --metrics",
        )
    report.merge(account)
    report.inputs += account.inputs
    return with_metrics(batches, measured, report, skip)


def _with_nodes(batches: Iterator[Batch], path: str, report: Report) -> Iterator[Batch]:
    """Adds the arguments of operators in an execution trace to their rows."""
    from ktrace.stages.execution_trace import Nodes, with_nodes

    account = Report(strict=report.strict)
    account.path = path
    source = Source(path, on_cut=lambda where, why: account.issue("cut", where, why, 0))
    fmt = choose(source, account)
    read_nodes = fmt.function("read_nodes")
    if read_nodes is None:
        raise InputError(
            f"is {fmt.title}, not an execution trace",
            path=path,
            expected="the JSON of torch.profiler.ExecutionTraceObserver",
            remedy="pass execution_trace_observer=ExecutionTraceObserver().register_callback('et.json') to profile()",
        )
    nodes = Nodes()
    with input_faults(path, fmt, account):
        for some in read_nodes(source, Conversion(account)):
            nodes.add(some)
    report.merge(account)
    report.inputs.append({"path": path, "format": fmt.name, "source": source.label})
    return with_nodes(batches, nodes, report)


def _with_captures(batches: Iterator[Batch], selection: Selection, report: Report, labelled: Labels) -> Iterator[Batch]:
    """Adds the operators of the calls in traces of captures to the kernels that graphs replay."""
    from ktrace.stages.replays import Arrows, captures_of, with_captures

    account, theirs = Report(strict=report.strict), Labels()
    paths = paths_of(selection.capture)
    captures = captures_of(read_batches(paths, account, jobs=selection.jobs or cores(), labelled=theirs))
    if not captures:
        raise InputError(
            "has no capture of a graph",
            path=", ".join(paths),
            expected="a trace of Kineto with calls between StreamBeginCapture and StreamEndCapture",
            remedy="record the capture too: start the profiler before the graphs are captured",
        )
    report.merge(account)
    report.inputs += account.inputs
    return with_captures(batches, captures, report, Arrows(lambda capture: labelled.label_of(theirs.inputs[capture])))


def _classified(batches: Iterator[Batch], selection: Selection, report: Report) -> Iterator[Batch]:
    """Labels device work by its names."""
    from ktrace.naming.taxonomy import taxonomy
    from ktrace.stages.names import with_operations

    return with_operations(batches, taxonomy(selection.rules), report)


def _columnar(paths: Sequence[str], from_: str | None) -> str | None:
    """Returns the format of a single input whose columns and rows can be read separately and twice; None for others."""
    if len(paths) != 1:
        return None
    source = Source(paths[0])
    if not (source.is_folder or Path(paths[0]).is_file()):
        return None
    try:
        fmt = by_name(from_) if from_ else choose(source)
    except KtraceError:  # raised again when it is read
        return None
    return fmt.name if fmt.read_part else None


def _cropped_twice(
    paths: Sequence[str],
    report: Report,
    selection: Selection,
    progress: Progress | None,
    columns: frozenset[str] | None,
) -> Iterator[Batch]:
    """Reads a crop twice: first the columns that decide, then the rows that stay."""
    from ktrace.stages.select.crop import cropped_twice

    assert selection.crop is not None

    def read(account: Report, pushdown: Pushdown, progress: Progress | None = None) -> Iterator[Batch]:
        batches = read_batches(paths, account, format=selection.from_, progress=progress, pushdown=pushdown)
        return _classified(batches, selection, account) if selection.classify else batches

    def deciding(needed: frozenset[str]) -> Iterator[Batch]:
        return read(report, Pushdown(needed), progress)

    def whole(ids: Int64, account: Report) -> Iterator[Batch]:
        return read(account, Pushdown(columns, ids))

    return cropped_twice(deciding, whole, selection.crop, report)


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def open_batches(
    path: str | Path,
    *,
    from_: str | None = None,
    map: str | Path | None = None,
    batch_rows: int = 65_536,
    jobs: int | None = None,
    limits: str | Mapping[str, str | int] | None = None,
) -> Iterator[Iterator[Batch]]:
    """Opens an input and streams its batches in bounded memory.

    Parameters
    ----------
    path : path
        The input.
    from_ : str, optional
        Format of the input. By default it is detected from the content.
    map : str or path, optional
        The mapping of a table's columns, as in `Selection`.
    batch_rows : int
        Largest number of rows in a batch.
    jobs : int, optional
        Number of processes that may work, by default as many as there are cores.
    limits : str or mapping, optional
        Limits other than the defaults, as in `Selection`.

    Yields
    ------
    Iterator[Batch]
        The batches, slices whole.

    Raises
    ------
    InputError
        The input can't be read; raised when batches are taken.

    Examples
    --------
    >>> import ktrace
    >>> with ktrace.open_batches("samples/kineto/one-step-of-training.pt.trace.json") as batches:
    ...     records = {batch.record for batch in batches}
    >>> sorted(records)
    ['catalog', 'events', 'links']
    """
    report = Report()
    batches = read_batches([str(path)], report, format=from_, batch_rows=batch_rows, jobs=jobs or cores(), map=map)
    with in_force(limits), closing(batches):
        yield pair_halves(batches, report)
