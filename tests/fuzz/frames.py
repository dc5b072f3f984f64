"""Where in ktrace an exception came from."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable

from .samples import ROOT

_OURS = ("ktrace/", "converters/", "schema/", "proto/")


def inside(file: str) -> str:
    """Returns the path of a module of ktrace relative to the repository, or nothing if it is another one."""
    path = os.path.relpath(os.path.realpath(file), ROOT)
    return path if path.startswith(_OURS) else ""


def place(frames: Iterable[tuple[str, int, str]]) -> str:
    """Returns the innermost frame of ktrace as `file:line function`; the frames begin with the innermost one."""
    return next((f"{path}:{line} {name}" for file, line, name in frames if (path := inside(file))), "")


def frames_of(error: BaseException) -> list[tuple[str, int, str]]:
    """Returns file, line and function of the frames of an exception, the innermost first."""
    found = traceback.extract_tb(error.__traceback__)
    return [(frame.filename, frame.lineno or 0, frame.name) for frame in reversed(found)]


def cause_at_boundary(error: BaseException) -> BaseException | None:
    """Returns what a reader raised if the boundary of readers made this error of it."""
    cause = error.__cause__
    raised = frames_of(error)
    return cause if cause is not None and raised and inside(raised[0][0]) == "ktrace/input/boundary.py" else None
