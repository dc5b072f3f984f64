"""How commands print: with rich on a terminal, plain when piped or when NO_COLOR is set."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import click


def is_terminal(stream: Any = None) -> bool:
    """Whether people read the stream (stdout by default)."""
    stream = stream or sys.stdout
    return bool(stream and stream.isatty())


def width() -> int | None:
    """The columns of the terminal on stdout, None where it is none."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def colour() -> bool:
    """Whether stdout is a terminal that may have colours."""
    return is_terminal() and "NO_COLOR" not in os.environ


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """A table: fitted on a terminal, columns two spaces apart when piped. `right` lists columns of numbers."""
    rows = [list(row) for row in rows]
    if is_terminal():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for column, heading in enumerate(headings):
            table.add_column(heading, justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max(len(row[column]) for row in [list(headings), *rows]) for column in range(len(headings))]
    for row in [list(headings), *rows]:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def heading(text: str) -> None:
    """A line that names what follows: bold on a terminal that may have colours."""
    click.echo(click.style(text, bold=True) if colour() else text)


class Progress:
    """A progress bar on stderr for work that takes over a second; nothing where stderr is no terminal.

    It has no thread of its own, which would keep readers from forking.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._total = sum(Path(path).stat().st_size for path in paths if Path(path).is_file())
        self._taken = 0
        self._start = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    @property
    def callback(self) -> Callable[[int], None] | None:
        """What is to be told of the bytes that were taken."""
        return self._advance if is_terminal(sys.stderr) else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def _advance(self, taken: int) -> None:
        self._taken += taken
        if self._bar:
            self._bar.update(self._task, completed=self._taken)
            self._bar.refresh()
        elif time.monotonic() - self._start > 1:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = ("reading", BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._task = self._bar.add_task("reading", total=self._total or None, completed=self._taken)
            self._bar.start()
