"""Finds the planes and lines in the metadata at the beginning of the document."""

from __future__ import annotations

import re

from ktrace.input.source import Source
from ktrace.kit.xla.lines import Placed, placed
from ktrace.model.fitting import whole_text
from ktrace.model.json_text import load_json

_NAMED = re.compile(
    rb'"ph"\s*:\s*"M"\s*,\s*"pid"\s*:\s*(?P<pid>\d{1,18})\s*,(?:\s*"tid"\s*:\s*(?P<tid>\d{1,18})\s*,)?\s*"name"\s*:\s*'
    rb'"(?:process|thread)_name"\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*(?P<name>"(?:[^"\\]|\\.){0,4000}")'
)

#: The first bytes, which contain the names.
_HEAD = 1 << 22

#: (pid, tid) -> what the line is.
Lines = dict[tuple[int, int], Placed]


def lines_of(source: Source) -> Lines:
    """Returns what each thread is."""
    with source.open(quiet=True) as stream:
        head = stream.read(_HEAD)
    planes: dict[int, str] = {}
    names: dict[int, list[tuple[int, str]]] = {}
    for found in _NAMED.finditer(head):
        name = _text(found["name"])
        if found["tid"] is None:
            planes[int(found["pid"])] = name
        else:
            names.setdefault(int(found["pid"]), []).append((int(found["tid"]), name))
    return {
        (pid, tid): place
        for pid, lines in names.items()
        for (tid, _), place in zip(lines, placed(planes.get(pid, ""), lines), strict=True)
    }


def _text(literal: bytes) -> str:
    try:
        return str(whole_text(str(load_json(literal))))
    except ValueError:
        return literal.decode("utf-8", "replace")
