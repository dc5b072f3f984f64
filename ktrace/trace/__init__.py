"""A trace in a notebook: `ktrace.read` reads inputs into a `Trace` in memory.

trace         `Trace`: the rows in memory, and the methods on them
arrow_tables  joins batches into Arrow tables, compares values, makes DataFrames, also as Holistic Trace Analysis
notebook      a small timeline for notebooks, with the names of processes, threads and devices
contract      what every format promises, checked on samples
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ktrace.input.expand import paths_of
from ktrace.input.limits import limited
from ktrace.pipeline.read import read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Report
from ktrace.stages.order.pairing import pair_halves
from ktrace.trace.trace import Trace


@limited
def read(
    path: str | Path | Sequence[str | Path],
    from_: str | None = None,
    *,
    map: str | Path | None = None,
    capture: str | Path | Sequence[str | Path] = (),
    repair_clock: bool = False,
    strict: bool = False,
    limits: str | Mapping[str, str | int] | None = None,
) -> Trace:
    """Reads one or several inputs into memory.

    Parameters
    ----------
    path : path or sequence of paths
        Files, folders, patterns or URLs; "-" is standard input.
    from_ : str, optional
        Format of the inputs. By default it is detected from the content of each.
    map : str or path, optional
        The mapping of a table's columns, as in `Selection`.
    capture : path or sequence of paths, optional
        Traces of the capture of the graphs that the inputs replay, as in `Selection`.
    repair_clock : bool
        Move the times of devices whose work begins before the calls that launched it, as in `Selection`.
    strict : bool
        Fail if anything had to be repaired, skipped or cut off.
    limits : str or mapping, optional
        Limits other than the defaults, as in `Selection`.

    Returns
    -------
    Trace
        All rows. `Trace.report` is the report of the reading.

    Raises
    ------
    InputError
        The input can't be read.
    StrictFailure
        `strict`, and something had to be repaired, skipped or cut off.

    Examples
    --------
    >>> import ktrace
    >>> trace = ktrace.read("samples/kineto/one-step-of-training.pt.trace.json")
    >>> trace.events["dur"].dtype
    Int64Dtype()
    """
    paths = paths_of(path)
    report = Report(strict=strict)
    selection = Selection(from_=from_, map=map, capture=capture, repair_clock=repair_clock)
    return Trace(pair_halves(read_selected(paths, report, selection), report), report)
