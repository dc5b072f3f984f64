"""Signals at any moment: during imports, in locks, while something is cleaned up, and where nothing ends by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

BEGIN = """
import gc, os, queue, signal, sys, threading, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a test run below nohup ignores it
from ktrace.parallel import interruption
interruption.PATIENCE, interruption.AGAIN = 3.0, 0.3
told = interruption.Interruption()
told.listen()
def say(word):
    print(word, flush=True)
"""


def run(code: str, *sent: signal.Signals, pause: float = 0.3, path: str = "") -> tuple[int, list[str]]:
    """Runs code; sends it a signal when it says "ready", then the others. Returns its exit code and what it said."""
    script = f"import sys; sys.path.insert(0, {path!r}){BEGIN}{code}"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        for number in sent:
            child.send_signal(number)
            time.sleep(pause)
        said, _ = child.communicate(timeout=60)
    return child.returncode, said.splitlines()


def test_an_import_is_not_disturbed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\nprint('ready', flush=True)\ntry:\n    time.sleep(0.5)\n"
        "except BaseException:\n    print('disturbed')\nprint('imported')\n"
    )
    code = "try:\n    import slow; time.sleep(20)\nexcept KeyboardInterrupt:\n    say('told'); sys.exit(told.code)"
    assert run(code, signal.SIGINT, path=str(tmp_path)) == (130, ["imported", "told"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_waits_for_a_lock_or_a_thread_hears_of_it(number: signal.Signals) -> None:
    for waiting in ("threading.Event().wait()", "queue.Queue().get()", "threading.Lock().acquire(timeout=50)"):
        code = f"try:\n    say('ready'); {waiting}; time.sleep(50)\nexcept KeyboardInterrupt:\n    sys.exit(told.code)"
        assert run(code, number) == (128 + number, []), waiting


def test_a_second_signal_does_not_disturb_the_cleaning_up() -> None:
    code = """
try:
    try:
        say("ready"); time.sleep(50)
    finally:
        time.sleep(1); say("clean")
except KeyboardInterrupt:
    say("told"); sys.exit(told.code)
"""
    assert run(code, signal.SIGINT, signal.SIGINT, signal.SIGTERM) == (130, ["clean", "told"])


def test_an_interruption_that_is_swallowed_comes_again() -> None:
    code = """
class Callback:
    def __del__(self):
        say("ready"); time.sleep(1)
try:
    Callback(); time.sleep(50)
except KeyboardInterrupt:
    say("told"); sys.exit(told.code)
"""
    done, said = run(code, signal.SIGTERM)
    assert (done, said[-1]) == (143, "told")


def test_a_lost_interruption_is_raised_at_the_next_check_also_for_an_error() -> None:
    code = """
class Callback:
    def __del__(self):
        say("ready"); time.sleep(1)
try:
    with told.heeded():
        Callback(); raise ValueError
except KeyboardInterrupt:
    say("told"); sys.exit(told.code)
"""
    done, said = run(code, signal.SIGTERM)
    assert (done, said[-1]) == (143, "told")


def test_no_timer_of_a_late_signal_kills_python_while_it_ends() -> None:
    code = """
import ktrace.cli
ktrace.cli.INTERRUPTION = told
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(2)
slow = Slow()
def swallow(*_):
    try:
        say("ready"); time.sleep(50)
    except KeyboardInterrupt:
        return 0
ktrace.cli._run = swallow
ktrace.cli.main()
"""
    assert run(code, signal.SIGINT) == (0, [])


def test_what_does_not_end_is_ended() -> None:
    code = """
try:
    say("ready"); time.sleep(50)
finally:
    while True:
        time.sleep(1)
"""
    begin = time.monotonic()
    assert run(code, signal.SIGTERM) == (143, [])
    assert time.monotonic() - begin < 40


def test_what_is_ignored_stays_ignored() -> None:
    code = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
told.listen()
say("ready"); time.sleep(1); say("done")
"""
    assert run(code, signal.SIGINT) == (0, ["done"])


def test_the_first_line_of_the_program_lets_ctrl_c_end_it_quietly() -> None:
    code = "import signal, os, ktrace.__main__; os.kill(os.getpid(), signal.SIGINT)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")
