"""The text that `ncu` prints: processes, launches, sections with their tables, advice of the rules."""

from __future__ import annotations

import re
from typing import Any

from .._shared.lines import Lines
from .._shared.ncu.launches import Launches
from .._shared.ncu.units import is_unit
from .marks import METRICS, SECTION, is_placed, launch_line, unprefixed
from .nvtx import level
from .pages import tell

_PROCESS = re.compile(r"\s*\[(\d{1,18})\] (\S.*)@(\S+)\s*")
_RULER = re.compile(r"\s*-{3,}(?: +-{3,})+\s*")
_RUN = re.compile(r"-{3,}")
_ADVICE = re.compile(r"\s*(INF|WRN|OPT|ERR|MSG|OK)\s{2,}(\S.*?)\s*")
_SPEEDUP = re.compile(r"Est(?:\.|imated) (?:(Local|Global) )?Speedup: ([\d.,]+)%\s*(.*)", re.DOTALL)
_FIGURE = re.compile(r"[-+]?[\d.,]+|(?:\(!\) )?n/a")
_NVTX = re.compile(r"\s*NVTX .*")

#: What a launch is called of which a text has the sections alone.
_UNNAMED = "unnamed kernel"

_COLUMNS = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "context", "stream", "device", "count")


class Listing:
    """Takes the lines of a text one after the other, and remembers where it is."""

    def __init__(self, lines: Lines, launches: Launches) -> None:
        self._lines, self._launches = lines, launches
        self._process: dict[str, Any] = {}
        self._name = ""  # of the process
        self._head: dict[str, Any] | None = None  # a launch of which nothing but its line was read
        self.leave()

    def leave(self) -> None:
        """What follows belongs to no launch."""
        self._started()
        self._inside = False
        self._section = ""
        self._table: _Table | None = None
        self._nvtx = False
        self._unnamed: set[str] | None = None  # the sections so far of a launch without a line of its own

    def line(self, text: str) -> bool:
        """Takes a line, and says what became of it. False where it is none of ncu's."""
        text = unprefixed(text)
        if found := _PROCESS.fullmatch(text):
            self.leave()
            self._process, self._name = {"pid": int(found[1]), "host": found[3]}, found[2]
            self._lines.went("catalog")
        elif head := self._launch(text):
            self.leave()
            self._inside, self._head = True, head
            self._lines.used()
        elif self._inside and not text.strip():
            self._table = None
            self._nvtx = False
            self._lines.structure()
        elif self._begins_unnamed(text):
            self.leave()
            self._inside, self._head = True, {"name": _UNNAMED, **self._process, "args": {}}
            self._unnamed = set()
            return self._within(text)
        elif self._inside:
            return self._within(text)
        else:
            return False
        return True

    def _begins_unnamed(self, text: str) -> bool:
        """Whether a line is the first section of a launch of which the line before isn't there, as quotations have it.

        A table follows it, or one like it has come before.
        """
        found = SECTION.fullmatch(text)
        if not found or (self._inside and self._unnamed is None):
            return False
        if self._unnamed is not None:
            return found[1] in self._unnamed
        ruler, headings = (unprefixed(self._lines.peek(ahead) or "") for ahead in (1, 2))
        return bool(_RULER.fullmatch(ruler) and METRICS.fullmatch(headings))

    def _within(self, text: str) -> bool:
        """A line below that of a launch."""
        if found := SECTION.fullmatch(text):
            self._section, self._table, self._nvtx = found[1], None, False
            if self._unnamed is not None:
                self._unnamed.add(found[1])
            self._lines.structure()
        elif _RULER.fullmatch(text):
            self._ruler(text)
            self._lines.structure()
        elif found := METRICS.fullmatch(text):
            self._table = self._table or _Table([])
            self._table.headed, self._table.several = True, "Minimum" in text
            self._lines.structure()
        elif found := _ADVICE.fullmatch(text):
            self._advice(found[1], found[2])
        elif self._table is not None:
            return self._figure(text)
        elif self._head is not None and (self._nvtx or _NVTX.fullmatch(text)):
            self._range(text)
        else:
            return self._loose_figure(text)
        return True

    def _launch(self, text: str) -> dict[str, Any] | None:
        """The launch that a line begins: it says its context or device, or a section follows it."""
        found = launch_line(text)
        if not found:
            return None
        if not is_placed(found) and not self._section_follows():
            return None
        said = found.groupdict()
        head: dict[str, Any] = {column: int(said[column]) for column in _COLUMNS if said[column]}
        args = {"CC": said["cc"], "Kernel Time": said["time"]}
        for part in filter(None, (said["rest"] or "").split(", ")):
            key, _, value = part.rpartition(" ")
            args[key] = value
        args = {key: value for key, value in args.items() if value}
        head = {"name": said["name"]} | self._process | head | {"args": args}
        tell(head, self._name, said["cc"] or "", self._launches)
        return head

    def _section_follows(self) -> bool:
        coming = next(filter(None, ((self._lines.peek(ahead) or "").strip() for ahead in (1, 2))), "")
        return bool(SECTION.fullmatch(unprefixed(coming)))

    def _started(self) -> Launches:
        """The launches, with the current one begun."""
        if self._head is not None:
            self._launches.start(**self._head)
            self._head = None
        return self._launches

    def _ruler(self, text: str) -> None:
        runs = [found.span() for found in _RUN.finditer(text)]
        if self._table is not None and (self._table.rows or not self._table.headed):
            self._table = None  # the last one of a table
        elif self._table is not None:
            self._table.runs = runs  # the one below the headings
        elif len(runs) > 2:
            self._table = _Table(runs)

    def _figure(self, text: str) -> bool:
        """A row of a table."""
        table = self._table
        cells = table.cells(text) if table is not None else None
        if table is None or cells is None:
            return False
        table.rows += 1
        name, unit, *values = cells
        self._add(name, unit, values)
        return True

    def _loose_figure(self, text: str) -> bool:
        """A row of a table of which the lines around it are missing: words far apart, a unit, one value or three."""
        words = re.split(r"\s{2,}", text.strip())
        if not self._section or len(words) not in (3, 5) or not is_unit(words[1]):
            return False
        name, unit, *values = words
        if not all(_FIGURE.fullmatch(value) for value in values):
            return False
        self._add(name, unit, values)
        return True

    def _add(self, name: str, unit: str, values: list[str]) -> None:
        """Adds a metric: its value, or the smallest, the greatest and the average of several launches."""
        launches = self._started()
        if len(values) == 1:
            launches.metric(launches.figure(name, unit, self._section), values[0])
        else:
            smallest, greatest, average = values
            figure = launches.figure(name, unit, self._section, several=True)
            launches.metric(figure, average, (smallest, greatest))
        self._lines.used()

    def _advice(self, kind: str, text: str) -> None:
        """What a rule says, over several lines."""
        self._table = None
        parts, taken = [text], 0
        while (more := self._lines.peek(taken + 1)) is not None and self._goes_on(unprefixed(more)):
            parts.append(unprefixed(more).strip())
            taken += 1
        args: dict[str, Any] = {"Rule Type": kind}
        said = " ".join(parts)
        if found := _SPEEDUP.fullmatch(said):
            args |= {"Estimated Speedup Type": (found[1] or "global").lower()}
            args |= {"Estimated Speedup": float(found[2].replace(",", "."))}
            said = found[3] or said
        self._started().note(said, self._section, args)
        self._lines.used()
        coming = iter(self._lines)
        for _ in range(taken):
            next(coming)
            self._lines.used()

    def _goes_on(self, text: str) -> bool:
        """Whether a line is the next one of an advice."""
        ends = (SECTION, _RULER, _ADVICE, _PROCESS)
        if not text.strip() or text.startswith("==") or any(end.fullmatch(text) for end in ends):
            return False
        found = launch_line(text)
        return not (found and is_placed(found))

    def _range(self, text: str) -> None:
        """A line of the NVTX ranges around a launch: their names are its scope, all else is kept as it is."""
        head = self._head or {}
        self._nvtx = True
        name = level(text)
        if name:
            head.setdefault("scope", []).append(name)
        else:
            head["args"].setdefault("NVTX", []).append(text.strip())
        self._lines.used()


class _Table:
    """Where the cells of a row stand: `runs` are the places of the dashes above."""

    def __init__(self, runs: list[tuple[int, int]]) -> None:
        self.runs = runs
        self.rows = 0
        self.headed = False
        self.several = False

    def cells(self, text: str) -> list[str] | None:
        """Name, unit and values of a row, None where it is no row."""
        count = 5 if self.several else 3
        if len(self.runs) == count and self._is_in_columns(text):
            cells = [text[begin:end].strip() for begin, end in self.runs]
            if cells[0] and all(cells[2:]):
                return cells
        return _parts(text, count - 2)

    def _is_in_columns(self, text: str) -> bool:
        gaps = [text[before[1] : after[0]] for before, after in zip(self.runs, self.runs[1:], strict=False)]
        first, last = text[: self.runs[0][0]], text[self.runs[-1][1] :]
        return not any(gap.strip() for gap in (first, last, *gaps))


def _parts(text: str, values: int) -> list[str] | None:
    """Name, unit and values of a row that isn't in its columns: the last words are the values."""
    words = re.split(r"\s{2,}", text.strip())
    if len(words) == values + 2 and (is_unit(words[1]) or not words[1]):
        return words
    words = text.split()
    if len(words) < values + 1:
        return None
    tail, head = words[-values:], words[:-values]
    unit = head.pop() if len(head) > 1 and is_unit(head[-1]) else ""
    if any(not re.match(r"[-+]?[\d.]|n/a|nan|inf|\(!\)", word) for word in tail):
        return None
    return [" ".join(head), unit, *tail]
