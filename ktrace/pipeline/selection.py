"""What every command that reads inputs has in common: which rows are wanted, what is added, what the cache has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ktrace.errors import UsageError
from ktrace.input.expand import paths_of
from ktrace.input.limits import Limits, limits_of
from ktrace.input.mapping import FORMAT, mapping_of
from ktrace.input.options import documented, option

if TYPE_CHECKING:
    from ktrace.model.batch import Batch
    from ktrace.report import Report
    from ktrace.stages.align import Align
    from ktrace.stages.select.wanted import Crop, Filter

#: The ways to write numbered parts.
WAYS_TO_SPLIT = ("time=", "size=", "step")


@documented
@dataclass(frozen=True)
class Selection:
    """Which rows of the inputs are wanted, and what is added to them.

    All functions that read inputs (`convert`, `merge`, `summarise`, `compare`, `batch`, `ktrace.viewer.served`) take
    one as `selection`, and its fields as keywords of their own; a keyword overrides the field.

    {parameters}

    Examples
    --------
    >>> from ktrace import Filter, Selection
    >>> only_gemm = Selection(filter=Filter(names=["*gemm*"]), jobs=1)
    >>> only_gemm.replace(jobs=2).jobs
    2
    """

    from_: str | None = option(
        None,
        "--from",
        "FORMAT",
        "Format of the inputs; by default the content of each decides.",
        more="`ktrace formats` lists the names.",
        words="ktrace.input.format:readable",
    )
    map: str | Path | None = option(
        None,
        "--map",
        "FIELD=COLUMN,...",
        "Read a table (CSV, TSV, JSON Lines) with these columns: name=Kernel,start=t0:us,dur=dt:us; or a TOML file.",
        more="The format of the inputs is then 'mapped'.",
        link="[More](../formats/mapped.md)",
        repeatable=True,
    )
    rules: str | Path | None = option(
        None,
        "--rules",
        "FILE",
        "Label device work by your own rules first, from this file.",
        more="This includes --classify.",
        link="[More](../operations.md)",
    )
    classify: bool = option(
        False,
        "--classify",
        "",
        "Label device work with operation, library, precision, layer and short name.",
        more="Labels of the source stay.",
        link="[More](../operations.md)",
    )
    jobs: int | None = option(
        None,
        "--jobs",
        "N",
        "Number of processes; the default is the number of cores.",
        more="Several read JSON from 32 MB on, and compressed JSON from 4 MB on. Results don't depend on their number.",
    )
    limits: str | Mapping[str, str | int] | Limits | None = option(
        None,
        "--limits",
        "NAME=SIZE,...",
        "Raise or lower the limits of an input: line=1GiB, value=2GiB, unpacked=4GiB, ratio=none, depth=8.",
        more="An input beyond them is an error; they change nothing in what is read.",
        link="[More](../limits.md)",
        repeatable=True,
    )
    capture: str | Path | Sequence[str | Path] = option(
        (),
        "--capture",
        "FILE",
        "A trace of the capture of the graphs that the inputs replay, or a folder of them: replayed kernels get its "
        "operators.",
        more="An input that has the capture itself needs no other (Kineto).",
        link="[More](../questions/graphs.md)",
        repeatable=True,
    )
    repair_clock: bool = option(
        False,
        "--repair-clock",
        "",
        "Move the times of devices whose work begins before the calls that launched it, by the smallest shift that "
        "repairs it.",
        more="Clocks that agree aren't moved; a note says by how much others are, and how sure that is.",
        link="[More](check.md#repairing-a-clock)",
    )
    crop: Crop | None = option(None, "", "", "The time range to keep.")
    filter: Filter | None = option(None, "", "", "The rows to keep, by kind, name, device and more.")
    metrics: str | Path | None = option(
        None,
        "--metrics",
        "FILE",
        "Metrics of launches (Nsight Compute) to attach to the same kernels of the inputs.",
        more="They become counters of the kernels.",
        link="[More](convert.md#metrics-of-another-tool-on-a-timeline)",
    )
    launch_skip: int | None = option(
        None,
        "--launch-skip",
        "N",
        "With --metrics: number of launches in the inputs before the first one with metrics.",
        least=0,
    )
    execution_trace: str | Path | None = option(
        None,
        "--execution-trace",
        "FILE",
        "An execution trace (PyTorch) of the same run, to attach the arguments of operators to their rows.",
        link="[More](../formats/execution-trace.md#on-a-timeline)",
    )
    explain: str | Sequence[str] = option(
        (),
        "--explain",
        "WHAT,...",
        "Add what explains the trace: idle (gaps of devices by cause), critical-path, phase; memory as counters.",
        more="They are found before a crop or filter, which then treats them like all other rows.",
        link="[More](convert.md#the-gaps-of-devices-on-the-timeline)",
        words="ktrace.pipeline.explain:EXPLANATIONS",
    )
    split_by: str | None = option(
        None,
        "--split-by",
        "WAY",
        "Write numbered parts (run.000.perfetto, ...): time=10s, size=500MB or step.",
        link="[More](convert.md#parts-for-the-viewer)",
        words="ktrace.pipeline.selection:WAYS_TO_SPLIT",
    )
    budget: str | int | None = option(
        None,
        "--budget",
        "N",
        "Make a timeline of about N slices (300k): short ones are merged with their neighbours.",
        more="Each of these says how many they were, how long they were busy, and the top names.",
        link="[More](convert.md#a-timeline-of-any-size)",
    )
    keep_export: bool = option(
        False,
        "--keep-export",
        "",
        "Keep the nsys export next to the report (run.sqlite for run.nsys-rep), or use an existing one.",
        link="[More](../formats/nsys-rep.md)",
    )
    align: Align | None = option(
        None,
        "",
        "",
        "How the clocks of several inputs are aligned.",
        more="By default `merge`, and what makes a timeline of several inputs, use 'auto'; otherwise times stay as "
        "they are.",
    )

    def __post_init__(self) -> None:
        if self.limits is not None:
            object.__setattr__(self, "limits", limits_of(self.limits))
        if isinstance(self.explain, str):
            object.__setattr__(self, "explain", tuple(filter(None, self.explain.split(","))))
        object.__setattr__(self, "explain", tuple(self.explain))
        object.__setattr__(self, "capture", tuple(paths_of(self.capture)))
        if self.map is not None:
            object.__setattr__(self, "from_", mapped_format(self.from_))
        if not isinstance(self.classify, bool):
            raise UsageError("classify is True or False", remedy="name the file of rules with rules=")
        if self.rules is not None:
            object.__setattr__(self, "classify", True)
        if self.budget is not None:
            from ktrace.stages.select.coarsen import budget_of

            object.__setattr__(self, "budget", budget_of(self.budget))
        if self.launch_skip is not None and self.metrics is None:
            raise UsageError("--launch-skip needs --metrics", remedy="leave it out, or name the file of metrics")

    def replace(self, **options: Any) -> Selection:
        """Returns the same selection with some fields replaced."""
        return replace(self, **options)

    def reads_all(self) -> bool:
        """Whether the rows are those of the inputs, none left out and nothing added."""
        return replace(self, map=None, from_=None, jobs=None, keep_export=False, limits=None) == Selection()

    def require_unset(self, command: str, *names: str) -> None:
        """Raises UsageError where a field is set that the command has no use for."""
        for field in fields(self):
            if field.name in names and getattr(self, field.name) != field.default:
                raise UsageError(f"{command} doesn't take {field.name}", remedy="leave it out")

    def fingerprint(self) -> str:
        """Returns 16 hex digits that change whenever another dataset would come of the same input.

        These fields decide: `from_`, `map`, `classify`, the text of `rules`, `repair_clock`, `crop` and `filter`.
        `jobs`, `limits` and `keep_export` change nothing in a dataset; `capture`, `metrics`, `execution_trace`,
        `align`, `explain`, `split_by` and `budget` aren't for datasets.
        """
        rules = self.classify if self.rules is None else Path(self.rules).read_text("utf-8")
        deciding: dict[str, Any] = {
            "from": self.from_,
            "classify": rules,
            "crop": self.crop and asdict(self.crop),
            "filter": self.filter and asdict(self.filter),
        }
        if self.repair_clock:
            deciding["repair_clock"] = True
        if self.map is not None:
            deciding["map"] = mapping_of(self.map).text()
        from hashlib import sha256

        return sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]


def mapped_format(from_: str | None) -> str:
    """Returns the format of inputs with a mapping. Raises UsageError where another one is named."""
    if from_ not in (None, FORMAT):
        raise UsageError(f"--map is for tables of the format {FORMAT}, not {from_}", remedy="leave out --from or --map")
    return FORMAT


class _Common(TypedDict, total=False):
    """Fields of a `Selection` as keywords: those of every function and command that reads inputs."""

    from_: str | None
    map: str | Path | None
    jobs: int | None
    rules: str | Path | None
    crop: Crop | None
    filter: Filter | None
    limits: str | Mapping[str, str | int] | Limits | None


class AskOptions(_Common, total=False):
    """Keywords of functions that answer questions."""

    capture: str | Path | Sequence[str | Path]
    repair_clock: bool


class ReadOptions(_Common, total=False):
    """Keywords of functions that write rows; answers label the rows that they need by themselves."""

    classify: bool


class BatchOptions(ReadOptions, total=False):
    """Keywords of functions that make datasets."""

    repair_clock: bool


class Unaligned(BatchOptions, total=False):
    """All fields but `align`, for functions that have an `align` of their own."""

    capture: str | Path | Sequence[str | Path]
    metrics: str | Path | None
    launch_skip: int | None
    execution_trace: str | Path | None
    explain: str | Sequence[str]
    split_by: str | None
    budget: str | int | None
    keep_export: bool


class Options(Unaligned, total=False):
    """All fields of a `Selection` as keywords."""

    align: Align | None


def selected(selection: Selection | None, options: AskOptions | ReadOptions) -> Selection:
    """Returns the selection with the keywords that a caller gave in place of its fields.

    Raises TypeError for a keyword that isn't a field, as a call with a wrong keyword does.
    """
    return replace(selection or Selection(), **options)


#: The least bytes of an input that is looked for in the cache.
CACHE_MIN_BYTES = 16 << 20


def cached_batches(
    paths: Sequence[str], selection: Selection, report: Report, columns: frozenset[str] | None
) -> Iterator[Batch] | None:
    """The batches of a large input that was viewed before, from the cache; None for other inputs."""
    if len(paths) != 1 or selection.keep_export or selection.capture or selection.limits is not None:
        return None
    if not Path(paths[0]).is_file() or Path(paths[0]).stat().st_size < CACHE_MIN_BYTES:
        return None
    from ktrace.analysis.questions.overview.cache import found, has_cache

    if not has_cache():
        return None
    key = key_of(paths, Selection(from_=selection.from_, map=selection.map))
    kept = found(key, all_rows=True) if key else None
    if kept is None or not kept.is_as_read:
        return None
    account = kept.report()
    report.merge(account)
    report.inputs += account.inputs
    report.rows.update(account.rows)
    report.timed |= account.timed
    return kept.batches(columns=columns)


def key_of(paths: Sequence[str], selection: Selection) -> str | None:
    """The key of a trace in the cache; None for what takes more from other files than the inputs."""
    if selection.capture or selection.metrics or selection.execution_trace:
        return None
    from ktrace.analysis.questions.overview import cache

    chosen = (selection.fingerprint(), selection.explain, repr(selection.align), selection.keep_export)
    return cache.key_of(paths, selection.from_, chosen)
