"""Other processes that run calls, each a Python of its own: unlike forks, they may be started from any thread.

    workers = Workers(folder)
    workers.call(convert_one, task)     its answer, or Died
    workers.end()

A process that dies takes one call with it. All end with this process, however that ends.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TypeVar

_SCRIPT = Path(__file__).with_name("worker.py")

#: The folder that this ktrace is in.
_HOME = str(_SCRIPT.parents[2])

_Argument = TypeVar("_Argument")
_Answer = TypeVar("_Answer")


class Died(Exception):
    """The process ended within a call."""


def can_start() -> bool:
    """Whether this process knows a Python that can be started: a program that embeds Python may have none."""
    return bool(sys.executable)


class Workers:
    """Processes for calls, as many as there are calls at a time; their temporary files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self._idle: list[subprocess.Popen[bytes]] = []
        self._lock = Lock()
        self._ended = False

    def call(self, function: Callable[[_Argument], _Answer], argument: _Argument) -> _Answer:
        """Runs a function of a module in another process; any thread may call. Raises Died, OSError without a Python.

        The function raises nothing: an exception ends its process.
        """
        with self._lock:
            process = self._idle.pop() if self._idle else self._start()
        assert process.stdin and process.stdout
        try:
            pickle.dump((function, argument), process.stdin)
            process.stdin.flush()
            answer: _Answer = pickle.load(process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):  # ValueError: `end` closed the streams
            with self._lock:
                self._end(process)
            raise Died from None
        with self._lock:
            self._idle.append(process)
        return answer

    def end(self) -> None:
        """Ends all processes, also those that run a call."""
        with self._lock:
            self._ended = True
            for process in [*self._started]:
                self._end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        if self._ended:
            raise Died
        command = [sys.executable, *_flags(), str(_SCRIPT), *module_folders()]
        environment = os.environ | {"TMPDIR": str(self._folder)}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._started.append(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process in self._started:
            self._started.remove(process)
            process.kill()
            process.wait()


def _flags() -> list[str]:
    """The options of this Python that decide what a Python imports at its start."""
    flags = {"-I": sys.flags.isolated, "-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
    return [flag for flag, given in flags.items() if given] + ["-B"] * sys.flags.dont_write_bytecode


def module_folders() -> list[str]:
    """Where this process finds modules, without folders that depend on the current one.

    That of a notebook is '', and may be the only one that has ktrace: then it is named.
    """
    named = (path if os.path.isabs(path) else os.path.abspath(path) for path in sys.path)  # noqa: PTH100, PTH117
    return [name for name, path in zip(named, sys.path, strict=True) if name in (path, _HOME)]
