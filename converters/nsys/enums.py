"""The words of enumerations: from the tables ENUM_*, which exist since 2023, else the words of these tables in 2023.

ENUM_CUDA_MEMCPY_OPER  1 | CUDA_MEMCPY_KIND_HTOD | Host-to-Device
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.dictionaries import mapped_words
from ktrace.kit.sqlite.database import Database

#: Column -> the enumeration of its numbers, in any table.
COLUMNS = {
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
            known = words.setdefault(table.upper().removeprefix("ENUM_"), {})
            known |= {number: str(word) for number, word in labels.items() if word}
        self._words = words
        self._dense: dict[str, pa.StringArray] = {}

    def word(self, enum: str, number: int | None) -> str | None:
        """Returns the word of a number, or the number itself as text if it has none."""
        return None if number is None else self._words.get(enum, {}).get(number, str(number))

    def column(self, enum: str, numbers: pa.Array) -> pa.DictionaryArray:
        """Returns the words of a column of numbers."""
        if enum not in self._dense:
            known = self._words.get(enum, {})
            count = max((number for number in known if 0 <= number < _DENSE), default=-1) + 1
            self._dense[enum] = pa.array([known.get(number, str(number)) for number in range(count)], pa.string())
        words = self._dense[enum]
        span = pc.min_max(numbers)
        if span["min"].as_py() is None or 0 <= span["min"].as_py() <= span["max"].as_py() < len(words):
            return pa.DictionaryArray.from_arrays(numbers.cast(pa.int32()), words)
        return mapped_words(numbers, lambda number: self.word(enum, number))
