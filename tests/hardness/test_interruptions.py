"""Ctrl-C and SIGTERM end every reader, whoever calls whom: no output, and exit code 128 + the number of the signal.

C code that calls Python has nobody to pass an exception to. So interruptions come where functions of Python are called:
the n-th call, by a profile function, also within callbacks of libraries, `__del__` and the ends of generators.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from conftest import SAMPLES
from nightly import few
from world import run

from ktrace.parallel import interruption
from ktrace.pipeline.convert import convert

#: Samples of readers that call libraries which call back, or that have threads, and of others.
CHOSEN = (
    "otf2/",
    "xplane/streams",
    "perfetto/",
    "xctrace/rows-that",
    "nsys/schema-2.9",
    "parquet/all",
    "kineto/one-step",
)
ALL = sorted(path for path in SAMPLES.glob("*/*") if path.parent.name != "real")


class _AtCall:
    """A profile function that interrupts at the n-th call of a function of Python, as the signal's handler does."""

    def __init__(self, number: int, told: interruption.Interruption | None) -> None:
        self.seen = 0
        self._number, self._told = number, told

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (self._told is None and frame.f_code.co_name == "<genexpr>"):
            return  # Python drops what is raised while it closes a generator: without handlers nobody hears of it
        self.seen += 1
        if self.seen == self._number:
            sys.setprofile(None)
            if self._told is None:
                raise KeyboardInterrupt
            self._told._tell(signal.SIGINT, frame)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[interruption.Interruption]:
    """The signals of this process, which nothing has reached; what they set is undone."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # what Python can only print
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    interruption.INTERRUPTION.listen()
    try:
        yield interruption.INTERRUPTION
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        interruption.INTERRUPTION.__init__()  # type: ignore[misc]


def _interrupted(path: Path, out: Path, number: int, told: interruption.Interruption | None) -> tuple[bool, int]:
    """Converts a sample; whether that was interrupted, and how many calls were seen."""
    if told:
        told.__init__()  # type: ignore[misc]
    at = _AtCall(number, told)
    sys.setprofile(at)
    try:
        convert(str(path), out, overwrite=True, jobs=1)
    except KeyboardInterrupt:
        return True, at.seen
    finally:
        sys.setprofile(None)
    return False, at.seen


def _numbers(path: Path, calls: int, count: int) -> list[int]:
    """The numbers of calls at which to interrupt: the first ones close together, others anywhere."""
    anywhere = random.Random(path.name)
    first = (int(1.5**power) for power in range(40))
    return sorted(
        {*(number for number in first if number < calls), *(anywhere.randrange(1, calls) for _ in range(count))}
    )


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no such signals")
@pytest.mark.parametrize(
    "path", few(ALL, lambda path: any(word in f"{path.parent.name}/{path.name}" for word in CHOSEN))
)
def test_an_interruption_at_any_call_ends_the_reader(
    tmp_path: Path, told: interruption.Interruption, path: Path
) -> None:
    """It may come too late, while the output is moved or after it: then the output is whole."""
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    _interrupted(path, whole, 0, told)  # imports
    done, calls = _interrupted(path, whole, 0, told)
    assert not done
    for number in _numbers(path, calls, 15):
        out.unlink(missing_ok=True)
        done, _ = _interrupted(path, out, number, told)
        assert not out.exists() or (number > 0.8 * calls and out.read_bytes() == whole.read_bytes()), number
        assert done or out.exists(), number


@pytest.mark.parametrize("name", ["two-ranks-streams-late-receives", "rocprofv3-copies-overlap"])
def test_a_callback_of_otf2_swallows_no_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also without the command's handlers of signals: in a notebook Ctrl-C is a KeyboardInterrupt wherever it comes."""
    pytest.importorskip("otf2", reason="otf2 isn't installed")
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    path, out = SAMPLES / "otf2" / name, tmp_path / "out.jsonl"
    _interrupted(path, out, 0, None)
    _, calls = _interrupted(path, out, 0, None)
    for number in _numbers(path, int(0.8 * calls), 60):
        out.unlink(missing_ok=True)
        done, _ = _interrupted(path, out, number, None)
        assert done, number
        assert not out.exists(), number


@pytest.mark.forks
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", ["otf2/definitions.py", "otf2/events.py", "_otf2/EvtReaderCallbacks.py"])
@pytest.mark.parametrize("command", ["convert", "summary"])
def test_a_signal_in_a_callback_ends_the_command(
    tmp_path: Path, what: signal.Signals, place: str, command: str
) -> None:
    pytest.importorskip("otf2", reason="otf2 isn't installed")
    out = tmp_path / "out.txt"

    def before() -> None:
        left = iter(range(30))

        def send(frame: FrameType, event: str, _: Any) -> None:
            if event == "call" and frame.f_code.co_filename.endswith(place) and next(left, None) == 20:
                os.kill(os.getpid(), what)

        sys.setprofile(send)

    source = SAMPLES / "otf2/two-ranks-streams-late-receives"
    done = run([command, source, *(["--to", "jsonl"] if command == "convert" else []), "-o", out], before=before)
    assert (done.code, out.exists()) == (128 + what, False), done.err
    assert done.err.strip() == "ktrace: interrupted; no unfinished output is left behind"
