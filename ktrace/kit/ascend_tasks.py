"""The types of the device's tasks, as all files of Ascend's profilers spell them.

AI_CORE, AI_VECTOR_CORE, MIX_AIC, KERNEL_AICPU       kernel
NOTIFY_WAIT_SQE, EVENT_RECORD, "Notify Wait"         sync: by the scheduler, the runtime, FFTS+

Facts: msprof's tables of types (msmodel/sqe_type_map.py, ascend_task_association.cpp), the names of tasks in CANN's
runtime (2026), and tasks in real files.

Tasks of a device that repeat others: the same device, stream and task, at the same time.

a task around its subtask   AI_CORE, stream 47, task 0, 465,180 - 252,420     KERNEL_MIX_AIC, stream 47, task 0, 466,760
a row of task_time          MIX_AIC, stream 47, task 0, 465,180 - 252,420     op_summary, stream 47, task 0, 466,760

Ids of tasks are used again after a while, so that the time counts, too.

A collective is device work once: as the communication operator, whose tasks are ranges.

the operator   hcom_allReduce__77_0_1, 60,000 - 131,000            kernel
its tasks      Notify_Wait, Memcpy, hcom_allReduceAicpuKernel      sync; range

So msprof computes its analysis of overlaps: communication is the time of operators, and neither copies nor kernels
named ...AicpuKernel, ...AivKernel are compute (overlap_analysis_processor.cpp). At its lowest level it lists no tasks
of operators; those of the device are there all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int64
from ktrace.model.masks import NameTest, words_in
from ktrace.store.joins import positions

SYNC = re.compile(
    r"(?:REMOTE_)?(?:EVENT|NOTIFY|Notify|CAPTURE)[_ ]?(?:RECORD|WAIT|RESET|Record|Wait)?(?:_SQE|_EX)?"
    r"|STREAM_WAIT_EVENT|DAVID_EVENT_\w+|PLACE_HOLDER_SQE|WRITE_VALUE(?:_SQE)?|Write Value|MEM_(?:WAIT|WRITE)_VALUE"
)
COPY = re.compile(r"MEMCPY\w*|REDUCE_ASYNC\w*|SDMA(?:_SQE)?|PCIE_DMA_SQE|UBDMA|ASYNCDMA|RDMA_(?:DB_)?SEND|ROCCE_SQE")

#: Tasks that control the stream or the cache.
CONTROL = re.compile(
    r"STREAM_(?:SWITCH|ACTIVE|LABEL)\w*|LABEL_\w+|PROFIL(?:ER|ING)_\w+|MAINTENANCE|MODEL_(?:MAINT|END)\w*|DATA_DUMP\w*"
    r"|CREATE_\w+|PCTRACE\w*|FUSION_ISSUE\w*|CONDITION_SQE|END_SQE|CMO_SQE|(?:Invalidate |Writeback )?Data Context"
    r"|Load Context|OVERFLOW\w*|ONLINE_\w+|STARS_COMMON|NOP\w*|TASK_TIMEOUT_SET|TASK_FLIP|FLIP_TASK|FUSIONDUMP_\w+"
    r"|DATADUMP_\w+|DEBUG_(?:UN)?REGISTER\w*|(?:RINGBUFFER|DEVICE_RINGBUFFER)_\w+|GET_(?:DEVICE_MSG|STARS_VERSION)"
    r"|NPU_(?:GET|CLEAR)_FLOAT_STATUS|STREAM_TAG_SET|SET_STREAM_MODE|IPC_INT_NOTICE|ALLOC_DSA_ADDR|ADC_PROF|SQ_LOCK_UNLOCK"
    r"|UPDATE_ADDRESS|AICPU_(?:INFO_LOAD|LOADINFO)|ACTIVE_AICPU_STREAM|COMMON_CMD|MODEL_(?:EXIT_GRAPH|TASK_UPDATE|LOAD)"
)

#: Tasks that enclose others.
ENCLOSING = re.compile(r"MODEL_EXECUTE\w*|MsTx")

#: Facts of every device of Ascend's profilers; their files call it `NPU:0`, NPU_INFO.
DEVICE = {"vendor": "Huawei", "kind": "NPU"}

#: The type of a communication operator, which encloses its tasks.
COMMUNICATION = frozenset({"HCCL", "COMMUNICATION"})

#: Kernels that carry out a communication operator, on CPU cores or vector cores of the device.
_of_operator = NameTest(lambda name: name.endswith(("AicpuKernel", "AivKernel")))

_KINDS = ((SYNC, "sync"), (COPY, "memcpy"), (CONTROL, "overhead"), (ENCLOSING, "range"))

#: `operation` of a copy -> its direction. "addr device to device" reads its addresses from memory.
DIRECTIONS = {
    "host to host": "HtoH",
    "host to device": "HtoD",
    "host to device ex": "HtoD",
    "device to host": "DtoH",
    "device to host ex": "DtoH",
    "device to device": "DtoD",
    "addr device to device": "DtoD",
}


def task_kind(task_type: str) -> str:
    """Returns the kind of a task of the device; a type that isn't known is a kernel's."""
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(task_type)), "kernel")


class TaskIndex:
    """Tasks by device, stream and id, and by their start: 16 bytes are kept for each.

    `keys` has a row for each part of a task's id, and `starts` is in ns.
    """

    def __init__(self, keys: Int64, starts: Int64) -> None:
        self._values = [np.unique(key) for key in keys]
        codes, _ = self._codes(keys)
        self._tasks, numbers = np.unique(codes, return_inverse=True)
        self._starts = np.sort(starts)
        self._places = np.sort(numbers * (len(starts) + 1) + np.searchsorted(self._starts, starts))

    def _codes(self, keys: Int64 | Sequence[Int64]) -> tuple[Int64, Bools]:
        """A number for each id, and whether all of its parts occur."""
        codes, occur = np.zeros(len(keys[0]), np.int64), np.ones(len(keys[0]), np.bool_)
        for key, values in zip(keys, self._values, strict=True):
            at = np.minimum(np.searchsorted(values, key), len(values) - 1)
            codes = codes * len(values) + at
            occur &= values[at] == key
        return codes, occur

    def within(self, keys: Sequence[Int64], starts: Int64, ends: Int64) -> Bools:
        """Whether one of the tasks with each id begins at or after a start, and before an end."""
        if not len(self._starts):
            return np.zeros(len(starts), np.bool_)
        codes, occur = self._codes(keys)
        numbers = positions(codes, self._tasks)
        begins, beyond = (np.searchsorted(self._starts, times) for times in (starts, ends))
        first, last = (np.searchsorted(self._places, numbers * (len(self._starts) + 1) + at) for at in (begins, beyond))
        inside: Bools = occur & (numbers >= 0) & (last > first)
        return inside


class Operators:
    """The times of communication operators: `devices`, and `starts` and `ends` in ns."""

    def __init__(self, devices: Int64, starts: Int64, ends: Int64) -> None:
        self._unions = {device: _union(starts[rows], ends[rows]) for device, rows in _by_value(devices)}

    def enclose(self, devices: Int64, starts: Int64, ends: Int64) -> Bools:
        """Whether each time lies within those of the operators of its device."""
        within = np.zeros(len(devices), np.bool_)
        for device, rows in _by_value(devices):
            if device in self._unions:
                first, last = self._unions[device]
                at = np.searchsorted(first, starts[rows], "right") - 1
                within[rows] = (at >= 0) & (ends[rows] <= last[at])
        return within

    def tasks(self, kinds: pa.Array, names: pa.Array, *, listed: Bools, enclosed: Bools, directed: Bools) -> Bools:
        """Which tasks of devices repeat an operator: those that are `listed` as its own, and kernels by their name.

        Where none can be listed, these are copies that an operator has `enclosed`, but for those that the host asked
        for, which state a direction (`directed`).
        """
        if not self._unions:
            return np.zeros(len(kinds), np.bool_)
        is_copy, is_kernel = words_in(kinds, ("memcpy",)), words_in(kinds, ("kernel",))
        return (is_copy & (listed | (enclosed & ~directed))) | (is_kernel & (listed | _of_operator(names)))


def _by_value(values: Int64) -> Iterator[tuple[int, Int64]]:
    """Each distinct value with its places."""
    for value in np.unique(values).tolist():
        yield value, np.flatnonzero(values == value)


def _union(starts: Int64, ends: Int64) -> tuple[Int64, Int64]:
    """Times without overlaps that cover the same, by their start."""
    order = np.argsort(starts)
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    first = np.append(True, starts[1:] > ends[:-1])
    return starts[first], ends[np.append(first[1:], True)]
