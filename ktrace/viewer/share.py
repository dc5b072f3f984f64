"""A page to send: the verdict, the overview, and a part of the trace that opens in the Perfetto UI (`ktrace share`).

inputs ──► read_selected ──► redacted ──► Parquet in a temporary folder ──┬──► summary: the verdict
                                                                          └──► overview, window: the page
Everything on the page comes from the rows in that folder, so what was replaced in them is nowhere on it.
"""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.analysis.answers.summary.compute import summarise
from ktrace.analysis.questions.overview import Span
from ktrace.analysis.questions.overview.answers import Overview
from ktrace.conversion import Conversion
from ktrace.errors import InputError, UsageError
from ktrace.input.detection import by_name
from ktrace.input.expand import names_several, paths_of
from ktrace.input.limits import limited
from ktrace.naming.taxonomy import taxonomy
from ktrace.output import Sink, replaces, writing
from ktrace.page.overview_page import one_file, with_trace
from ktrace.pipeline.convert import require_rows, writing_to
from ktrace.pipeline.overview import overviewed, window, without_slices
from ktrace.pipeline.read import Progress, read_selected
from ktrace.pipeline.selection import ReadOptions, Selection, selected
from ktrace.report import Report
from ktrace.scratch import scratch_folder
from ktrace.stages.redact import Redaction, redacted
from ktrace.tables import size
from ktrace.viewer.ui import PAGE

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The most bytes of a page, and rows of the first part that is tried.
MOST, _ROWS = 5_000_000, 400_000


@dataclass
class Shared:
    """A page that was written: its bytes, the part of the time that opens in Perfetto and how long the trace is (ns).

    `replaced` counts what a redaction replaced, by sort; `key` is the file that says by what.
    """

    path: str
    bytes: int
    part: Span
    length: int
    report: Report
    key: str | None = None
    replaced: dict[str, int] = field(default_factory=dict)


@limited
def share(
    src: str | Path | Sequence[str | Path],
    dst: str | Path,
    *,
    redact: bool = False,
    key: str | Path | None = None,
    selection: Selection | None = None,
    overwrite: bool | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReadOptions],
) -> Shared:
    """Writes a page of at most 5 MB: the verdict, the overview, and a part that opens in the Perfetto UI.

    Parameters
    ----------
    src : path or sequence of paths
        The inputs; the clocks of several are aligned.
    dst : path
        The page, `*.html`.
    redact : bool
        Replace names, paths and hosts by tokens; words of vendors and frameworks stay, and so do numbers.
    key : path, optional
        With `redact`: the file that says what each token stands for, for its owner alone. If it is there, its key
        gives the same tokens again. By default it is beside the page: `run.key.json` for `run.html`.
    selection, overwrite, progress, **options
        As for `ktrace.convert`.

    Returns
    -------
    Shared
        The page: its size, the part that opens, and what was replaced.

    Raises
    ------
    InputError
        The input can't be read, or has nothing with a time.
    OutputError
        The page can't be written, or exists.
    UsageError
        `key` without `redact`, or isn't such a file.

    Neither a page nor a key exists after an error.

    Examples
    --------
    >>> import ktrace
    >>> shared = ktrace.share("samples/kineto/one-step-of-training.pt.trace.json", "run.html", redact=True)
    >>> shared.key, shared.part == (0, shared.length)
    ('run.key.json', True)
    """
    if key is not None and not redact:
        raise UsageError("--key is for --redact", remedy="add --redact")
    paths, out, report = paths_of(src), str(dst), Report()
    if not out.endswith((".html", ".htm")):
        raise UsageError(f"'{out}' isn't the name of a page", expected="a name that ends in .html")
    chosen = selected(selection, options)
    if chosen.align is None and names_several(paths, chosen.from_):
        from ktrace.stages.align import Align

        chosen = chosen.replace(align=Align("auto"))
    key_path = Path(key) if key is not None else Path(out).with_suffix(".key.json")
    if redact and key_path.resolve() == Path(out).resolve():
        raise UsageError(f"{key} is the page", remedy="name another file with --key")
    redaction = _redaction(key_path) if redact else None
    with writing(Sink(out, overwrite=replaces(overwrite))) as sink, scratch_folder() as folder:
        rows = str(folder / "run.parquet")
        batches = read_selected(paths, report, chosen, progress=progress)
        if redaction:
            batches = redacted(batches, redaction, taxonomy(chosen.rules))
        with writing_to(rows, by_name("parquet", writes=True), None) as write:
            write(batches, Conversion(report))
            report.require_balance()
            report.require_match()
            require_rows(report, paths)
        formats = ", ".join(dict.fromkeys(one["format"] for one in report.inputs))
        name = Path(paths[0]).name
        title = redaction.private(name) if redaction else name
        title += f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
        page, part, length = _page(rows, folder, paths[0], title, formats)
        sink.open().write(page)
        if redaction:
            _keep(key_path, redaction)
    shared = Shared(out, len(page), part, length, report)
    if redaction:
        shared.key, shared.replaced = str(key_path), dict(redaction.replaced)
    return shared


def _page(rows: str, folder: Path, path: str, title: str, formats: str) -> tuple[bytes, Span, int]:
    """The page, the part that opens in Perfetto, and the time that the trace covers."""
    summary = summarise(rows, by=("idle", "operation", "kernel"))
    with overviewed([rows], Selection(), cached=False) as (overview, _):
        if not len(overview.stored.cells):
            overview.title = path
            raise without_slices(overview)
        overview.title = title
        about = {"inputs": formats, "ui": PAGE, "start": overview.stored.span[0]}
        page = one_file(overview, about=about, verdict=[*summary.verdict, *summary.advice])
        longest = with_trace(page, (overview.length, overview.length), b"-")
        part, trace = _part(overview, str(folder / "part.perfetto"), (MOST - len(longest.encode())) * 3 // 4)
        return with_trace(page, part, trace).encode(), part, overview.length


def _part(overview: Overview, path: str, most: int) -> tuple[Span, bytes]:
    """The middle of the trace, as much of it as takes at most `most` bytes packed; and these bytes.

    Raises InputError where nothing fits, beside an overview of very many lanes.
    """
    share = min(1.0, _ROWS / overview.stored.rows)
    while most > 0 and share * overview.length >= 1:
        edge = int(overview.length * (1 - share) / 2)
        part = (edge, overview.length - edge)
        window(overview, part if edge else None, path)
        packed = gzip.compress(Path(path).read_bytes(), mtime=0)
        if len(packed) <= most:
            return part, packed
        share *= min(0.9 * most / len(packed), 0.9)
    raise InputError(
        f"has an overview that leaves no space for its trace in {size(MOST)}", path=overview.title,
        remedy="share a part of it: --rank, --device, --step or --time",
    )  # fmt: skip


def _redaction(path: Path) -> Redaction:
    """The redaction with the key of a file; with a new key if there is no such file."""
    if not path.exists():
        return Redaction(secrets.token_bytes(32))
    try:
        kept = json.loads(path.read_text("utf-8"))
        redaction = Redaction(bytes.fromhex(kept["key"]))
        redaction.keep(kept["tokens"])
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UsageError(f"{path} isn't a key of ktrace share", remedy="name another file with --key") from None
    return redaction


def _keep(path: Path, redaction: Redaction) -> None:
    """Writes the key and what each token stands for, readable by its owner alone."""
    tokens = dict(sorted(redaction.originals.items()))
    text = json.dumps({"key": redaction.key.hex(), "tokens": tokens}, indent=1, ensure_ascii=False)
    with writing(Sink(str(path), overwrite=True)) as sink:
        sink.open().write(f"{text}\n".encode("utf-8", "backslashreplace"))
    path.chmod(0o600)
