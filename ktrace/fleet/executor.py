"""Who does the tasks: processes of this machine, or the workers of a Dask cluster.

    tasks ──► executor ──► outcomes, in the order in which they come

A worker may die, of memory most likely. Of processes, the files that were being read then are read once more, each
alone, so that the one that kills is told from those beside it. Dask gives them to other workers, three times, and those
that it then gives up are likewise done once more alone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess

from ktrace.errors import UsageError, import_extra
from ktrace.fleet.tasks import Outcome, Task, convert_one

_DIED = "its process died twice, the second time with no other file beside it: it may need more memory than there is"


def in_processes(tasks: Iterable[Task], jobs: int) -> Generator[Outcome, None, None]:
    """Does the tasks in so many processes, which end with the iterator and with this process."""
    with tempfile.TemporaryDirectory(prefix="ktrace.") as scratch:
        suspects = yield from _in_pool(deque(tasks), jobs, scratch)
        for task in suspects:
            if (yield from _in_pool(deque([task]), 1, scratch)):
                yield Outcome(task.path, reason=f"{task.path}: {_DIED}")


def _in_pool(waiting: deque[Task], jobs: int, scratch: str) -> Generator[Outcome, None, list[Task]]:
    """Does the tasks; returns those that were being done when a process died. The others go on in a new pool."""
    suspects: list[Task] = []
    while waiting:
        others = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, context, initializer=_be_worker, initargs=(scratch,))
        running: dict[Future[Outcome], Task] = {}
        try:
            suspects += yield from _feed(pool, waiting, running, jobs)
        finally:
            # After the last task they are idle; after an interruption or a death nobody waits for what they do.
            _end(set(multiprocessing.active_children()) - others)
            pool.shutdown(cancel_futures=True)
    return suspects


def _feed(
    pool: ProcessPoolExecutor, waiting: deque[Task], running: dict[Future[Outcome], Task], jobs: int
) -> Generator[Outcome, None, list[Task]]:
    """Gives each process one task at a time, so that what a dead one did is known."""
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
            whole = [future for future in running if future.done() and not future.exception()]
            suspects = [task for future, task in running.items() if future not in whole]
            yield from [future.result() for future in whole]
            return suspects
    return []


def _be_worker(scratch: str) -> None:
    """Prepares a process: its parent removes its temporary files, is interrupted for it, and takes it along."""
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
    """Does the tasks on the workers of the cluster whose scheduler has that address.

    Tasks that run when the iterator is closed go on where they are; those that wait are given up.
    Raises UsageError where dask.distributed is not installed or no scheduler answers there.
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
            for future in as_completed(futures):
                if not future.cancelled() and isinstance(future.exception(), distributed.KilledWorker):
                    suspects.append(futures[future])
                else:
                    yield _outcome(future, futures[future])
            for task in suspects:  # each alone, as one may only have been beside the one that kills
                again = executor.submit(convert_one, task)
                futures[again] = task
                yield _outcome(again, task)
        finally:
            for future in futures:
                future.cancel()
            executor.shutdown(wait=False)


def _outcome(future: Future[Outcome], task: Task) -> Outcome:
    """What a task gave, or what Dask says of it: a task that killed its workers, a cluster that is gone."""
    try:
        return future.result()
    except CancelledError:
        return Outcome(task.path, reason=f"{task.path}: the cluster gave it up")
    except Exception as error:  # of Dask or of what unpickles; `convert_one` raises none
        return Outcome(task.path, reason=f"{task.path}: {type(error).__name__}: {error}")
