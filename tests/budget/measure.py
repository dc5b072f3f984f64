"""Converts an input in a process of its own, and says what that cost."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import shlex
import shutil
import signal
import time
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import NamedTuple

import ktrace
from ktrace.cli import cli
from ktrace.errors import KtraceError
from ktrace.pipeline.convert import convert

#: Commands that answer instead of a conversion: the words of each, with IN, a COPY of it and its FORMAT.
COMMANDS = {
    "info": "info IN --from FORMAT",
    "summary": "summary IN --from FORMAT",
    "operators": "summary IN --from FORMAT --by op,api,idle",
    "path": "summary IN --from FORMAT --by critical-path",
    "diff": "diff IN IN --from FORMAT",
    "query": "query IN --from FORMAT 'select kind, count(*), sum(dur) from events group by 1'",
    "merge": "merge IN COPY --from FORMAT -o OUT.perfetto --overwrite",
}

#: Linux' prctl that keeps a process from huge pages: a page of 2 MB counts whole for the one byte that was written.
THP_DISABLE = 41

#: Seconds of CPU time after which a conversion is ended.
MOST_CPU = 100


class Cost(NamedTuple):
    """Seconds of CPU time of the program, bytes of anonymous memory above those at the start, and what came of it.

    Without the kernel's time: what a page costs it depends on what else the machine does.
    """

    cpu: float
    memory: int
    outcome: str


def warm() -> None:
    """Imports all of ktrace, so that no conversion has to."""
    for module in walk_packages(ktrace.__path__, "ktrace."):
        if not any(part in module.name for part in ("__main__", "_templates", "closed")):
            import_module(module.name)
    gc.collect()
    gc.freeze()


def measure(path: Path, out: Path, fmt: str) -> Cost:
    """Converts an input in a forked process, or answers the question in whose name `out` ends."""
    out.unlink(missing_ok=True)
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _work(path, out, fmt, writing)
    os.close(writing)
    begun, peak = 0, 0
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        anonymous = _anonymous(pid)
        begun = begun or anonymous
        peak = max(peak, anonymous)
        time.sleep(0.003)
    with os.fdopen(reading, "rb") as answer:
        outcome = answer.read().decode("utf-8", "replace")
    if os.WIFSIGNALED(status):
        outcome = f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return Cost(usage.ru_utime, max(0, peak - begun), outcome)


def _work(path: Path, out: Path, fmt: str, pipe: int) -> None:
    """The child: converts, sends what came of it and ends."""
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU, MOST_CPU + 5))
    ctypes.CDLL(None).prctl(THP_DISABLE, 1, 0, 0, 0)
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    outcome = "failed"
    try:
        if out.name in COMMANDS:
            given = {"IN": str(path), "FORMAT": fmt, "OUT.perfetto": f"{out}.perfetto", "COPY": f"{out}-{path.name}"}
            if "COPY" in COMMANDS[out.name]:
                shutil.copy(path, given["COPY"])
            cli.main([given.get(word, word) for word in shlex.split(COMMANDS[out.name])], standalone_mode=False)
            outcome = "answered"
        else:
            report = convert(path, out, from_=fmt, jobs=1)
            outcome = f"{report.written} rows"
    except KtraceError as error:
        outcome = f"refused: {error}"
    except BaseException as error:
        outcome = f"failed: {type(error).__name__}: {error}"
    finally:
        os.write(pipe, outcome.encode("utf-8", "replace")[:4000])
        os._exit(0)


def _anonymous(pid: int) -> int:
    """Bytes of anonymous memory of a process, without files that it maps."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii")
    except OSError:
        return 0
    found = status.partition("RssAnon:")[2].split(None, 1)
    return int(found[0]) << 10 if found else 0
