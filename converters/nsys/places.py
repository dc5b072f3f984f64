"""Where a row stands: process and thread out of one number, and the device.

globalTid 0x119f80819f808   pid = bits 24 to 47, tid = bits 0 to 23
deviceId  0 of process 7    TARGET_INFO_CUDA_DEVICE: gpuId 3, cudaId 0, pid 7  ->  device 0, and the argument gpuId 3

The device is CUDA's ordinal, as in NVIDIA's own reports, but where that means several GPUs: two processes that see one
GPU each call both of them 0. Then it is the number in the system, and the ordinal is the argument.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.converters._shared.columnar.blocks import Block
from ktrace.converters._shared.sqlite.database import Database

#: The bits of a process, and of a thread.
LOW = (1 << 24) - 1

#: What stands for "no stream", "no event" and the like.
NOTHING = (1 << 32) - 1


def pid_of(number: int) -> int:
    """The process of a globalPid or globalTid."""
    return number >> 24 & LOW


def tid_of(number: int) -> int:
    """The thread of a globalTid."""
    return number & LOW


def core_track(number: int) -> str:
    """The track of a core."""
    return f"CPU {number}"


class Places:
    """Processes, threads, devices of rows; remembers those that it has seen."""

    def __init__(self, database: Database) -> None:
        self.threads: set[int] = set()
        self.processes: set[int] = set()
        self.cores: set[int] = set()
        self._mixed: set[int | None] = set()
        self.contexts: set[tuple[int | None, int, int]] = set()
        self._gpus = _gpus_of(database)
        meant: dict[int, set[int]] = {}
        ordinals: dict[int, set[int]] = {}
        for (_, ordinal), gpu in self._gpus.items():
            meant.setdefault(ordinal, set()).add(gpu)
            ordinals.setdefault(gpu, set()).add(ordinal)
        self._by_ordinal = all(len(gpus) == 1 for gpus in meant.values())
        self._gpus = {key: gpu for key, gpu in self._gpus.items() if gpu != key[1]}
        self._number: dict[int, int | None] = {}
        if self._by_ordinal:
            self._number = dict.fromkeys(meant)
            self._number |= {gpu: next(iter(own)) for gpu, own in ordinals.items() if len(own) == 1}
            self._number |= {gpu: gpu for gpu, own in ordinals.items() if gpu in own}

    def gpu(self, pid: int | None, ordinal: int) -> int:
        """The number in the system of the GPU that a process calls by that ordinal."""
        return self._gpus.get((pid, ordinal), self._gpus.get((None, ordinal), ordinal))

    def device_of(self, pid: int | None, ordinal: int) -> int:
        """The column `device` of an ordinal."""
        return ordinal if self._by_ordinal else self.gpu(pid, ordinal)

    def number(self, gpu: int) -> int | None:
        """The column `device` of a GPU of the system; None where CUDA calls another one by that number."""
        return self._number.get(gpu, gpu)

    def gpus(self, numbers: pa.Array) -> dict[str, pa.Array]:
        """The column `device` of GPUs of the system, and as an argument the number of those that have another one."""
        device = numbers
        for gpu, number in self._number.items():
            if gpu != number:
                device = pc.if_else(pc.fill_null(pc.equal(numbers, gpu), False), pa.scalar(number, pa.int64()), device)
        if device is numbers:
            return {"device": numbers}
        other = pc.fill_null(pc.equal(device, numbers), False)
        return {"device": device, "args.gpuId": pc.if_else(other, None, numbers)}

    def thread(self, block: Block) -> dict[str, pa.Array | None]:
        """Columns `pid` and `tid` of the block's globalTid."""
        numbers = block.take("globalTid")
        if numbers is None:
            return self.process(block)
        self.threads.update(number for number in pc.unique(numbers).to_pylist() if number is not None)
        pid = pc.bit_wise_and(pc.shift_right(numbers, 24), LOW)
        return {"pid": pid, "tid": pc.bit_wise_and(numbers, LOW)}

    def process(self, block: Block) -> dict[str, pa.Array | None]:
        """The column `pid` of the block's globalPid."""
        numbers = block.take("globalPid")
        if numbers is None:
            return {}
        self.processes.update(number for number in pc.unique(numbers).to_pylist() if number is not None)
        return {"pid": pc.bit_wise_and(pc.shift_right(numbers, 24), LOW)}

    def device(self, block: Block, pid: pa.Array | None, *, work: bool = True) -> dict[str, pa.Array | None]:
        """Columns `device`, `context` and `stream`; of ordinal and number in the system the other one is an argument.

        Rows that are no `work` have a device that may be wrong: it is the one on which their context has work.
        """
        context, stream = block.take("contextId"), block.take("streamId")
        if stream is not None:
            stream = without(stream, NOTHING)
        given = block.take("deviceId")
        if given is None:
            return {"context": context, "stream": stream}
        gpu = self._physical(given, pid)
        device = given if self._by_ordinal else gpu
        if context is not None and work:
            self._see(pid, device, context)
        elif context is not None:
            device = self._of_contexts(pid, device, context)
        columns: dict[str, Any] = {"device": device, "context": context, "stream": stream}
        if gpu is not given and self._by_ordinal:
            columns["args.gpuId"] = pc.if_else(pc.equal(gpu, given), None, gpu)
        elif device is not given:
            columns["args.deviceId"] = pc.if_else(pc.equal(device, given), None, given)
        return columns

    def _physical(self, given: pa.Array, pid: pa.Array | None) -> pa.Array:
        """The GPUs of CUDA ordinals."""
        device = given
        for (process, ordinal), gpu in self._gpus.items():
            mine = pc.equal(given, ordinal)
            if process is not None:
                mine = pc.and_(mine, pc.equal(pid, process)) if pid is not None else pc.less(given, given)
            device = pc.if_else(pc.fill_null(mine, False), gpu, device)
        return device

    def _of_contexts(self, pid: pa.Array | None, device: pa.Array, context: pa.Array) -> pa.Array:
        """The devices on which contexts have work, those given where there is none or on several."""
        found: dict[tuple[int | None, int], set[int]] = {}
        for process, number, gpu in self.contexts:
            found.setdefault((process, number), set()).add(gpu)
        known = device
        for (process, number), gpus in found.items():
            mine = pc.equal(context, number)
            if pid is not None:
                mine = pc.and_(mine, pc.equal(pid, process))
            if len(gpus) == 1:
                device = pc.if_else(pc.fill_null(mine, False), next(iter(gpus)), device)
        return known if device.equals(known) else device

    def _see(self, pid: pa.Array | None, device: pa.Array, context: pa.Array) -> None:
        """Remembers which context of which process is on which device."""
        pids = pid if pid is not None else pa.nulls(len(device), pa.int64())
        mixed = pc.bit_wise_xor(pc.shift_left(pc.fill_null(pids, -1), 40), pc.shift_left(context, 8))
        keys = set(pc.unique(pc.bit_wise_xor(mixed, device)).to_pylist())
        if keys <= self._mixed:
            return
        self._mixed |= keys
        table = pa.table({"pid": pids, "context": context, "device": device})
        found = table.group_by(["pid", "context", "device"]).aggregate([])
        rows = zip(*(found[name].to_pylist() for name in ("pid", "context", "device")), strict=True)
        self.contexts.update(row for row in rows if row[1] is not None and row[2] is not None)


def _gpus_of(database: Database) -> dict[tuple[int | None, int], int]:
    """(process, ordinal) -> number in the system."""
    gpus: dict[tuple[int | None, int], int] = {}
    for table in database.like("TARGET_INFO_CUDA_DEVICE"):
        for gpu, ordinal, pid in database.rows(table, "gpuId", "cudaId", "pid"):
            if all(isinstance(number, int) for number in (gpu, ordinal, pid)):
                gpus[pid, ordinal] = gpu
    if gpus:
        return gpus
    for table in database.like("TARGET_INFO_GPU"):  # before 2024 the ordinals of all processes are one
        for gpu, ordinal in database.rows(table, "id", "cuDevice"):
            if isinstance(gpu, int) and isinstance(ordinal, int):
                gpus[None, ordinal] = gpu
    return gpus


def without(column: pa.Array, nothing: int) -> pa.Array:
    """The column with null in place of the number that means nothing."""
    found = pc.equal(column, nothing)
    return pc.if_else(found, None, column) if found.true_count else column
