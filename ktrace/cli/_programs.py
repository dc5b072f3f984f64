"""How commands answer programs: JSON on standard output; errors, warnings and notes as lines of JSON on standard error.

{"error": {"kind": "unknown_format", "message": "...", "file": "x.bin", "place": null, "expected": "...",
           "remedy": "...", "exit_code": 1}}
{"warning": {"message": "...", "kind": "cut", ...}}     {"note": {"message": "..."}}
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import click

from ktrace.errors import InternalError, KtraceError, UsageError

#: The variable that decides before any option is parsed: json or text.
ERRORS = "KTRACE_ERRORS"

json_option = click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or for programs (docs/programs.md).",
)


def json_errors_enabled() -> bool:
    """Whether errors and notes are JSON: as KTRACE_ERRORS says, else if the command line asks for --format json."""
    if stated := os.environ.get(ERRORS):
        return stated == "json"
    words = sys.argv[1:]
    return "--format=json" in words or ("--format", "json") in pairwise(words)


def check_account(format_: str, output: str) -> None:
    """Raises UsageError if the account and the output would both go to standard output."""
    if format_ == "json" and output == "-":
        raise UsageError(
            "--format json writes to standard output, as the output itself does", remedy="-o FILE, or --report R.json"
        )


def note_line(line: str, facts: Mapping[str, object]) -> str:
    """A warning or a note as a line of JSON, '' for an empty one."""
    warning = line.startswith("warning: ") or facts.get("severity") in ("skip", "cut")
    entry = {"message": line.removeprefix("warning: ").strip(), **facts}
    return _as_line({"warning" if warning else "note": entry}) if entry["message"] else ""


#: What Python and its libraries say without memory for a thread, an object or a library.
_SCARCE = ("can't start new thread", "error return without exception set", "failed to map segment", "allocate memory")


def to_ktrace_error(error: BaseException) -> tuple[str, KtraceError]:
    """What went wrong as an error of ktrace, and its kind; the messages for what others raise."""
    if isinstance(error, KtraceError):
        return error.kind, error
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return "interrupted", KtraceError("interrupted; no unfinished output is left behind")
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "ktrace"
        return "usage", KtraceError(error.format_message(), remedy=f"{command} --help")
    if isinstance(error, click.ClickException):
        return "system", KtraceError(error.format_message())
    if isinstance(error, OSError) and error.strerror:
        name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else None
        return "system", KtraceError(error.strerror, path=name)
    if isinstance(error, MemoryError) or any(words in str(error) for words in _SCARCE):
        what = "out of memory: the system or a limit (ulimit) gives this process no more"
        return "memory", KtraceError(what, remedy="--jobs 1")
    bug = "this is a bug in ktrace: please report it with the output of --debug"
    return "internal", InternalError(f"{type(error).__name__}: {error}\n  {bug}")


def error_line(error: BaseException, code: int) -> str:
    """The error as a line of JSON."""
    kind, translated = to_ktrace_error(error)
    line: dict[str, Any] = translated.document() | {"kind": kind, "exit_code": code}
    return _as_line({"error": line})


def _as_line(document: dict[str, Any]) -> str:
    from ktrace.tables.text import json_text  # most commands have nothing to say

    return json_text(document)
