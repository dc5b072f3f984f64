"""Finds process, thread and device of rows.

globalTid 0x119f80819f808   pid = bits 24 to 47, tid = bits 0 to 23
deviceId  0 of process 7    TARGET_INFO_CUDA_DEVICE: gpuId 3, cudaId 0, pid 7  ->  device 0, and the argument gpuId 3

The device is CUDA's ordinal, as in NVIDIA's own reports, unless an ordinal means several GPUs: two processes that see
one GPU each both use the ordinal 0. Then the device is the GPU's number in the system, and the ordinal is the argument.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.dictionaries import combinations
from ktrace.kit.sqlite.database import Database

#: The mask of a process id, and of a thread id.
LOW = (1 << 24) - 1

#: The number that means "no stream", "no event" and the like.
NOTHING = (1 << 32) - 1


def pid_of(number: int) -> int:
    """Returns the process of a globalPid or globalTid."""
    return number >> 24 & LOW


def tid_of(number: int) -> int:
    """Returns the thread of a globalTid."""
    return number & LOW


def core_track(number: int) -> str:
    """Returns the track of a core."""
    return f"CPU {number}"


class NsysTracks:
    """Finds the processes, threads and devices of rows, and keeps those that occurred."""

    def __init__(self, database: Database) -> None:
        self.threads: set[int] = set()
        self.processes: set[int] = set()
        self.cores: set[int] = set()
        self.contexts: set[tuple[int | None, int, int]] = set()
        self._gpus = _gpus_of(database)
        gpus_of: dict[int, set[int]] = {}
        ordinals: dict[int, set[int]] = {}
        for (_, ordinal), gpu in self._gpus.items():
            gpus_of.setdefault(ordinal, set()).add(gpu)
            ordinals.setdefault(gpu, set()).add(ordinal)
        self._by_ordinal = all(len(gpus) == 1 for gpus in gpus_of.values())
        self._gpus = {key: gpu for key, gpu in self._gpus.items() if gpu != key[1]}
        self._number: dict[int, int | None] = {}
        if self._by_ordinal:
            self._number = dict.fromkeys(gpus_of)
            self._number |= {gpu: next(iter(own)) for gpu, own in ordinals.items() if len(own) == 1}
            self._number |= {gpu: gpu for gpu, own in ordinals.items() if gpu in own}

    def gpu(self, pid: int | None, ordinal: int) -> int:
        """Returns the number in the system of the GPU with that ordinal in a process."""
        return self._gpus.get((pid, ordinal), self._gpus.get((None, ordinal), ordinal))

    def device_of(self, pid: int | None, ordinal: int) -> int:
        """Returns the value of the column `device` for an ordinal."""
        return ordinal if self._by_ordinal else self.gpu(pid, ordinal)

    def number(self, gpu: int) -> int | None:
        """Returns the value of `device` for a GPU of the system; None if CUDA uses that number for a different GPU."""
        return self._number.get(gpu, gpu)

    def gpus(self, numbers: pa.Array) -> dict[str, pa.Array]:
        """Returns the column `device` of GPUs of the system, and their number as an argument if it differs."""
        device = numbers
        for gpu, number in self._number.items():
            if gpu != number:
                device = pc.if_else(pc.fill_null(pc.equal(numbers, gpu), False), pa.scalar(number, pa.int64()), device)
        if device is numbers:
            return {"device": numbers}
        other = pc.fill_null(pc.equal(device, numbers), False)
        return {"device": device, "args.gpuId": pc.if_else(other, None, numbers)}

    def thread(self, block: Block) -> dict[str, pa.Array | None]:
        """Returns the columns `pid` and `tid` of the block's globalTid."""
        numbers = block.take("globalTid")
        if numbers is None:
            return self.process(block)
        self.threads.update(number for number in pc.unique(numbers).to_pylist() if number is not None)
        pid = pc.bit_wise_and(pc.shift_right(numbers, 24), LOW)
        return {"pid": pid, "tid": pc.bit_wise_and(numbers, LOW)}

    def process(self, block: Block) -> dict[str, pa.Array | None]:
        """Returns the column `pid` of the block's globalPid."""
        numbers = block.take("globalPid")
        if numbers is None:
            return {}
        self.processes.update(number for number in pc.unique(numbers).to_pylist() if number is not None)
        return {"pid": pc.bit_wise_and(pc.shift_right(numbers, 24), LOW)}

    def device(self, block: Block, pid: pa.Array | None, *, work: bool = True) -> dict[str, pa.Array | None]:
        """Returns the columns `device`, `context` and `stream`, and the GPU's other number as an argument.

        Rows that aren't `work` may have a wrong device: they get the device on which their context has work.
        """
        context, stream = block.take("contextId"), block.take("streamId")
        if stream is not None:
            stream = without(stream, NOTHING)
        ordinals = block.take("deviceId")
        if ordinals is None:
            return {"context": context, "stream": stream}
        gpu = self._physical(ordinals, pid)
        device = ordinals if self._by_ordinal else gpu
        if context is not None and work:
            self._add_contexts(pid, device, context)
        elif context is not None:
            device = self._of_contexts(pid, device, context)
        columns: dict[str, Any] = {"device": device, "context": context, "stream": stream}
        if gpu is not ordinals and self._by_ordinal:
            columns["args.gpuId"] = pc.if_else(pc.equal(gpu, ordinals), None, gpu)
        elif device is not ordinals:
            columns["args.deviceId"] = pc.if_else(pc.equal(device, ordinals), None, ordinals)
        return columns

    def _physical(self, ordinals: pa.Array, pid: pa.Array | None) -> pa.Array:
        """Returns the GPUs of CUDA ordinals."""
        device = ordinals
        for (process, ordinal), gpu in self._gpus.items():
            match = pc.equal(ordinals, ordinal)
            if process is not None:
                match = pc.and_(match, pc.equal(pid, process)) if pid is not None else pc.less(ordinals, ordinals)
            device = pc.if_else(pc.fill_null(match, False), gpu, device)
        return device

    def _of_contexts(self, pid: pa.Array | None, device: pa.Array, context: pa.Array) -> pa.Array:
        """Returns the devices on which contexts have work; `device` if a context has work on none or several."""
        gpus_of: dict[tuple[int | None, int], set[int]] = {}
        for process, number, gpu in self.contexts:
            gpus_of.setdefault((process, number), set()).add(gpu)
        before = device
        for (process, number), gpus in gpus_of.items():
            match = pc.equal(context, number)
            if pid is not None:
                match = pc.and_(match, pc.equal(pid, process))
            if len(gpus) == 1:
                device = pc.if_else(pc.fill_null(match, False), next(iter(gpus)), device)
        return before if device.equals(before) else device

    def _add_contexts(self, pid: pa.Array | None, device: pa.Array, context: pa.Array) -> None:
        """Notes the device of each context of each process."""
        pids = pid if pid is not None else pa.nulls(len(device), pa.int64())
        self.contexts.update(row for row in combinations([pids, context, device]) if None not in row[1:])


def _gpus_of(database: Database) -> dict[tuple[int | None, int], int]:
    """Returns (process, ordinal) -> number in the system."""
    gpus: dict[tuple[int | None, int], int] = {}
    for table in database.like("TARGET_INFO_CUDA_DEVICE"):
        for gpu, ordinal, pid in database.rows(table, "gpuId", "cudaId", "pid"):
            if all(isinstance(number, int) for number in (gpu, ordinal, pid)):
                gpus[pid, ordinal] = gpu
    if gpus:
        return gpus
    for table in database.like("TARGET_INFO_GPU"):  # before 2024 all processes have the same ordinals
        for gpu, ordinal in database.rows(table, "id", "cuDevice"):
            if isinstance(gpu, int) and isinstance(ordinal, int):
                gpus[None, ordinal] = gpu
    return gpus


def without(column: pa.Array, nothing: int) -> pa.Array:
    """Returns the column with null in place of the number `nothing`."""
    equal = pc.equal(column, nothing)
    return pc.if_else(equal, None, column) if equal.true_count else column
