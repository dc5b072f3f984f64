"""What every format promises, as checks of its samples: `ktrace check-format`, and the tests of ktrace's own formats.

Each check returns nothing, or raises BrokenPromise with a sentence that says what was seen.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ktrace.errors import KtraceError
from ktrace.input.detection import choose
from ktrace.input.format import Format
from ktrace.input.source import MAPPING_SUFFIX, Sample, Source
from ktrace.model.schema import RECORDS
from ktrace.pipeline.convert import convert
from ktrace.pipeline.read import read_batches
from ktrace.pipeline.validate import validate
from ktrace.report import Report
from ktrace.trace.trace import Trace

#: Places at which a file is cut.
CUTS = 31

#: What is no input of a format: nothing, bytes that are no text, the beginning of a text with a mark.
ODD = (Sample("empty"), Sample("bytes", bytes(range(256)) * 8), Sample("cut", b"\xef\xbb\xbf{", whole=False))


class BrokenPromise(Exception):
    """A promise of every format that this one breaks."""


def _require(kept: bool, broken: str) -> None:
    if not kept:
        raise BrokenPromise(broken)


def whole(path: Path, name: str, batch_rows: int = 65_536) -> Trace:
    """A sample as the format's reader gives it."""
    report = Report()
    return Trace(read_batches([str(path)], report, format=name, batch_rows=batch_rows), report)


def with_mapping(path: Path, copy: Path) -> Path:
    """The path of a copy of a sample, next to which the sample's mapping is put, if it has one."""
    if mapping := Source(str(path)).mapping:
        shutil.copy(mapping, str(copy) + MAPPING_SUFFIX)
    return copy


def raises_nothing(fmt: Format) -> None:
    """Its probe raises on no odd input."""
    for sample in ODD:
        try:
            fmt.recognised(sample)
        except Exception as error:
            raise BrokenPromise(f"the probe raises {error!r} on the input '{sample.name}'") from error


def is_recognised(path: Path, name: str) -> None:
    """The sample is recognised as what it is."""
    chosen = choose(Source(str(path))).name
    _require(chosen == name, f"it is taken for {chosen}")


def accounts_for_every_record(path: Path, name: str) -> None:
    """Records read are records used and records reported, and there are rows."""
    trace = whole(path, name)
    ledger = trace.report.reader
    _require(ledger.balanced(), f"{ledger.taken:,} records were counted, and not as many accounted for")
    _require(sum(trace.report.rows.values()) > 0, "it gives no rows")


def has_valid_rows(path: Path, name: str) -> None:
    """The rows are as the schema of the model says."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.jsonl"
        convert(path, out, from_=name)
        faults = validate(str(out)).faults
    _require(not faults, f"the rows have {len(faults)} faults, the first: {faults[0] if faults else ''}")


def has_its_own_ids(path: Path, name: str) -> None:
    """Ids are unique within a source, and parents exist."""
    tables = whole(path, name).to_arrow()
    columns = [(tables[record]["source"].to_pylist(), tables[record], record) for record in RECORDS[:3]]
    keys = [key for sources, table, _ in columns for key in zip(sources, table["id"].to_pylist(), strict=True)]
    _require(len(keys) == len(set(keys)), "an id occurs twice")
    ids = set(keys)
    for sources, table, record in columns:
        parents = zip(sources, table["parent"].to_pylist(), strict=True)
        _require({parent for parent in parents if parent[1] is not None} <= ids, f"a parent of {record} doesn't exist")


def is_the_same_in_any_batches(path: Path, name: str) -> None:
    """The size of batches makes no difference."""
    trace = whole(path, name)
    for batch_rows in (1, 7):
        _require(whole(path, name, batch_rows).equals(trace), f"batches of {batch_rows} rows give other rows")


def survives_cuts(path: Path, name: str) -> None:
    """A cut file gives its whole part, or an error that names it."""
    if path.is_dir():
        return
    rows = sum(whole(path, name).report.rows.values())
    with tempfile.TemporaryDirectory() as folder:
        cut = with_mapping(path, Path(folder) / path.name)
        shutil.copy(path, cut)
        data = len(path.read_bytes())
        sizes = sorted({*range(1, data, max(1, data // CUTS)), data - 1}, reverse=True)
        for number, size in enumerate(sizes):  # from long to short: cutting a file costs less than writing it
            os.truncate(cut, size)
            for forced in (name, None) if number % 5 == 0 else (name,):
                _survives(cut, size, forced, rows)


def _survives(cut: Path, size: int, forced: str | None, rows: int) -> None:
    report = Report()
    try:
        part = Trace(read_batches([str(cut)], report, format=forced), report)
    except KtraceError as error:
        _require(error.path == str(cut), f"cut after {size:,} bytes, its error doesn't name the file: {error}")
        return
    except Exception as error:
        raise BrokenPromise(f"cut after {size:,} bytes, it raises {error!r}") from error
    _require(part.report.reader.balanced(), f"cut after {size:,} bytes, records aren't accounted for")
    more = forced is not None and sum(part.report.rows.values()) > rows
    _require(not more, f"cut after {size:,} bytes, it gives more rows than before")


#: The checks of a sample, each with what it promises.
CHECKS: tuple[Callable[[Path, str], None], ...] = (
    is_recognised,
    accounts_for_every_record,
    has_valid_rows,
    has_its_own_ids,
    is_the_same_in_any_batches,
    survives_cuts,
)


def promises(fmt: Format, samples: list[Path]) -> Iterator[tuple[str, str]]:
    """Yields what is promised and what was seen instead, "" where the promise is kept.

    Raises nothing: an error of the format is what was seen.
    """
    yield _promise(raises_nothing), _seen(raises_nothing, fmt)
    for check in CHECKS:
        broken = ((path.name, _seen(check, path, fmt.name)) for path in samples)
        yield _promise(check), "; ".join(f"{name}: {seen}" for name, seen in broken if seen)


def _promise(check: Callable[..., None]) -> str:
    return (check.__doc__ or "").split("\n")[0].rstrip(".")


def _seen(check: Callable[..., None], *given: object) -> str:
    try:
        check(*given)
    except (BrokenPromise, KtraceError) as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
