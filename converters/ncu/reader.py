"""Reads the launches in Nsight Compute's output as summaries: text and CSV pages, one after the other or mixed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.ncu_cells import is_european
from ktrace.kit.ncu_launches import Launches
from ktrace.kit.text.lines import Line, Lines
from ktrace.model.batch import Batch

from . import AVERAGES, OWN, headings
from .listing import Listing
from .pages import Page

_FORBIDDEN = "ERR_NVGPUCTRPERM"
_REMEDY = (
    "profile with sudo, or allow it for all users: `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in "
    "/etc/modprobe.d/, then reboot (Windows: NVIDIA Control Panel, Developer, Manage GPU Performance Counters)"
)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each launch, followed by one for each metric and rule; skips and reports program output.

    Raises DamagedInput if nothing was profiled because the user may not read the counters.
    """
    lines = Lines(source, conversion)
    launches = Launches(conversion, european=is_european(source.sample().text or ""))
    reading = _NcuReader(lines, launches, source.path)
    for line in lines:
        reading.line(line)
        yield from launches.ready()
    reading.finish()
    yield from launches.rest()


class _NcuReader:
    """The state of reading: the current page or listing, and the remarks so far."""

    def __init__(self, lines: Lines, launches: Launches, path: str) -> None:
        self._lines, self._launches, self._path = lines, launches, path
        self._listing = Listing(lines, launches)
        self._page: Page | None = None
        self._pages = 0
        self._remarks: list[tuple[str, str]] = []
        self._forbidden = 0  # the line that reports missing permission
        self._note = False  # within the remark about averages that every summary has

    def line(self, line: Line) -> None:
        """Reads a line; one without an outcome is reported as unrecognised."""
        text = line.text
        if "==" in text and (found := OWN.fullmatch(text)):
            self._own(found, line)
        elif self._note or text.lstrip().startswith(AVERAGES):
            self._note = bool(text.strip())
            self._lines.structure()
        elif found_headings := headings(text):
            if found_headings.is_shuffled:
                raise DamagedInput(
                    "ncu wrote the figures of this page into wrong columns, as it always does for --page raw with "
                    "--print-summary per-gpu and --csv",
                    path=self._path,
                    where=f"line {line.number}",
                    expected="a name below Metric Name",
                    remedy="leave out --csv, or use --print-summary per-kernel",
                )
            self._page, self._pages = Page(found_headings, self._pages), self._pages + 1
            self._listing.leave()
            self._lines.structure()
        else:
            in_page = self._page is not None and self._page.row(line, self._lines, self._launches)
            if not in_page and not self._listing.line(text) and not text.strip():
                self._lines.structure()

    def _own(self, found: re.Match[str], line: Line) -> None:
        if found["kind"] in ("WARNING", "ERROR"):
            self._remarks.append((found["kind"], found["text"].strip()))
            self._lines.used()
            if _FORBIDDEN in found["text"]:
                self._forbidden = self._forbidden or line.number
        else:
            self._lines.structure()

    def finish(self) -> None:
        """Adds ncu's remarks after the launches. Raises DamagedInput if there is no launch."""
        self._listing.leave()
        if self._forbidden and not self._launches.profiled:
            raise DamagedInput(
                f"no kernel was profiled, because the user may not read the GPU's performance counters ({_FORBIDDEN})",
                path=self._path,
                where=f"line {self._forbidden}",
                expected="launches of kernels with their metrics",
                remedy=_REMEDY,
            )
        if self._pages and not (self._launches.profiled or self._remarks):
            raise DamagedInput(
                "has the headings of a page but no launch below them",
                path=self._path,
                expected="rows of launches",
                remedy="use ncu --page raw, which has all launches; per-nvtx only has those in recorded ranges",
            )
        for kind, text in self._remarks:
            self._launches.start(kind="note", metric="note", name=text, args={"type": kind})
