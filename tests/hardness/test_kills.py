"""kill -9 and Ctrl-C at every stage: the whole output or none, and nothing stays after the next run."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from conftest import SAMPLES
from nightly import few
from world import count_into, listing, run, signal_at

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.forks,
]

TRACE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"

#: Name of the output -> the options that write it, and whether one is there already.
OUTPUTS = {
    "run.perfetto": ([], False),
    "run.csv": (["--overwrite"], True),
    "run.parquet/": (["--overwrite"], True),
    "run.jsonl": (["--split-by", "size=30kB", "--overwrite"], True),
}

#: Stages of a run at which it is killed; the last ones lie close together, where the output appears.
STAGES, LAST = 3, 6


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of the system, as the command sees it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in listing(folder) if (folder / name).is_file()}


@pytest.mark.parametrize(
    ("name", "how"),
    few(
        [(name, how) for name in OUTPUTS for how in (signal.SIGKILL, signal.SIGINT)],
        lambda values: values in (("run.parquet/", signal.SIGKILL), ("run.jsonl", signal.SIGINT)),
    ),
)
def test_a_run_that_is_stopped_leaves_all_or_nothing(
    tmp_path: Path, temporary: Path, name: str, how: signal.Signals
) -> None:
    options, exists = OUTPUTS[name]
    before = tmp_path / "before"
    before.mkdir()
    if exists:
        first = SAMPLES / "doppler/prefill-and-three-decodes.log"
        assert run(["convert", first, "-o", f"{before}/{name}", *options]).code == 0
    old = contents(before)
    whole = tmp_path / "whole"
    shutil.copytree(before, whole)
    done = run(["convert", TRACE, "-o", f"{whole}/{name}", *options], before=lambda: count_into(tmp_path / "count"))
    assert done.code == 0, done.err
    new, steps = contents(whole), int((tmp_path / "count").read_text())
    assert steps > LAST  # some 13 where other tests have imported all modules, else more
    seen = set()
    for number in sorted({*range(1, steps, steps // STAGES), *range(steps - LAST, steps + 1)}):
        out = tmp_path / f"out{number}"
        shutil.copytree(before, out)
        arguments = ["convert", TRACE, "-o", f"{out}/{name}", *options]
        done = run(arguments, before=lambda number=number: signal_at(number, how))  # type: ignore[misc]
        assert done.code in (0, -how, 128 + how), (number, done.err)
        assert "Traceback" not in done.err
        found = contents(out)
        if how == signal.SIGINT:
            assert found in (old, new), (number, done.code, list(found))
            assert done.code == 130 or found == new
            assert not listing(temporary), number
            seen.add(found == new)
            continue
        visible = {file: data for file, data in found.items() if not file.startswith(".")}
        if name in ("run.perfetto", "run.csv"):  # one file: in one step
            assert visible in (old, new), (number, list(visible))
        seen.add(visible == new)
        again = run(["convert", TRACE, "-o", f"{out}/{name}", *options])
        assert again.code == 0 or visible == new, (number, again.err)
        assert contents(out) == new, number
        assert not listing(temporary), number
    assert False in seen
    if how == signal.SIGKILL:
        assert True in seen


def test_what_a_killed_run_left_in_the_temporary_folder_goes_with_the_next_one(temporary: Path, tmp_path: Path) -> None:
    left = temporary / "ktrace-0123456789abcdef.ktrace-tmp"
    left.mkdir()
    (left / "rows").touch()
    (temporary / "ktrace-0123456789abcdef.tmp").mkdir()
    merged = run(["merge", TRACE, TRACE, "-o", tmp_path / "c.tar"])
    assert merged.code == 0, merged.err
    assert listing(temporary) == ["ktrace-0123456789abcdef.tmp"], "only ours go"
