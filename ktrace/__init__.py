"""ktrace: any GPU or accelerator profile in; a timeline, a table or an answer out.

import ktrace
ktrace.convert("run.log", "run.perfetto")   # to open in ui.perfetto.dev
trace = ktrace.read("run.log")
trace.summaries                             # a pandas DataFrame
"""

import sys

# `python -m ktrace` would search the current folder first, where modules may lie beside the traces of somebody else.
_is_program = sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith("ktrace")
if _is_program and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

if TYPE_CHECKING:
    from ktrace.analysis.answers.diff.comparison import Change as Change
    from ktrace.analysis.answers.diff.comparison import Diff as Diff
    from ktrace.analysis.answers.diff.sides import compare
    from ktrace.analysis.answers.query import query as query
    from ktrace.analysis.answers.summary.compute import summarise
    from ktrace.analysis.answers.summary.summary import Summary as Summary
    from ktrace.errors import AmbiguousFormat as AmbiguousFormat
    from ktrace.errors import ClosedFormat as ClosedFormat
    from ktrace.errors import DamagedInput as DamagedInput
    from ktrace.errors import InputError as InputError
    from ktrace.errors import InternalError as InternalError
    from ktrace.errors import KtraceError as KtraceError
    from ktrace.errors import OutputError as OutputError
    from ktrace.errors import StrictFailure as StrictFailure
    from ktrace.errors import UnknownFormat as UnknownFormat
    from ktrace.errors import UsageError as UsageError
    from ktrace.errors import VersionError as VersionError
    from ktrace.fleet.batch import BatchReport as BatchReport
    from ktrace.fleet.batch import batch as batch
    from ktrace.input.detection import detect as detect
    from ktrace.input.format import Format as Format
    from ktrace.input.format import Match as Match
    from ktrace.input.format import Score as Score
    from ktrace.input.format import all_formats
    from ktrace.model.batch import Batch as Batch
    from ktrace.naming.taxonomy import Labels as Labels
    from ktrace.naming.taxonomy import classify as classify
    from ktrace.pipeline.convert import convert as convert
    from ktrace.pipeline.convert import merge as merge
    from ktrace.pipeline.info import Info as Info
    from ktrace.pipeline.info import inspect as inspect
    from ktrace.pipeline.read import open_batches as open_batches
    from ktrace.pipeline.selection import Selection as Selection
    from ktrace.pipeline.validate import Validation as Validation
    from ktrace.pipeline.validate import validate as validate
    from ktrace.report import Report as Report
    from ktrace.stages.align import Align as Align
    from ktrace.stages.select.wanted import Crop as Crop
    from ktrace.stages.select.wanted import Filter as Filter
    from ktrace.trace import read as read
    from ktrace.trace.trace import Trace as Trace
    from ktrace.viewer import view as view

    diff, formats, summary = compare, all_formats, summarise

__version__ = "0.3.0"

#: Public name -> the module that has it, with the name there if that is another one.
_HOME = {
    "diff": "ktrace.analysis.answers.diff.sides:compare",
    "formats": "ktrace.input.format:all_formats",
    "summary": "ktrace.analysis.answers.summary.compute:summarise",
    **dict.fromkeys(("Change", "Diff"), "ktrace.analysis.answers.diff.comparison"),
    "query": "ktrace.analysis.answers.query",
    "Summary": "ktrace.analysis.answers.summary.summary",
    **dict.fromkeys(
        (
            "AmbiguousFormat",
            "ClosedFormat",
            "DamagedInput",
            "InputError",
            "InternalError",
            "KtraceError",
            "OutputError",
            "StrictFailure",
            "UnknownFormat",
            "UsageError",
            "VersionError",
        ),
        "ktrace.errors",
    ),
    **dict.fromkeys(("BatchReport", "batch"), "ktrace.fleet.batch"),
    "detect": "ktrace.input.detection",
    **dict.fromkeys(("Format", "Match", "Score"), "ktrace.input.format"),
    "Batch": "ktrace.model.batch",
    **dict.fromkeys(("Labels", "classify"), "ktrace.naming.taxonomy"),
    **dict.fromkeys(("convert", "merge"), "ktrace.pipeline.convert"),
    **dict.fromkeys(("Info", "inspect"), "ktrace.pipeline.info"),
    "open_batches": "ktrace.pipeline.read",
    "Selection": "ktrace.pipeline.selection",
    **dict.fromkeys(("Validation", "validate"), "ktrace.pipeline.validate"),
    "Report": "ktrace.report",
    "Align": "ktrace.stages.align",
    **dict.fromkeys(("Crop", "Filter"), "ktrace.stages.select.wanted"),
    "read": "ktrace.trace",
    "Trace": "ktrace.trace.trace",
    "view": "ktrace.viewer",
}

__all__ = sorted(_HOME)  # noqa: PLE0605 (mypy takes the imports above)


def __getattr__(name: str) -> Any:
    """The public names, each imported when it is first used: `import ktrace` alone costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'ktrace' has no attribute '{name}'")
    module, _, attribute = _HOME[name].partition(":")
    value = getattr(import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
