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
    from ktrace.analysis.answers.diff import Change
    from ktrace.analysis.answers.diff.comparison import Diff
    from ktrace.analysis.answers.diff.sides import compare as diff
    from ktrace.analysis.answers.query import query
    from ktrace.analysis.answers.summary.compute import summarise as summary
    from ktrace.analysis.answers.summary.summary import Summary
    from ktrace.analysis.answers.whatif import WhatIf, whatif
    from ktrace.analysis.answers.whatif.changes import Changes
    from ktrace.errors import (
        AmbiguousFormat,
        ClosedFormat,
        DamagedInput,
        InputError,
        InternalError,
        KtraceError,
        OutputError,
        StrictFailure,
        UnknownFormat,
        UsageError,
        VersionError,
    )
    from ktrace.fleet.batch import BatchReport, batch
    from ktrace.input.detection import detect
    from ktrace.input.format import Format, Match, Score
    from ktrace.input.format import all_formats as formats
    from ktrace.model.batch import Batch
    from ktrace.naming.taxonomy import Labels, classify
    from ktrace.pipeline.convert import convert, merge
    from ktrace.pipeline.info import Info, inspect
    from ktrace.pipeline.read import open_batches
    from ktrace.pipeline.selection import Selection
    from ktrace.pipeline.validate import Validation, validate
    from ktrace.report import Report
    from ktrace.stages.align import Align
    from ktrace.stages.select.wanted import Crop, Filter
    from ktrace.trace import read
    from ktrace.trace.trace import Trace
    from ktrace.viewer import view
    from ktrace.viewer.share import Shared, share

__version__ = "0.3.0"

#: Public name -> the module that has it, with the name there if that is another one.
_HOME = {
    "diff": "ktrace.analysis.answers.diff.sides:compare",
    "formats": "ktrace.input.format:all_formats",
    "summary": "ktrace.analysis.answers.summary.compute:summarise",
    "Change": "ktrace.analysis.answers.diff",
    "Diff": "ktrace.analysis.answers.diff.comparison",
    "query": "ktrace.analysis.answers.query",
    "Summary": "ktrace.analysis.answers.summary.summary",
    **dict.fromkeys(("WhatIf", "whatif"), "ktrace.analysis.answers.whatif"),
    "Changes": "ktrace.analysis.answers.whatif.changes",
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
    **dict.fromkeys(("Shared", "share"), "ktrace.viewer.share"),
}

__all__ = [
    "Align",
    "AmbiguousFormat",
    "Batch",
    "BatchReport",
    "Change",
    "Changes",
    "ClosedFormat",
    "Crop",
    "DamagedInput",
    "Diff",
    "Filter",
    "Format",
    "Info",
    "InputError",
    "InternalError",
    "KtraceError",
    "Labels",
    "Match",
    "OutputError",
    "Report",
    "Score",
    "Selection",
    "Shared",
    "StrictFailure",
    "Summary",
    "Trace",
    "UnknownFormat",
    "UsageError",
    "Validation",
    "VersionError",
    "WhatIf",
    "batch",
    "classify",
    "convert",
    "detect",
    "diff",
    "formats",
    "inspect",
    "merge",
    "open_batches",
    "query",
    "read",
    "share",
    "summary",
    "validate",
    "view",
    "whatif",
]


#: What other libraries call a function, and commands that have another name here -> the function.
_CALLED = {
    "info": "inspect",
    "summarise": "summary",
    "summarize": "summary",
    "compare": "diff",
    "what_if": "whatif",
    **dict.fromkeys(("load", "open", "read_trace", "Read"), "read"),
}


def __getattr__(name: str) -> Any:
    """The public names, each imported when it is first used: `import ktrace` alone costs nothing."""
    if name not in _HOME:
        meant = f". Did you mean: '{_CALLED[name]}'?" if name in _CALLED else ""
        raise AttributeError(f"module 'ktrace' has no attribute '{name}'{meant}")
    module, _, attribute = _HOME[name].partition(":")
    value = getattr(import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
