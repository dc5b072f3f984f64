"""The rows of which inputs of each format are made."""

from __future__ import annotations

from functools import cache

from .messages import Perfetto, Report, XPlane, packed, pickled
from .rows_json import DOCUMENTS, FLIGHT, HATCHET, JSON, SNAPSHOT
from .rows_text import TEXT
from .source import Source
from .stores import Database, Names, Tables

#: Formats of which no input is made -> why.
LEFT_OUT = {
    "nsys-rep": "the vendor's program exports it first, and is not at hand",
    "closed": "only the vendor's programs read it",
    "pprof": "its samples name stacks by numbers; it is decoded whole up to a limit",
    "perfetto-text": "the protobuf library parses the whole text, up to a limit",
    "trace2html": "a page around a trace, which is read as its own format",
    "cpuprofile": "a sample and its time are in lists of their own; it is decoded whole up to a limit",
    **dict.fromkeys(("ingero", "ingero-json"), "its events are named by the numbers of a fixed table of operations"),
    "otf2": "only its own library, an extra, reads and writes the format",
    "legion-prof": "a binary log whose records have no fixed size; its own tests measure a long one",
    "projections": "a folder of logs and their names; its own tests measure a long one",
    "hpctoolkit": "a folder of binary files that refer to each other; its own tests measure a long one",
    "neuron": "members of one object, decoded whole up to a limit; tables in Parquet",
    **dict.fromkeys(
        (
            "bench-serve",
            "benchmark-tables",
            "cprofile",
            "google-benchmark",
            "inductor",
            "kokkos",
            "megatron",
            "nccl-tests",
            "old-profilers",
            "proton-tree",
            "regions",
            "taichi",
            "tau",
            "torch-benchmark",
            "torch-xla",
            "triton-testing",
            "unreal",
            "vtune",
            "xrt",
        ),
        "a program prints some dozen rows of it, and rows are made one by one",
    ),
    **dict.fromkeys(("onednn", "tinygrad"), "a line is a row, read as those of other declared texts"),
    "iket": "a launch has the ranges of all its warps; it is decoded whole up to a limit",
    "triton-server": "a request has a few time stamps in lists of their own; it is decoded whole up to a limit",
    "benchmark-json": "a benchmark is a member of a list, decoded with its settings; a file has some dozen",
    "mlir-aie": "its events become sums of a few rows",
    "chakra": "a node is a message of protobuf; its own tests measure none",
    "ascend-communication": "its rows are members of one object, which is decoded whole up to a limit",
}

_ROCPD_GUID = "0000ddb5-8903-7a10-9c11-aa5511220001"

_STORES: tuple[Source, ...] = (
    Database(
        *("nsys/schema-2.9-calls-twice-mpi-as-a-domain.sqlite", "CUPTI_ACTIVITY_KIND_KERNEL"),
        start="start",
        end="end",
        name=("demangledName", "shortName"),
        names=Names("StringIds", "id", "value"),
        track="streamId",
        id=("correlationId",),
    ),
    Database(
        *("nsys/schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite", "NVTX_EVENTS"),
        start="start",
        end="end",
        name=("text",),
        track="globalTid",
        where="text IS NOT NULL AND end IS NOT NULL",
    ),
    Database(
        *("rocpd/two-processes-in-the-same-tables.db", "rocpd_kernel_dispatch"),
        start="start",
        end="end",
        name=("region_name_id",),
        names=Names("rocpd_string", "id", "string", (("guid", _ROCPD_GUID),)),
        track="stream_id",
        id=("id", "event_id"),
    ),
    Database(
        *("rpd/two-calls-a-kernel-never-run-and-nulls.rpd", "rocpd_op"),
        start="start",
        end="end",
        name=("description_id",),
        names=Names("rocpd_string", "id", "string"),
        track="queueId",
        id=("id",),
    ),
    Database(
        *("dlprof-db/two-operators-no-string-and-a-kernel-that-ends-early.sqlite", "read_only_op_instances"),
        start="cpu_start",
        end="cpu_stop",
        track="thread_id",
        id=("id",),
    ),
    Database(
        *("rocprof-db/hip-trace-with-counters-and-a-kernel-named-copy.db", "OPS"),
        start="BeginNs",
        end="EndNs",
        name=("Name",),
        track="queue-id",
        id=("Index",),
    ),
    Database(
        *("rocprof-compute/two-kernels-and-metrics-of-one-name.db", "compute_dispatch"),
        start="start_timestamp",
        end="end_timestamp",
        name=("kernel_uuid",),
        names=Names("compute_kernel", "kernel_uuid", "kernel_name"),
        track="gpu_id",
        id=("dispatch_uuid", "dispatch_id"),
    ),
    Database(
        *("nvvp/a-range-a-fault-an-unknown-call-and-a-table-of-branches.nvvp", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"),
        start="start",
        end="end",
        name=("name",),
        names=Names("StringTable", "_id_", "value"),
        track="streamId",
        id=("_id_", "correlationId"),
    ),
    Database(
        *("ascend-db/schema-1.2-collective-ffts-and-a-task-backwards.db", "CANN_API"),
        start="startNs",
        end="endNs",
        name=("name",),
        names=Names("STRING_IDS", "id", "value"),
        track="globalTid",
        id=("connectionId",),
    ),
    Tables("parquet/all-records.parquet", 0, start="ts", dur="dur", name="name", track="tid", id="id"),
    Tables("parquet/folder//events.parquet", 0, start="ts", dur="dur", name="name", track="tid", id="id"),
    Tables("arrow/events-alone.arrow", 0, start="ts", dur="dur", name="name", track="tid", id="id"),
    Tables(
        "nsys-tables/a-file-a-table_pqtdir//NVTX_EVENTS.parquet",
        start="start",
        end="end",
        name="text",
        track="globalTid",
    ),
)

_BINARY: tuple[Source, ...] = (
    Perfetto(),
    XPlane(),
    Report("ncu-rep/names-behind-their-use-samples-and-rules.ncu-rep", "gemm"),
    packed(HATCHET),
    pickled(SNAPSHOT),
    pickled(FLIGHT),
)


@cache
def sources() -> dict[str, list[Source]]:
    """Returns the rows of each format, in the order in which they are declared."""
    found: dict[str, list[Source]] = {}
    for source in (*JSON, *DOCUMENTS, *TEXT, *_STORES, *_BINARY):
        found.setdefault(source.format, []).append(source)
    return found
