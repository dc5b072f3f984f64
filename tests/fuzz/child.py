"""Runs a case in a forked process with limits, so that hangs and crashes are outcomes like others."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from .case import Order
from .frames import frames_of, place

#: Lays the input of a case into a folder; returns its path and what was done.
Lay = Callable[[Path], tuple[Path, list[str]]]


@dataclass
class Limits:
    """Limits of a case: seconds of CPU time, seconds in all, and bytes of address space above those of the parent."""

    cpu: int = 20
    wall: int = 90
    memory: int = 2 << 30


@dataclass
class Outcome:
    """What came of a case.

    `kind` is "done", "refused", "boundary" (see `Order.run`) or the class of a finding, and `place` the innermost frame
    of ktrace. Of findings that aren't exceptions, `place` is what tells them apart.
    """

    kind: str
    place: str = ""
    text: str = ""
    damage: str = ""
    seconds: float = 0.0
    peak: int = 0  # bytes

    @property
    def found(self) -> bool:
        """Whether this is a finding."""
        return self.kind not in ("done", "refused", "boundary")

    @property
    def key(self) -> str:
        """The same for all cases with the same cause, as far as that can be told."""
        return f"{self.kind} {self.place}".strip()


_FRAME = re.compile(r'^  File "(.+)", line (\d+),? in (\S+)', re.MULTILINE)


def _contents(folder: Path) -> dict[str, int]:
    return {path.relative_to(folder).as_posix(): path.lstat().st_size for path in folder.rglob("*")}


def _judge(order: Order, path: Path, folder: Path) -> Outcome:
    """Runs an order, and says what came of it."""
    before = _contents(folder / "in")
    try:
        kind, where, text = order.run(path, folder / "out")
        outcome = Outcome(kind, where, text)
        if kind == "finding":
            head, _, rest = text.replace(f"{folder}", "").partition(":")
            outcome = Outcome(head, re.sub(r"\d+", "N", " ".join(rest.split()))[:60], text)
    except MemoryError as error:
        outcome = Outcome("memory", place(frames_of(error)), "".join(traceback.format_exception(error)[-6:]))
    except BaseException as error:
        name = "recursion" if isinstance(error, RecursionError) else type(error).__name__
        text = "".join(traceback.format_exception(error))
        outcome = Outcome(
            name, place(frames_of(error)), text if len(text) < 6000 else text[:1500] + "...\n" + text[-4000:]
        )
    if outcome.found:
        return outcome
    allowed = int(outcome.kind == "done")
    left = list(_contents(folder / "out"))
    if len(left) > allowed and order.command not in ("parquet",):
        return Outcome("leftover output", order.command, f"{left} after: {outcome.text}")
    if _contents(folder / "in") != before:
        return Outcome("changed input folder", order.command, f"{set(_contents(folder / 'in')) ^ set(before)}")
    if _contents(folder / "tmp"):
        gc.collect()
        weakref.finalize._exitfunc()  # type: ignore[attr-defined]  # as a process does that ends
    if found := list(_contents(folder / "tmp")):
        return Outcome("leftover temporary files", order.command, f"{found}")
    return outcome


def _work(lay: Lay, order: Order, folder: Path, limits: Limits, pipe: int) -> None:
    """The child: lays the input, limits itself, runs the order and sends the outcome."""
    os.setpgid(0, 0)
    quiet = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(quiet, standard)
    for name in ("in", "out", "tmp"):
        (folder / name).mkdir()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]  # those of the parent
    path, done = lay(folder / "in")
    tempfile.tempdir = str(folder / "tmp")
    os.environ["TMPDIR"] = tempfile.tempdir
    log = (folder / "fault").open("w")
    faulthandler.enable(log, all_threads=False)
    faulthandler.register(signal.SIGXCPU, log, all_threads=False, chain=True)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    if pages:
        most = pages * os.sysconf("SC_PAGE_SIZE") + limits.memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + limits.cpu, used + limits.cpu + 5))
    (folder / "damage").write_text(" ".join(done))
    outcome = _judge(order, path, folder)
    with os.fdopen(pipe, "w") as answer:
        json.dump(asdict(outcome), answer)


def run(lay: Lay, order: Order, folder: Path, limits: Limits) -> Outcome:
    """Runs an order on an input in a forked process; the folder must not exist, and the caller removes it."""
    folder.mkdir()
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(reading)
            _work(lay, order, folder, limits, writing)
            code = 0
        except BaseException:
            (folder / "driver").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    os.close(writing)
    with suppress(OSError):
        os.setpgid(pid, pid)
    answer = _answer(reading, pid, limits.wall)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    if answer is not None and os.WIFSIGNALED(status) and not answer:
        outcome = _crash(os.WTERMSIG(status), folder)
    elif not answer:
        why = (folder / "driver").read_text() if (folder / "driver").exists() else f"ended with status {status}"
        if answer is None:
            outcome = Outcome("hang", _place_of_fault(folder), f"no end after {limits.wall} s\n{_fault(folder)}")
        elif "MemoryError" in why:
            outcome = Outcome("memory", "", why)
        else:
            outcome = Outcome("the fuzzer fails", why.strip().splitlines()[-1][:80], why)
    else:
        outcome = Outcome(**json.loads(answer))
    if (folder / "damage").exists():
        outcome.damage = (folder / "damage").read_text()
    outcome.seconds = usage.ru_utime + usage.ru_stime
    outcome.peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return outcome


def _answer(pipe: int, pid: int, wall: int) -> bytes | None:
    """Returns what a child sends before it ends; None if it takes too long, and is then made to say where it is."""
    data, left = b"", float(wall)
    with os.fdopen(pipe, "rb", buffering=0) as answers:
        while True:
            begin = time.monotonic()
            if not select.select([answers], [], [], 1)[0]:
                left -= min(1, time.monotonic() - begin)  # longer if the fuzzer itself was stopped meanwhile
                if left > 0:
                    continue
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGXCPU)
                time.sleep(0.5)
                return None
            part = answers.read(65_536)
            if not part:
                return data
            data += part


def _fault(folder: Path) -> str:
    path = folder / "fault"
    return path.read_text(errors="replace")[:3000] if path.exists() else ""


def _place_of_fault(folder: Path) -> str:
    return place([(file, int(line), name) for file, line, name in _FRAME.findall(_fault(folder))])


def _crash(number: int, folder: Path) -> Outcome:
    kind = "hang" if number == signal.SIGXCPU else f"crash {signal.Signals(number).name}"
    return Outcome(kind, _place_of_fault(folder), _fault(folder))


def removed(folder: Path) -> None:
    """Removes the folder of a case."""
    shutil.rmtree(folder, ignore_errors=True)
