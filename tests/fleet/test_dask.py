"""A batch on a real Dask cluster of two worker processes, of which one is killed while it works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet_traces import (
    convert_or_die,
    convert_or_die_once,
    convert_slowly,
    figures,
    nanoseconds,
    write_big_trace,
    write_trace,
)

import ktrace
from ktrace.fleet import executor, inputs

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

FILES, KERNELS = 8, 8_000


WORKER = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler, and two workers that are started again whenever they end, as a service manager does.

    Dask's own nannies leave some workers dead, and then everybody waits without end.
    """
    ended = threading.Event()

    def keep(address: str) -> None:
        known = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        while not ended.is_set():
            worker = subprocess.Popen([*WORKER, address], stderr=subprocess.DEVNULL, env=known)
            while worker.poll() is None and not ended.wait(0.1):
                pass
            worker.kill()
            worker.wait()

    with distributed.LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1") as cluster:
        keepers = [threading.Thread(target=keep, args=(cluster.scheduler_address,)) for _ in range(2)]
        for keeper in keepers:
            keeper.start()
        with distributed.Client(cluster) as client:
            client.wait_for_workers(2)
        yield cluster
        ended.set()
        for keeper in keepers:
            keeper.join()


def test_a_killed_worker_costs_no_file(cluster: Any, tmp_path: Path) -> None:
    for rank in range(FILES):
        write_trace(tmp_path / f"in/rank{rank}.json", rank, kernels=KERNELS)
    with distributed.Client(cluster) as client:
        workers = client.run(os.getpid)
    assert len(set(workers.values())) == 2
    victim, others = next(iter(workers.values())), []

    def kill_one(outcome: Any, report: ktrace.BatchReport) -> None:
        others.append(outcome.path)
        if len(others) == 1:
            os.kill(victim, signal.SIGKILL)

    report = ktrace.batch(f"{tmp_path}/in/*.json", tmp_path / "out", dask=cluster.scheduler_address, progress=kill_one)
    assert (len(report.done), report.failed) == (FILES, {})
    assert figures(tmp_path / "out", "rank") == [(rank, KERNELS, nanoseconds(KERNELS)) for rank in range(FILES)]
    assert not (tmp_path / "out/_ktrace/tmp").exists()
    with distributed.Client(cluster) as client:
        assert victim not in client.run(os.getpid).values()
    assert len(ktrace.batch(f"{tmp_path}/in/*.json", tmp_path / "out", dask=cluster.scheduler_address).kept) == FILES


def test_a_broken_file_is_listed(cluster: Any, tmp_path: Path) -> None:
    write_trace(tmp_path / "in/rank0.json", kernels=3)
    (tmp_path / "in/rank1.json").write_text("garbage")
    report = ktrace.batch(f"{tmp_path}/in/*.json", tmp_path / "out", dask=cluster.scheduler_address)
    assert [manifest.rows for manifest in report.done] == [3]
    assert ["unrecognised format" in reason for reason in report.failed.values()] == [True]


@pytest.mark.nightly
def test_a_file_that_kills_every_worker_is_listed(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rank0", "poison1", "rank2", "rank3"):
        write_trace(tmp_path / f"in/{name}.json", kernels=3)
    monkeypatch.setattr(executor, "convert_one", convert_or_die)
    with distributed.dask.config.set({"distributed.scheduler.allowed-failures": 2}):
        report = ktrace.batch(f"{tmp_path}/in/*.json", tmp_path / "out", dask=cluster.scheduler_address)
    assert sorted(manifest.label for manifest in report.done) == ["rank0", "rank2", "rank3"]
    assert ["KilledWorker" in reason for reason in report.failed.values()] == [True]


@pytest.mark.nightly
def test_a_cluster_that_loses_all_its_workers_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_trace(tmp_path / "in/rank0.json", kernels=3)
    monkeypatch.setattr(executor, "convert_one", convert_slowly)
    monkeypatch.setattr(executor, "PATIENCE", 3)
    with distributed.LocalCluster(n_workers=1, dashboard_address=None, host="127.0.0.1") as cluster:
        threading.Timer(5, cluster.scale, (0,)).start()
        report = ktrace.batch(f"{tmp_path}/in/*.json", tmp_path / "out", dask=cluster.scheduler_address)
    assert ["had no workers for 3 s" in reason for reason in report.failed.values()] == [True]


def test_no_scheduler_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trace(tmp_path / "rank0.json")
    with (
        distributed.dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(ktrace.UsageError, match="no Dask scheduler at tcp"),
    ):
        ktrace.batch(f"{tmp_path}/*.json", tmp_path / "out", dask="tcp://127.0.0.1:1")


def test_one_big_file_uses_all_workers_and_survives_one(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_big_trace(tmp_path / "rank3.json", events=30_000)
    monkeypatch.setattr(inputs, "STEP", 1 << 20)
    monkeypatch.setattr(executor, "convert_one", convert_or_die_once)
    report = ktrace.batch(source, tmp_path / "out", dask=cluster.scheduler_address)
    assert (tmp_path / "out.died").exists()
    assert (len(report.done), report.failed, report.as_whole) == (1, {}, {})
    assert len(report.done[0].shards) > 3
    (tmp_path / "one").mkdir()
    whole = ktrace.convert(source, tmp_path / "one/one.parquet", jobs=1)
    assert report.rows == whole.written
    assert figures(tmp_path / "out", "rank")[0][0] == 3
    assert figures(tmp_path / "out", "name") == figures(tmp_path / "one", "name")
