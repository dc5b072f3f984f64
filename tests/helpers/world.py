"""Runs the command in a forked child of this process, in a world with faults, without importing everything each time.

done = run(["convert", log, "-o", out], before=lambda: kill_at(120))
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile

import pytest

#: Audit events (docs.python.org/3/library/audit_events.html) at which something in the world may change.
_CHANGES = ("open", "os.", "shutil.", "tempfile.", "import", "fcntl.", "mmap.", "subprocess.", "sqlite3.", "socket.")


@dataclass
class Done:
    """Exit code (negative: the signal that killed it), and what was printed."""

    code: int
    out: str
    err: str


def run(arguments: Sequence[object], *, before: Callable[[], object] | None = None, stdin: bytes = b"") -> Done:
    """Runs `ktrace` with these arguments in a child; `before` is called in the child first."""
    import ktrace.parallel.interruption as signals
    from ktrace.cli import main

    _preload()
    with TemporaryFile() as said, TemporaryFile() as told, TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        child = os.fork()
        if not child:
            code = 99
            try:
                for number, stream in enumerate((given, said, told)):
                    os.dup2(stream.fileno(), number)
                sys.stdin, sys.stdout, sys.stderr = (
                    os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)
                    for number, mode in ((0, "r"), (1, "w"), (2, "w"))
                )
                signal.signal(signal.SIGINT, signal.default_int_handler)
                signals.INTERRUPTION.__init__()  # type: ignore[misc]
                sys.argv = ["ktrace", *map(str, arguments)]
                atexit._clear()  # Polars waits at exit for a thread that only the parent has
                if before:
                    before()
                main()
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 0
            except BaseException as error:
                sys.stderr.write(f"not caught: {error!r}\n")
            finally:
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        told.seek(0)
        return Done(status, said.read().decode("utf-8", "replace"), told.read().decode("utf-8", "replace"))


@cache
def _preload() -> None:
    """Imports what most commands need, so that the children needn't."""
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401

    for name in (
        *("cli.convert", "cli.merge", "cli.info", "cli.batch", "cli.summary", "pipeline.convert"),
        *("pipeline.info", "fleet.batch", "stages.align", "analysis.answers.summary", "output.write"),
        *(
            f"converters.{name}"
            for name in ("kineto.reader", "doppler.reader", "jsonl", "csv.reader", "parquet.reader")
        ),
        *(f"converters.{package}.writer" for package in ("perfetto", "parquet")),
    ):
        import_module(f"ktrace.{name}")


def signal_at(number: int, what: signal.Signals) -> None:
    """Sends this process a signal at its number-th change of the world: a file opened, made, renamed, a module."""
    left = itertools.count(1)
    sys.addaudithook(lambda event, _: _hit(event) and next(left) == number and os.kill(os.getpid(), what))  # type: ignore[func-returns-value]


def count_into(file: Path) -> None:
    """Writes the number of changes of the world into a file, over and over."""
    left = itertools.count(1)
    counter = os.open(file, os.O_CREAT | os.O_WRONLY, 0o600)

    def hook(event: str, _: object) -> None:
        if _hit(event):
            os.pwrite(counter, b"%9d" % next(left), 0)

    sys.addaudithook(hook)


def _hit(event: str) -> bool:
    return event.startswith(_CHANGES)


def with_own_mounts(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell that may mount what nobody else sees. Skips the test without the right to do so."""
    shell = ["unshare", "-m", "sh", "-c"]
    if os.getuid() or not shutil.which("unshare") or subprocess.run([*shell, ""], check=False).returncode:
        pytest.skip("no right to mount here")
    return subprocess.run([*shell, script], capture_output=True, text=True, check=False)


def listing(folder: Path) -> list[str]:
    """The names of all files and folders in it."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
