"""What every command that reads inputs has in common: which rows are wanted, and what is added to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ktrace.errors import UsageError
from ktrace.input.limits import Limits, limits_of
from ktrace.input.mapping import FORMAT, mapping_of

if TYPE_CHECKING:
    from ktrace.stages.align import Align
    from ktrace.stages.select.crop_bounds import Crop
    from ktrace.stages.select.filter import Filter


@dataclass(frozen=True)
class Selection:
    """Which rows of the inputs are wanted, and what is added to them.

    All functions that read inputs (`convert`, `merge`, `summarise`, `compare`, `batch`, `ktrace.viewer.served`) take
    one as `selection`, and its fields as keywords of their own; a keyword overrides the field.

    Parameters
    ----------
    from_ : str, optional
        Format of the inputs. By default it is detected from the content of each.
    map : str or Path, optional
        Which columns of a table (CSV, TSV, JSON Lines) are which fields: "name=Kernel,start=t0:us,dur=dt:us", or a TOML
        file with that. The format of the inputs is then "mapped".
    jobs : int, optional
        Number of processes that may work, by default as many as there are cores.
    classify : bool
        Label device work with operation, library, precision, layer and short name where the source doesn't.
    rules : str or Path, optional
        A file of rules for these labels that come before those of ktrace; it includes `classify`.
    crop : Crop, optional
        The part of the time to keep.
    filter : Filter, optional
        The rows to keep, by kind, name, device and more.
    metrics : str or Path, optional
        A table of launches, such as a report of Nsight Compute. Its metrics become counters of the same kernels.
    launch_skip : int, optional
        Number of launches in the inputs before the first one that has metrics, where not all have.
    execution_trace : str or Path, optional
        An execution trace of PyTorch, recorded in the same run. The arguments of its operators are added to their rows.
    align : Align, optional
        How times of several inputs come into one clock. By default `merge`, and what makes a timeline of several
        inputs, use "auto"; otherwise times stay as they are.
    explain : str or sequence of str
        What to add to the trace as slices of its own: "idle", why devices are idle. Its rows are found before a crop or
        filter, which then treats them like all others.
    split_by : str, optional
        Write numbered parts (run.000.perfetto, ...) of a duration ("time=10s"), a size ("size=500MB") or one step each
        ("step").
    keep_export : bool
        Keep what a vendor's program exports from a report next to it (run.sqlite for run.nsys-rep), or use the export
        that is there.
    limits : str or mapping, optional
        Limits of what an input may contain that differ from the defaults: "line=1GiB,ratio=none", or a dict of them
        (`ktrace.input.limits`). They end the conversion with an error, and change nothing in what is read.

    Examples
    --------
    >>> from ktrace import Filter, Selection
    >>> only_gemm = Selection(filter=Filter(names=["*gemm*"]), jobs=1)
    >>> only_gemm.replace(jobs=2).jobs
    2
    """

    from_: str | None = None
    jobs: int | None = None
    classify: bool = False
    crop: Crop | None = None
    filter: Filter | None = None
    metrics: str | Path | None = None
    launch_skip: int | None = None
    execution_trace: str | Path | None = None
    align: Align | None = None
    explain: str | Sequence[str] = ()
    split_by: str | None = None
    keep_export: bool = False
    map: str | Path | None = None
    rules: str | Path | None = None
    limits: str | Mapping[str, str | int] | Limits | None = None

    def __post_init__(self) -> None:
        if self.limits is not None:
            object.__setattr__(self, "limits", limits_of(self.limits))
        if isinstance(self.explain, str):
            object.__setattr__(self, "explain", tuple(filter(None, self.explain.split(","))))
        object.__setattr__(self, "explain", tuple(self.explain))
        if self.map is not None:
            object.__setattr__(self, "from_", mapped_format(self.from_))
        if not isinstance(self.classify, bool):
            raise UsageError("classify is True or False", remedy="name the file of rules with rules=")
        if self.rules is not None:
            object.__setattr__(self, "classify", True)
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

        These fields decide: `from_`, `map`, `classify`, the text of `rules`, `crop` and `filter`. `jobs`, `limits` and
        `keep_export` change nothing in a dataset; `metrics`, `execution_trace`, `align`, `explain` and `split_by`
        aren't for datasets.
        """
        rules = self.classify if self.rules is None else Path(self.rules).read_text("utf-8")
        deciding: dict[str, Any] = {
            "from": self.from_,
            "classify": rules,
            "crop": self.crop and asdict(self.crop),
            "filter": self.filter and asdict(self.filter),
        }
        if self.map is not None:
            deciding["map"] = mapping_of(self.map).text()
        return sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]


def mapped_format(from_: str | None) -> str:
    """Returns the format of inputs with a mapping. Raises UsageError where another one is named."""
    if from_ not in (None, FORMAT):
        raise UsageError(f"--map is for tables of the format {FORMAT}, not {from_}", remedy="leave out --from or --map")
    return FORMAT


class Reading(TypedDict, total=False):
    """Fields of a `Selection` as keywords: those that every function takes."""

    from_: str | None
    map: str | Path | None
    jobs: int | None
    classify: bool
    rules: str | Path | None
    crop: Crop | None
    filter: Filter | None
    limits: str | Mapping[str, str | int] | Limits | None


class Unaligned(Reading, total=False):
    """All fields but `align`, for functions that have an `align` of their own."""

    metrics: str | Path | None
    launch_skip: int | None
    execution_trace: str | Path | None
    explain: str | Sequence[str]
    split_by: str | None
    keep_export: bool


class Options(Unaligned, total=False):
    """All fields of a `Selection` as keywords."""

    align: Align | None


def selected(selection: Selection | None, options: Reading) -> Selection:
    """Returns the selection with the keywords that a caller gave in place of its fields.

    Raises TypeError for a keyword that isn't a field, as a call with a wrong keyword does.
    """
    return replace(selection or Selection(), **options)
