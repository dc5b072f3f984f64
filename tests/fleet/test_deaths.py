"""Processes that die and batches that are interrupted: what is there is whole, and the next batch does the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fleet_traces import convert_or_die, figures, nanoseconds, shards, write_trace
from nightly import few

import ktrace
from ktrace.fleet import executor
from ktrace.parallel import workers

FILES, KERNELS = 6, 8_000


@pytest.fixture
def ranks(tmp_path: Path) -> str:
    """Files that take some time, and the pattern that names them."""
    for rank in range(FILES):
        write_trace(tmp_path / f"in/rank{rank}.json", rank, kernels=KERNELS)
    return f"{tmp_path}/in/*.json"


def whole(out: Path) -> bool:
    """Whether each rank is there, once, with all its kernels."""
    return figures(out, "rank") == [(rank, KERNELS, nanoseconds(KERNELS)) for rank in range(FILES)]


def test_a_process_that_is_killed_costs_no_file(ranks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    killed: list[int] = []

    def starting(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(command, **options))
        return started[-1]

    def kill_one(*_: Any) -> None:
        if not killed:
            killed.append(started[0].pid)
            started[0].kill()

    popen = subprocess.Popen
    monkeypatch.setattr(workers.subprocess, "Popen", starting)
    report = ktrace.batch(ranks, tmp_path / "out", jobs=2, progress=kill_one)
    assert killed
    assert (len(report.done), report.failed) == (FILES, {})
    assert whole(tmp_path / "out")
    assert len(started) > 2
    assert all(one.poll() is not None for one in started), "none outlives the batch"


def test_a_file_that_kills_is_listed_and_those_beside_it_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rank0", "rank1", "poison2", "rank3"):
        write_trace(tmp_path / f"in/{name}.json")
    monkeypatch.setattr(executor, "convert_one", convert_or_die)
    report = ktrace.batch(f"{tmp_path}/in/*.json", tmp_path / "out", jobs=2)
    assert [manifest.label for manifest in sorted(report.done, key=lambda done: done.path)] == [
        "rank0",
        "rank1",
        "rank3",
    ]
    [(path, reason)] = report.failed.items()
    assert path.endswith("poison2.json")
    assert "died twice" in reason
    assert not (tmp_path / "out/_ktrace/tmp").exists()


@pytest.mark.parametrize("number", few([signal.SIGKILL, signal.SIGINT], 1))
def test_an_interrupted_batch_leaves_whole_shards_and_is_resumed(
    ranks: str, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "ktrace", "batch", ranks, "-o", str(out), "--jobs", "2"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stderr is not None
    first = child.stderr.readline()
    assert first.startswith("[1/6] "), first
    os.kill(child.pid, number)
    _, rest = child.communicate(timeout=30)  # until no process of it is left
    assert child.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    if number == signal.SIGINT:
        assert "run the same command again" in rest
        assert "Traceback" not in rest
        assert not (out / "_ktrace/tmp").exists()
    _wait_for_the_end_of(child.pid)
    before = {name: (out / name).stat().st_mtime_ns for name in shards(out)}
    assert 0 < len(before) < FILES
    for name in before:
        assert len(ktrace.read(out / name).events) == KERNELS
    report = ktrace.batch(ranks, out, jobs=2)
    assert 0 < len(report.kept) == FILES - len(report.done)
    kept = {shard.name for manifest in report.kept for shard in manifest.shards}
    assert {name for name in kept if before.get(name) == (out / name).stat().st_mtime_ns} == kept
    assert whole(out)


def _wait_for_the_end_of(session: int) -> None:
    """Waits until no process of that session is left."""
    for _ in range(100):
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("a process outlived the batch")


def test_a_script_needs_no_guard(ranks: str, tmp_path: Path) -> None:
    """Workers import no `__main__`."""
    script = tmp_path / "script.py"
    script.write_text("import sys, ktrace\nprint(len(ktrace.batch(sys.argv[1], sys.argv[2], jobs=2).done))\n", "utf-8")
    command = [sys.executable, str(script), ranks, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{FILES}\n", "")
