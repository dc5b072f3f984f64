"""Runs tasks in processes of this machine, or on the workers of a Dask cluster.

    tasks ──► executor ──► outcomes, in the order of completion

A worker may die, most likely for lack of memory. With processes, the file that it was reading is read again on its
own: those read at the same time may have taken the memory. Dask gives such tasks to other workers, three times; those
that Dask then gives up are run once more on their own as well. Dask itself waits without end for workers that don't
come back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from typing import Any, Protocol, cast

from ktrace.errors import UsageError, import_extra
from ktrace.fleet.tasks import Outcome, convert_one
from ktrace.parallel.workers import Died, Workers, can_start
from ktrace.scratch import scratch_folder

#: Seconds after which a cluster without workers isn't waited for any more, and between looks at it.
PATIENCE = 300
_BETWEEN = 2

_DIED = (
    "its process died twice, the second time while reading this file alone: it may need more memory than is available"
)


class HasPath(Protocol):
    """A task of an input."""

    @property
    def path(self) -> str:
        """The input."""


#: Does a task. The default is `convert_one`.
Run = Callable[[Any], Outcome]


def in_processes(tasks: Iterable[HasPath], jobs: int, run: Run | None = None) -> Generator[Outcome, None, None]:
    """Runs the tasks in `jobs` processes, which end with the iterator or with this process. Yields the outcomes."""
    run = run or cast(Run, convert_one)
    if not can_start():
        yield from map(run, tasks)  # one after the other in this process
        return
    suspects = yield from _shared(tasks, jobs, run)
    for task in suspects:
        if (yield from _shared([task], 1, run)):
            yield Outcome(task.path, reason=f"{task.path}: {_DIED}")


def _shared(tasks: Iterable[HasPath], jobs: int, run: Run) -> Generator[Outcome, None, list[HasPath]]:
    """Shares the tasks among processes. Returns those whose process died."""
    suspects: list[HasPath] = []
    with scratch_folder() as scratch, ThreadPoolExecutor(jobs) as threads:
        workers, running = Workers(scratch), dict[Future[Outcome], HasPath]()
        try:
            for task in tasks:
                running[threads.submit(workers.call, run, task)] = task
            for future in as_completed(running):
                task = running.pop(future)
                try:
                    yield future.result()
                except Died:
                    suspects.append(task)
        finally:
            # After the last task they are idle; after an interruption their results aren't needed.
            threads.shutdown(wait=False, cancel_futures=True)
            workers.end()
    return suspects


def on_dask(tasks: Sequence[HasPath], address: str, run: Run | None = None) -> Generator[Outcome, None, None]:
    """Runs the tasks on the workers of the cluster whose scheduler has that address. Yields the outcomes.

    If the iterator is closed early, running tasks continue on their workers and waiting tasks are cancelled.
    Raises UsageError if dask.distributed isn't installed or no scheduler answers.
    """
    run = run or cast(Run, convert_one)
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
        futures = {executor.submit(run, task): task for task in tasks}
        try:
            suspects = []
            for future in _done(futures, client):
                if not future.cancelled() and isinstance(future.exception(), distributed.KilledWorker):
                    suspects.append(futures[future])
                else:
                    yield _outcome(future, futures[future])
            for task in suspects:  # each alone: a task may have died only because of another one on the same worker
                again = executor.submit(run, task)
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


def _outcome(future: Future[Outcome], task: HasPath) -> Outcome:
    """Returns the outcome of a task, or the reason that Dask reports: killed workers, a lost cluster."""
    try:
        return future.result()
    except CancelledError:
        return Outcome(task.path, reason=f"{task.path}: the cluster cancelled it, or had no workers for {PATIENCE} s")
    except Exception as error:  # from Dask or from unpickling; `convert_one` raises none
        return Outcome(task.path, reason=f"{task.path}: {type(error).__name__}: {error}")
