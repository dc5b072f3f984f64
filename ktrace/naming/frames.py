"""Frames of stacks as text, and which frame of a stack stands for it: one that people can change.

    train (/app/train.py:7)                                     the program
    forward (/app/model.py:41)                                  the program: the owner
    linear (/env/lib/python3.11/site-packages/torch/nn/functional.py:12)     installed
    _PyEval_EvalFrameDefault (??:0)                             no file: the interpreter, the allocator, the unwinder
    torch::unwind::unwind() (??:0)

PyTorch's stacks="all", its default, has frames of C++ within those of Python, most without a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: The file of a frame: in parentheses at its end, or all of it, with a line. Parameters of C++ follow a name at once.
_FILE = re.compile(
    r" \((?P<file>[^()]*?):\d+\)$| \((?P<whole>[^()./\\]*[./\\][^()]*)\)$|^(?P<plain>[^\s()]+\.\w+):\d+$"
)

#: Files that tools write where they know none; Python names what it made itself <string>, <frozen ...>.
_NO_FILE = re.compile(r"\??\??$|<")

#: Files of Python's packages and of its library.
_INSTALLED = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|"
    r"[/\\]torch[/\\](?:_|autograd|cuda|distributed|fx|nn|optim|utils)",
)

#: Files of the sources of PyTorch, Python and the libraries of C and C++.
_BUILT = re.compile(
    r"(?:^|[/\\])(?:c10|aten|torch[/\\]csrc|csu|nptl|sysdeps|pybind11|include[/\\]c\+\+|bits)[/\\]|"
    r"(?:^|[/\\])(?:Python|Objects|Modules|Include)[/\\]\w+\.[ch]$"
)

#: Functions of these, with or without a file.
_ONLY_NAMED = re.compile(r"torch::|c10::|at::|pybind11::|std::|_*Py[A-Z_]|_start$|__libc|(?:__)?clone|start_thread")


def owner_of(frames: Sequence[str]) -> str:
    """The frame that stands for a stack, whose outermost frame is the first; "" where no frame can.

    It is the innermost one with a file of the program, else with an installed file of Python, else with any file, else
    the innermost one whose name isn't that of the interpreter, an allocator or an unwinder.
    """
    ranks = [_rank(frame) for frame in frames]
    best = min(ranks, default=_NONE)
    return "" if best == _NONE else frames[len(ranks) - 1 - ranks[::-1].index(best)]


_PROGRAM, _PYTHON, _ANY, _NAME, _NONE = range(5)


def _rank(frame: str) -> int:
    """How well a frame stands for its stack, the best first."""
    match = _FILE.search(frame)
    if match is None:
        return _NONE if _ONLY_NAMED.match(frame) else _NAME
    file = next(one for one in match.groups() if one is not None)
    if _NO_FILE.match(file):
        return _NONE
    if _INSTALLED.search(file):
        return _PYTHON if file.endswith(".py") else _ANY
    is_built = _BUILT.search(file) or (not file.endswith(".py") and _ONLY_NAMED.match(frame))
    return _ANY if is_built else _PROGRAM
