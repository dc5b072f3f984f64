"""The state that the readers of all tables share: the database, names, words of enumerations, places of rows, batches.

ENUM_CUDA_MEMCPY_OPER  1 | CUDA_MEMCPY_KIND_HTOD | Host-to-Device

Tables of enumerations exist since 2023; for a file without them the words are those of these tables in 2023.

deviceId  0 of process 7    TARGET_INFO_CUDA_DEVICE: gpuId 3, cudaId 0, pid 7  ->  device 0, and the argument gpuId 3

The device is CUDA's ordinal, as in NVIDIA's own reports, unless an ordinal means several GPUs: two processes that see
one GPU each both use the ordinal 0. Then the device is the GPU's number in the system, and the ordinal is the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.dictionaries import combinations, mapped_words
from ktrace.kit.sqlite import Database
from ktrace.kit.sqlite.lookup import Texts
from ktrace.model.arrays import Int64

from .origins import GraphNodes, Stacks
from .typed_columns import LOW, NO_NAME, NOTHING, typed, without


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
            self._number |= {gpu: next(iter(ids)) for gpu, ids in ordinals.items() if len(ids) == 1}
            self._number |= {gpu: gpu for gpu, ids in ordinals.items() if gpu in ids}

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

    def work(self, block: Block, *, work: bool = True) -> dict[str, pa.Array | None]:
        """Returns the columns of `process` and of `device`."""
        process = self.process(block)
        return {**process, **self.device(block, process.get("pid"), work=work)}

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
            pids = pid if pid is not None else pa.nulls(len(device), pa.int64())
            self.contexts.update(row for row in combinations([pids, context, device]) if None not in row[1:])
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


#: Column -> the enumeration of its numbers, in any table.
_COLUMNS = {
    "copyKind": "CUDA_MEMCPY_OPER",
    "srcKind": "CUDA_MEM_KIND",
    "dstKind": "CUDA_MEM_KIND",
    "memKind": "CUDA_MEM_KIND",
    "launchType": "CUDA_KERNEL_LAUNCH_TYPE",
    "cacheConfig": "CUDA_FUNC_CACHE_CONFIG",
    "sharedMemoryLimitConfig": "CUDA_SHARED_MEM_LIMIT_CONFIG",
    "migrationCause": "CUDA_UNIF_MEM_MIGRATION",
    "faultAccessType": "CUDA_UNIF_MEM_ACCESS_TYPE",
    "syncType": "CUPTI_SYNC_TYPE",
    "overheadType": "CUPTI_OVERHEAD_TYPE",
    "memoryOperationType": "CUDA_DEV_MEM_EVENT_OPER",
    "operationType": "CUDA_MEMPOOL_OPER",
    "poolType": "CUDA_MEMPOOL_TYPE",
    "threadState": "SAMPLING_THREAD_STATE",
}

#: The words of enumerations for a file without such tables, each counted from 0.
_KNOWN = {
    "CUDA_MEMCPY_OPER": (
        "Unknown Host-to-Device Device-to-Host Host-to-Array Array-to-Host Array-to-Array Array-to-Device "
        "Device-to-Array Device-to-Device Host-to-Host Peer-to-Peer Unified_Host-to-Device Unified_Device-to-Host "
        "Unified_Device-to-Device"
    ),
    "CUDA_MEM_KIND": "Pageable Pinned Device Array Managed Device_Static Managed_Static Unknown",
    "CUDA_KERNEL_LAUNCH_TYPE": "Unknown Regular Coop_Single_Device Coop_Multi_Device",
    "CUDA_FUNC_CACHE_CONFIG": "None Shared L1 Equal",
    "CUDA_SHARED_MEM_LIMIT_CONFIG": "Default Opt_in",
    "CUDA_UNIF_MEM_MIGRATION": "Unknown User_prefetch Page_fault Speculative_prefetch Eviction Access_counters",
    "CUDA_UNIF_MEM_ACCESS_TYPE": "Unknown Read Write Atomic Prefetch",
    "CUPTI_SYNC_TYPE": "Unknown Event_sync Stream_wait_sync Stream_sync Context_sync",
    "CUDA_DEV_MEM_EVENT_OPER": "Allocation Deallocation",
    "CUDA_MEMPOOL_OPER": "Invalid Created Destroyed Trimmed",
    "CUDA_MEMPOOL_TYPE": "Invalid Local Imported",
    "CUPTI_STREAM_TYPE": "Unknown_stream_type Default_stream Non-blocking_stream Null_stream",
    "DIAGNOSTIC_SEVERITY_LEVEL": "Unknown Info Warning Error Verbose",
    "DIAGNOSTIC_SOURCE_TYPE": "Unknown_source Injection Daemon Analysis",
    "DIAGNOSTIC_TIMESTAMP_SOURCE": "Unknown_timestamp Target_timestamp Host_timestamp",
}
_OVERHEADS = (
    "Undefined",
    "Unknown",
    "Driver JIT compiler (CUDA)",
    "Buffer flush (Profiler)",
    "Instrumentation (Profiler)",
    "Resource creation/destruction (Profiler)",
    "Runtime module loading (CUDA)",
    "Lazy function loading (CUDA)",
    "Command buffer full (CUDA)",
)
_CLASSES = {
    0: "CUDA runtime",
    1: "CUDA driver",
    13: "CUDA EGL driver",
    27: "OSRT runtime",
    28: "cuDNN",
    29: "cuBLAS",
    48: "OpenACC",
    67: "CUDA backtrace",
    77: "CUDA graph node creation",
    78: "OpenMP",
    94: "CUDA graph exec creation",
    95: "CUDA graph creation",
    96: "CUDA graph clone",
    102: "CUDA JIT",
    103: "CUDA overhead",
}

#: Numbers below this are looked up by index.
_DENSE = 1024


class Enums:
    """The words of all enumerations in a file."""

    def __init__(self, database: Database, conversion: Conversion) -> None:
        words = {name: {n: w.replace("_", " ") for n, w in enumerate(text.split())} for name, text in _KNOWN.items()}
        words |= {"CUPTI_OVERHEAD_TYPE": dict(enumerate(_OVERHEADS)), "NSYS_EVENT_CLASS": dict(_CLASSES)}
        for table in database.like(r"ENUM_\w+"):
            rows = database.rows(table, "id", "label", "name")
            conversion.report.record(len(rows))
            conversion.report.used(len(rows), outcome="structure")
            labels = {number: label or name for number, label, name in rows if isinstance(number, int)}
            labels_of = words.setdefault(table.upper().removeprefix("ENUM_"), {})
            labels_of |= {number: str(word) for number, word in labels.items() if word}
        self._words = words
        self._dense: dict[str, pa.StringArray] = {}

    def word(self, enum: str, number: int | None) -> str | None:
        """Returns the word of a number, or the number itself as text if it has none."""
        return None if number is None else self._words.get(enum, {}).get(number, str(number))

    def column(self, enum: str, numbers: pa.Array) -> pa.DictionaryArray:
        """Returns the words of a column of numbers."""
        if enum not in self._dense:
            labels = self._words.get(enum, {})
            count = max((number for number in labels if 0 <= number < _DENSE), default=-1) + 1
            self._dense[enum] = pa.array([labels.get(number, str(number)) for number in range(count)], pa.string())
        words = self._dense[enum]
        span = pc.min_max(numbers)
        if span["min"].as_py() is None or 0 <= span["min"].as_py() <= span["max"].as_py() < len(words):
            return pa.DictionaryArray.from_arrays(numbers.cast(pa.int32()), words)
        return mapped_words(numbers, lambda number: self.word(enum, number))


#: Columns that contain ids of strings, besides the one that is the name.
_TEXTS = (
    *("nameId", "endNameId", "textId", "srcFile", "funcName", "varName", "kernelName", "objectNameId"),
    *("module", "CpuInstruction", "mangledName", "sourceFile"),
)


@dataclass
class ExportReader:
    """The reading of one file."""

    database: Database
    conversion: Conversion
    path: str
    strings: Texts
    enums: Enums
    places: NsysTracks
    batches: BatchBuilder
    stacks: Stacks
    nodes: GraphNodes

    def blocks(self, table: str) -> Iterator[Block]:
        """Yields the rows of a table with the types that their columns should have."""
        for block in self.database.blocks(table, self.conversion.batch_rows):
            rows = typed(block, self.database.tables[table], self.conversion)
            if len(rows):
                yield rows

    def timed(
        self,
        table: str,
        *starts: str,
        end: str | None = None,
        open_end: bool = False,
        each: int = 1,
        prepare: Callable[[Block], Block] | None = None,
    ) -> Iterator[tuple[Block, Int64]]:
        """Yields the rows with valid times, and their ids; reports the others.

        The time is in the first of the columns `starts` that the table has, in ns, and so is `end`. A row has `each`
        ids. `prepare` is applied to each block before its times are checked.
        """
        has = self.database.has
        start = next((name for name in starts if has(table, name)), starts[0])
        last = end if end is not None and has(table, end) else None
        for block in self.blocks(table):
            ready = block if prepare is None else prepare(block)
            good = timed(ready, self.conversion, start, last, open_end=open_end)
            if len(good):
                yield good, self.batches.ids(len(good), each)

    def name(self, block: Block, *spellings: str, short: Callable[[str], str] | None = None) -> dict[str, pa.Array]:
        """Returns the columns `name` and, with `short`, `short_name` from the first of these columns that exists."""
        ids = block.take(*spellings)
        if ids is None:
            return {"name": pa.repeat(pa.scalar(NO_NAME), len(block)).dictionary_encode()}
        names = self.strings.column(block, ids, required=True)
        if short is None:
            return {"name": names}
        shorter = mapped_words(names, lambda name: None if (shortened := short(name)) == name else shortened)
        return {"name": names, "short_name": shorter}

    def args(self, block: Block, table: str, words: Mapping[str, str] | None = None) -> dict[str, pa.Array]:
        """Returns the columns not yet used whose numbers mean words, as arguments with these words.

        `words` are enumerations of columns in this table only.
        """
        columns: dict[str, pa.Array] = {}
        for name, enum in {**_COLUMNS, **(words or {})}.items():
            numbers = block.take(name) if block.is_left(name) else None
            if numbers is not None:
                columns[f"args.{name}"] = self.enums.column(enum, numbers)
        for name in _TEXTS:
            ids = block.get(name)
            if ids is not None and pa.types.is_int64(ids.type) and block.is_left(name):
                columns[f"args.{name}"] = self.strings.column(block, block.take(name))
        return columns

    @staticmethod
    def enum_of(column: str, words: Mapping[str, str]) -> str:
        """Returns the enumeration of a column's numbers, "" for none."""
        return words.get(column, _COLUMNS.get(column, ""))

    def correlation(self, block: Block) -> pa.Array | None:
        """Returns the column `correlation`; 0 in the file means null."""
        numbers = block.take("correlationId")
        return None if numbers is None else without(numbers, 0)


def numbered(word: str, numbers: pa.Array) -> pa.DictionaryArray:
    """Returns "SM 3" for each 3, and the word alone for null."""
    return mapped_words(pc.fill_null(numbers, -1), lambda number: word if number < 0 else f"{word} {number}")
