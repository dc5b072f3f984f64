"""Datasets of others: what a forged manifest, part or link names outside of the dataset is neither read nor removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fleet_traces import shards, write_big_trace, write_trace

import ktrace
from ktrace.errors import InputError, OutputError
from ktrace.fleet import inputs
from ktrace.input.dataset_manifest import file_stem
from ktrace.input.stores import Local
from ktrace.scratch import locked


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A dataset of one input, and a Parquet file beside it that isn't part of it."""
    write_trace(tmp_path / "in/rank0.json", 0)
    ktrace.batch(f"{tmp_path}/in/*.json", tmp_path / "out", jobs=1)
    (tmp_path / "mine.parquet").write_bytes((tmp_path / "out" / shards(tmp_path / "out")[0]).read_bytes())
    return tmp_path / "out"


def manifest_of(dataset: Path) -> Path:
    [file] = (dataset / "_ktrace/inputs").iterdir()
    return file


def again(dataset: Path) -> ktrace.fleet.batch.BatchReport:  # type: ignore[name-defined]
    """Converts the input once more, since it has changed: the old shards are removed."""
    write_trace(dataset.parent / "in/rank0.json", 0, kernels=31)
    return ktrace.batch(f"{dataset.parent}/in/*.json", dataset, jobs=1)


@pytest.mark.parametrize(
    "name",
    [
        "{outside}/mine.parquet",
        "../mine.parquet",
        "run_name=a/../../mine.parquet",
        "run_name=a/../../mine-{digest}.parquet",
        r"run_name=a\..\..\/mine-{digest}.parquet",
        r"run_name=a/..\..\mine-{digest}.parquet",
        "run_name=a/other-0123456789ab.parquet",
        "_ktrace/dataset.json",
        "",
    ],
)
def test_a_manifest_that_names_something_else_is_refused(dataset: Path, name: str) -> None:
    file = manifest_of(dataset)
    digest = file.stem[-12:]
    text = json.loads(file.read_text())
    name = name.format(outside=dataset.parent, digest=digest)
    mine = dataset.parent / "mine.parquet"
    text["shards"][0] |= {"name": name, "size": mine.stat().st_size}
    file.write_text(json.dumps(text))
    before = mine.read_bytes()
    for use in (lambda: again(dataset), lambda: ktrace.read(dataset)):
        with pytest.raises(InputError, match="isn't the name of a shard of its input") as caught:
            use()
        assert caught.value.where == f"_ktrace/inputs/{file.name}"
    assert mine.read_bytes() == before
    assert len(shards(dataset)) == 1


def test_links_that_lead_out_are_neither_followed_nor_removed_through(dataset: Path, tmp_path: Path) -> None:
    [name] = shards(dataset)
    outside = tmp_path / "outside"
    (dataset / name).parent.rename(outside)
    (dataset / name).parent.symlink_to(outside)
    kept = (outside / Path(name).name).read_bytes()
    with pytest.raises(InputError, match="leads out of the dataset"):
        Local(str(dataset)).remove([name])
    with pytest.raises(InputError, match="leads out of the dataset"):
        ktrace.read(dataset)
    assert "leads out of the dataset" in str(again(dataset).failed)
    assert (outside / Path(name).name).read_bytes() == kept


def test_a_shard_that_is_a_link_is_not_read(dataset: Path, tmp_path: Path) -> None:
    [name] = shards(dataset)
    (dataset / name).unlink()
    (dataset / name).symlink_to(tmp_path / "mine.parquet")
    with pytest.raises(InputError, match="leads out of the dataset"):
        ktrace.read(dataset)
    assert not again(dataset).failed, "the link itself is replaced"
    assert (tmp_path / "mine.parquet").exists()
    assert len(ktrace.read(dataset).events) == 31


@pytest.mark.parametrize("folder", ["_ktrace", "_ktrace/tmp", "_ktrace/inputs"])
def test_folders_of_the_dataset_that_lead_out_are_refused(dataset: Path, tmp_path: Path, folder: str) -> None:
    outside = tmp_path / "outside"
    if (dataset / folder).exists():
        (dataset / folder).rename(outside)
    else:
        outside.mkdir()
    (dataset / folder).symlink_to(outside)
    (outside / "thesis.txt").write_text("mine")
    (outside / "tmp").mkdir(exist_ok=True)
    (outside / "tmp/thesis.txt").write_text("mine")
    try:
        assert again(dataset).failed
    except (InputError, OutputError) as error:
        assert "out of the dataset" in str(error) or "other files" in str(error)
    assert (outside / "thesis.txt").exists()
    assert (outside / "tmp/thesis.txt").exists()


def test_a_finished_part_that_names_another_file_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "STEP", 1 << 20)
    source = write_big_trace(tmp_path / "in/rank3.json")
    out, mine = tmp_path / "out", tmp_path / "mine.parquet"
    stopped = _Stopped(1)
    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patched:
        patched.setattr("ktrace.fleet.batch.in_processes", stopped)
        ktrace.batch(source, out, jobs=1)
    staged = out / "_ktrace/ranges" / f"{file_stem(str(source))}.0"
    mine.write_bytes(staged.read_bytes())
    forged = json.loads(Path(f"{staged}.json").read_text())
    forged["staged"] = "../mine.parquet"
    Path(f"{staged}.json").write_text(json.dumps(forged))
    report = ktrace.batch(source, out, jobs=1)
    assert not report.failed
    assert mine.exists(), "a forged part moved a file into the dataset"
    assert len(ktrace.read(out).events) == len(ktrace.read(source).events)


class _Stopped:
    """Runs tasks in this process, and is interrupted after some."""

    def __init__(self, after: int) -> None:
        self._after = after

    def __call__(self, tasks: Any, jobs: int) -> Any:
        from ktrace.fleet.tasks import convert_one

        for number, task in enumerate(tasks):
            if number == self._after:
                raise KeyboardInterrupt
            yield convert_one(task)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_two_batches_never_write_one_dataset_at_once(dataset: Path) -> None:
    with locked(dataset / "_ktrace") as mine:
        assert mine
        command = [sys.executable, "-m", "ktrace", "batch", f"{dataset.parent}/in/*.json", "-o", str(dataset)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "another `ktrace batch` is writing this dataset" in done.stderr
    assert not again(dataset).failed
