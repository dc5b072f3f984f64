"""The files of a folder of Ascend's profiler. The same run is in several forms; one of them is read.

ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_0.db     all of it: read if it is there
ASCEND_PROFILER_OUTPUT/trace_view.json                  without shapes and counters: read if there is no database
ASCEND_PROFILER_OUTPUT/kernel_details.csv, ...          tables: read if there is no timeline
PROF_000001_.../mindstudio_profiler_output/             msprof's own files of the same run
OPPROF_.../OpBasicInfo.csv, PipeUtilization.csv, ...    tables of msprof op: one kernel, a profile of its own

The files that a reader opens of a folder; the others are reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePath

import msgspec

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, InputError
from ktrace.input.boundary import input_faults
from ktrace.input.source import Source, file_in

DB, JSON, CSV, OP = "db", "json", "csv", "op"

_STAMP = r"(?:_slice)?(?:_\d{1,20}){0,4}"
_PACKED = r"(?:\.gz|\.zst)?"
# Compiled by `re` at the first use: these patterns take 5 ms, and most inputs are no folders.
_DATABASE = r"(?:ascend_(?:pytorch|mindspore)_profiler(?:_\d{1,9})?|msprof_\d{1,20})\.db"
_TIMELINE = rf"(?:trace_view|msprof{_STAMP})\.json{_PACKED}"

#: Tables by the stem of their file; those that repeat rows of another one are below.
_TABLES = (
    rf"(?P<table>kernel_details|op_summary|task_time|op_statistic|communication_statistic|api_statistic|step_trace_time"
    rf"|step_trace|(?:ge_)?memory_record|(?:ge_)?operator_memory|npu_module_mem|npu_mem|operator_details|msprof_tx|aicpu"
    rf"|l2_cache){_STAMP}\.csv{_PACKED}"
)

#: Tables of msprof op: those of one folder, with one stamp, are about one kernel.
_OF_OPERATOR = (
    r"(?P<table>OpBasicInfo|ArithmeticUtilization|PipeUtilization|ResourceConflictRatio|L2Cache|Memory(?:L0|UB)?)"
    r"(?:_\d{1,20})?\.csv"
)

#: Table -> those that have the same operations with more about them.
_REPEATS = {
    "op_summary": ("kernel_details",),
    "task_time": ("kernel_details",),
    "op_statistic": ("kernel_details", "op_summary", "task_time"),
    "communication_statistic": ("kernel_details", "op_summary"),
    "aicpu": ("kernel_details", "op_summary", "task_time"),
    "ge_memory_record": ("memory_record",),
    "ge_operator_memory": ("operator_memory",),
}

#: Other files of a run: raw data, logs, settings, forms that aren't read.
_OTHER = (
    r"(?s)(?:.*/)?(?:FRAMEWORK|logs|PROF_\d+_\w+|host|device_\d+|data|analyze|sqlite|mindstudio_profiler_log)/.+"
    r"|(?:.*/)?(?:profiler_(?:info|metadata)\w*\.json|communication(?:_matrix)?\.json|analysis\.db|analyse\.done|\w+\.csv"
    r"|communication_analyzer\.db|(?:task_time|step_trace|hccl|msprof_tx|api_statistic)\w*\.json|README\.txt"
    r"|dump/.+|visualize_data\.bin|op_basic_info\.txt)"
)
_MOST_LEVELS = 4

_NOT_OURS = "not a file of Ascend's profiler"


class Files(msgspec.Struct, frozen=True):
    """What is read of a folder, a database, a timeline or tables, and the other files of the same run."""

    what: str
    read: tuple[str, ...]
    same_run: tuple[str, ...]
    strange: tuple[str, ...]


def chosen(listing: Iterable[str]) -> Files | None:
    """Returns the files of one profile in a folder; None for a folder with other content, or several profiles.

    There must be one database, else one timeline, else tables in one folder, at the level closest to the top; or
    tables of msprof op alone, of any number of kernels.
    """
    paths = sorted(listing, key=lambda path: (path.count("/"), path))
    by_kind: dict[str, list[str]] = {DB: [], JSON: [], CSV: [], OP: []}
    for path in paths:
        if path.count("/") <= _MOST_LEVELS and (what := form_of(path)):
            by_kind[what].append(path)
    count = sum(map(len, by_kind.values()))
    strange = [path for path in paths if form_of(path) is None and not re.fullmatch(_OTHER, path)]
    if not count or len(strange) > count // 2 or not _is_profile(by_kind):
        return None
    what, files = next(form for form in by_kind.items() if form[1])
    read = files if what == OP else _nearest(files)
    several = len({path.rpartition("/")[0] for path in read}) > 1
    if what != OP and (several or (what != CSV and len(read) > 1)):
        return None  # several profiles, or parts of one: each is an input of its own
    read = _tables(read) if what == CSV else read
    strange += [path for path in by_kind[OP] if what != OP]
    same = tuple(path for path in paths if path not in read and path not in strange)
    return Files(what, tuple(read), same, tuple(strange))


def form_of(path: str) -> str | None:
    """Returns which form of a run a file is, None for another file."""
    name = path.rsplit("/", 1)[-1]
    if re.fullmatch(_DATABASE, name):
        return DB
    if re.fullmatch(_TIMELINE, name):
        return JSON
    if re.fullmatch(_OF_OPERATOR, name):
        return OP
    return CSV if re.fullmatch(_TABLES, name) else None


def operator_run(path: str) -> str:
    """Returns what the files of one run of msprof op have in common: their folder, and what follows their table."""
    folder, _, name = path.rpartition("/")
    match = re.fullmatch(_OF_OPERATOR, name)
    return f"{folder}/{name.removeprefix(match['table']).removesuffix('.csv')}" if match else path


def _is_profile(files: dict[str, list[str]]) -> bool:
    """Whether at least one name is only Ascend's: `task_time_1.csv` alone may come from another tool."""
    sure = (
        "kernel_details",
        "op_summary",
        "op_statistic",
        "step_trace_time",
        "operator_details",
        "npu_m",
        "operator_mem",
    )
    unsure = ("L2Cache", "Memory.", "Memory_")
    tables = [path.rsplit("/", 1)[-1] for path in files[CSV]]
    names = [path.rsplit("/", 1)[-1] for path in files[JSON]]
    of_operator = [path.rsplit("/", 1)[-1] for path in files[OP]]
    return (
        bool(files[DB])
        or any(name.startswith(sure) for name in tables)
        or any("trace_view" in name for name in names)
        or not all(name.startswith(unsure) for name in of_operator)
    )


def _nearest(files: list[str]) -> list[str]:
    """The files at the level of the first one."""
    return [path for path in files if path.count("/") == files[0].count("/")]


def _tables(files: list[str]) -> list[str]:
    """The files of tables without those that repeat another one's rows."""
    kinds = {path: match["table"] for path in files if (match := re.fullmatch(_TABLES, path.rsplit("/", 1)[-1]))}
    there = set(kinds.values())
    return [path for path in files if there.isdisjoint(_REPEATS.get(kinds[path], ()))]


def own_files(folder: Source, what: str, conversion: Conversion, *others: str) -> list[tuple[str, Source]]:
    """Returns path and source of each file to read, and reports those that repeat them, and other files.

    Raises DamagedInput for a folder without one profile in the form `what`, or in one of `others`.
    """
    files = chosen(folder.sample().listing or ())
    if files is None or files.what not in (what, *others):
        raise DamagedInput(
            f"is no folder of one profile in the form {what}",
            path=folder.path,
            expected="ASCEND_PROFILER_OUTPUT, mindstudio_profiler_output or OPPROF_*",
            remedy="name the file, or leave out --from",
        )
    report = conversion.report
    for path in files.same_run:
        report.record()
        report.used(outcome="same-run")
        report.issue("same-run", path)
    for path in files.strange:
        report.record()
        other = "tables of msprof op, a profile of their own: name them" if form_of(path) == OP else _NOT_OURS
        report.issue("unrecognised", path, other)
    return [(path, file_in(folder, path)) for path in files.read]


@contextmanager
def own_file(folder: Source, what: str, conversion: Conversion) -> Iterator[Source]:
    """Provides the only file to read of a source, which may be a folder. An error names the run's other forms.

    Raises DamagedInput as `own_files` does.
    """
    if not folder.is_folder:
        yield folder
        return
    ((path, file),) = own_files(folder, what, conversion)
    others = sorted((other for other in folder.sample().listing or () if other != path and form_of(other)), key=len)
    try:
        with input_faults(file.path, None, conversion.report):
            yield file
    except InputError as error:
        if others:
            other = f"name another form of the run, such as {PurePath(folder.path) / others[0]}"
            error.remedy = f"{error.remedy}; or {other}" if error.remedy else other
        raise
