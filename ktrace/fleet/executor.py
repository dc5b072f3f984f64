"""Runs tasks in processes of this machine, or on the workers of a Dask cluster.

    tasks ──► executor ──► outcomes, in the order of completion

A worker may die, most likely for lack of memory. With processes, each file that was being read at that time is read
again on its own, which separates the file that kills its process from those read at the same time. Dask gives such
tasks to other workers, three times; those that Dask then gives up are run once more on their own as well. Dask itself
waits without end for workers that don't come back.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import Any

from ktrace.errors import UsageError, import_extra
from ktrace.fleet.tasks import Outcome, Task, convert_one
from ktrace.scratch import scratch_folder

#: Seconds after which a cluster without workers isn't waited for any more, and between looks at it.
PATIENCE = 300
_BETWEEN = 2

_DIED = "its process died twice, the second time reading this file alone: it may need more memory than there is"


def in_processes(tasks: Iterable[Task], jobs: int) -> Generator[Outcome, None, None]:
    """Runs the tasks in `jobs` processes, which end with the iterator or with this process. Yields the outcomes."""
    if not _has_semaphores():
        yield from map(convert_one, tasks)  # one after the other in this process
        return
    with scratch_folder() as scratch:
        suspects = yield from _in_pool(deque(tasks), jobs, str(scratch))
        for task in suspects:
            if (yield from _in_pool(deque([task]), 1, str(scratch))):
                yield Outcome(task.path, reason=f"{task.path}: {_DIED}")


def _has_semaphores() -> bool:
    """Whether this system can share work among processes: without /dev/shm there are no semaphores."""
    try:
        multiprocessing.get_context("spawn").Semaphore()
    except (OSError, ImportError):
        return False
    return True


def _in_pool(waiting: deque[Task], jobs: int, scratch: str) -> Generator[Outcome, None, list[Task]]:
    """Runs the tasks. If a process dies, a new pool runs the rest. Returns the tasks that were running at a death."""
    suspects: list[Task] = []
    while waiting:
        others = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, context, initializer=_be_worker, initargs=(scratch,))
        running: dict[Future[Outcome], Task] = {}
        try:
            suspects += yield from _feed(pool, waiting, running, jobs)
        finally:
            # After the last task they are idle; after an interruption or a death their results aren't needed.
            _end(set(multiprocessing.active_children()) - others)
            pool.shutdown(cancel_futures=True)
    return suspects


def _feed(
    pool: ProcessPoolExecutor, waiting: deque[Task], running: dict[Future[Outcome], Task], jobs: int
) -> Generator[Outcome, None, list[Task]]:
    """Gives each process one task at a time, so that the tasks of a dead process are known. Returns these."""
    while waiting or running:
        try:
            while waiting and len(running) < jobs:
                running[pool.submit(convert_one, waiting[0])] = waiting[0]
                waiting.popleft()
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
                del running[future]
        except BrokenProcessPool:
            finished = [future for future in running if future.done() and not future.exception()]
            suspects = [task for future, task in running.items() if future not in finished]
            yield from [future.result() for future in finished]
            return suspects
    return []


def _be_worker(scratch: str) -> None:
    """Prepares a worker: its parent handles Ctrl-C and its temporary files, and it ends when its parent ends."""
    tempfile.tempdir = scratch
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _end(processes: Iterable[BaseProcess]) -> None:
    for process in processes:
        process.kill()


def on_dask(tasks: Sequence[Task], address: str) -> Generator[Outcome, None, None]:
    """Runs the tasks on the workers of the cluster whose scheduler has that address. Yields the outcomes.

    If the iterator is closed early, running tasks continue on their workers and waiting tasks are cancelled.
    Raises UsageError if dask.distributed isn't installed or no scheduler answers.
    """
    distributed = import_extra("distributed", "dask", "--dask", hint=", on the workers, too", error=UsageError)
    try:
        client = distributed.Client(address)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler at {address}: {error}",
            expected="its address, such as tcp://10.0.0.1:8786",
            remedy="dask scheduler, and on each machine dask worker ADDRESS",
        ) from None
    with client:
        executor = client.get_executor(pure=False)
        futures = {executor.submit(convert_one, task): task for task in tasks}
        try:
            suspects = []
            for future in _done(futures, client):
                if not future.cancelled() and isinstance(future.exception(), distributed.KilledWorker):
                    suspects.append(futures[future])
                else:
                    yield _outcome(future, futures[future])
            for task in suspects:  # each alone: a task may have died only because of another one on the same worker
                again = executor.submit(convert_one, task)
                futures[again] = task
                yield from (_outcome(future, task) for future in _done([again], client))
        finally:
            for future in futures:
                future.cancel()
            executor.shutdown(wait=False)


def _done(futures: Iterable[Future[Outcome]], client: Any) -> Iterator[Future[Outcome]]:
    """Yields futures as they are done; cancels the others once the cluster has had no workers for PATIENCE seconds."""
    left, seen = set(futures), time.monotonic()
    while left:
        done, left = wait(left, timeout=_BETWEEN, return_when=FIRST_COMPLETED)
        yield from done
        if done or client.nthreads():  # what is done was done by a worker
            seen = time.monotonic()
        elif time.monotonic() - seen > PATIENCE:
            for future in left:
                future.cancel()


def _outcome(future: Future[Outcome], task: Task) -> Outcome:
    """Returns the outcome of a task, or the reason that Dask reports: killed workers, a lost cluster."""
    try:
        return future.result()
    except CancelledError:
        return Outcome(task.path, reason=f"{task.path}: the cluster cancelled it, or had no workers for {PATIENCE} s")
    except Exception as error:  # from Dask or from unpickling; `convert_one` raises none
        return Outcome(task.path, reason=f"{task.path}: {type(error).__name__}: {error}")
