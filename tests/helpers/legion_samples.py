"""Makes the samples of Legion Prof's logs: `python -m tests.helpers.legion_samples` writes them anew.

Records are described as Legate 26.6.1 describes them, those that are there; the figures are invented.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "samples" / "legion-prof"

_TIMES = "create:timestamp_t:8, ready:timestamp_t:8, start:timestamp_t:8, stop:timestamp_t:8"
_CAUSES = "creator:unsigned long long:8, critical:unsigned long long:8, fevent:unsigned long long:8"
_TASK = "op_id:UniqueID:8, task_id:TaskID:4, variant_id:VariantID:4, proc_id:ProcID:8"
_META = "op_id:UniqueID:8, lg_id:unsigned:4, proc_id:ProcID:8"
_WAIT = "wait_start:timestamp_t:8, wait_ready:timestamp_t:8, wait_end:timestamp_t:8, wait_event:unsigned long long:8"

#: Kinds of records by name: the number, and the fields as the log describes them.
DESCRIBED: dict[str, tuple[int, str]] = {
    "MapperCallDesc": (2, "kind:unsigned:4, name:string:-1"),
    "RuntimeCallDesc": (3, "kind:unsigned:4, name:string:-1"),
    "MetaDesc": (4, "kind:unsigned:4, message:bool:1, ordered_vc:bool:1, name:string:-1"),
    "ProcDesc": (6, "proc_id:ProcID:8, kind:ProcKind:4, uuid_size:uuid_size:4, cuda_device_uuid:uuid:1"),
    "MaxDimDesc": (8, "max_dim:maxdim:4"),
    "MachineDesc": (
        10,
        "node_id:unsigned:4, num_nodes:unsigned:4, hostname:string:-1, host_id:unsigned long long:8, "
        "process_id:unsigned:4",
    ),
    "ZeroTime": (63, "zero_time:long long:8"),
    "Provenance": (65, "provenance:unsigned long long:8, prov:string:-1"),
    "MemDesc": (7, "mem_id:MemID:8, kind:MemKind:4, capacity:unsigned long long:8"),
    "IndexSpacePointDesc": (32, "unique_id:unsigned long long:8, dim:unsigned:4, rem:point:8"),
    "IndexSpaceRectDesc": (33, "unique_id:unsigned long long:8, dim:unsigned:4, rem:array:8"),
    "PhysicalInstanceUsage": (
        46,
        "inst_uid:unsigned long long:8, fevent:unsigned long long:8, op_id:UniqueID:8, start:timestamp_t:8, "
        "stop:timestamp_t:8, index_expr:unsigned long long:8, field:unsigned:4, index:unsigned:4, mode:unsigned:4, "
        "redop:unsigned:4",
    ),
    "TaskKind": (11, "task_id:TaskID:4, name:string:-1, overwrite:bool:1"),
    "TaskVariant": (12, "task_id:TaskID:4, variant_id:VariantID:4, name:string:-1"),
    "OperationInstance": (
        13,
        "op_id:UniqueID:8, parent_id:UniqueID:8, kind:unsigned:4, provenance:unsigned long long:8",
    ),
    "TaskWaitInfo": (16, f"op_id:UniqueID:8, task_id:TaskID:4, variant_id:VariantID:4, {_WAIT}"),
    "MetaWaitInfo": (17, f"op_id:UniqueID:8, lg_id:unsigned:4, {_WAIT}"),
    "TaskInfo": (18, f"{_TASK}, {_TIMES}, {_CAUSES}"),
    "ImplicitTaskInfo": (29, f"{_TASK}, {_TIMES}, {_CAUSES}"),
    "GPUTaskInfo": (30, f"{_TASK}, {_TIMES}, gpu_start:timestamp_t:8, gpu_stop:timestamp_t:8, {_CAUSES}"),
    "MetaInfo": (19, f"{_META}, {_TIMES}, {_CAUSES}"),
    "MessageInfo": (24, f"{_META}, spawn:timestamp_t:8, {_TIMES}, {_CAUSES}"),
    "CopyInfo": (20, f"op_id:UniqueID:8, size:unsigned long long:8, {_TIMES}, {_CAUSES}, collective:unsigned:4"),
    "CopyInstInfo": (49, "src:MemID:8, dst:MemID:8, fevent:unsigned long long:8, num_hops:unsigned:4, indirect:bool:1"),
    "FillInfo": (21, f"op_id:UniqueID:8, size:unsigned long long:8, {_TIMES}, {_CAUSES}"),
    "FillInstInfo": (50, "dst:MemID:8, fid:unsigned:4, fevent:unsigned long long:8"),
    "InstTimelineInfo": (
        22,
        "inst_uid:unsigned long long:8, inst_id:InstID:8, mem_id:MemID:8, size:unsigned long long:8, op_id:UniqueID:8, "
        "create:timestamp_t:8, ready:timestamp_t:8, destroy:timestamp_t:8, creator:unsigned long long:8",
    ),
    "PartitionInfo": (23, f"op_id:UniqueID:8, part_op:DepPartOpKind:4, {_TIMES}, {_CAUSES}"),
    "MapperCallInfo": (
        25,
        "mapper_id:MapperID:4, mapper_proc:ProcID:8, kind:MappingCallKind:4, op_id:UniqueID:8, start:timestamp_t:8, "
        "stop:timestamp_t:8, proc_id:ProcID:8, fevent:unsigned long long:8",
    ),
    "RuntimeCallInfo": (26, "kind:RuntimeCallKind:4, start:timestamp_t:8, stop:timestamp_t:8, proc_id:ProcID:8"),
    "ApplicationCallInfo": (
        27,
        "provenance:unsigned long long:8, start:timestamp_t:8, stop:timestamp_t:8, proc_id:ProcID:8",
    ),
    "ProfTaskInfo": (
        62,
        "proc_id:ProcID:8, op_id:UniqueID:8, start:timestamp_t:8, stop:timestamp_t:8, creator:unsigned long long:8, "
        "fevent:unsigned long long:8, completion:bool:1",
    ),
}


def description(kinds: Mapping[str, tuple[int, str]] = DESCRIBED, version: str = "1011") -> bytes:
    """The text at the start of a log."""
    lines = [f"{name} {{id:{number}, {fields}}}" for name, (number, fields) in kinds.items()]
    head = f"FileType: BinaryLegionProf v: {version}\nlegion-25.12.0-1-gabcdef0\n"
    return (head + "\n".join(lines) + "\n\n").encode()


def record(name: str, /, **values: Any) -> bytes:
    """A record; fields that aren't given are 0, or empty."""
    number, fields = DESCRIBED[name]
    made = struct.pack("<I", number)
    for field in fields.split(", "):
        own, kind, size = field.split(":")
        value = values.get(own, 0)
        if size == "-1":
            made += (value or "").encode() + b"\0"
        elif kind in ("array", "point", "uuid"):
            made += value or b""
        elif own != "redop" or values["mode"] == 4:
            made += int(value).to_bytes(int(size), "little")
    return made


def processor(index: int, node: int = 0) -> int:
    """The id of a processor: a tag, its node, its number there."""
    return 0x1D << 56 | node << 40 | index


def memory(index: int, node: int = 0) -> int:
    """The id of a memory likewise."""
    return 0x1E << 56 | node << 40 | index


CPU, UTILITY, GPU, GPU_2 = (processor(index) for index in range(4))
SYSTEM, FRAMEBUFFER = memory(0), memory(1)
UUID = bytes(range(16))


def times(start: int, stop: int, **more: int) -> dict[str, int]:
    """The times of an operation; it was created and ready before."""
    return {"create": start - 300, "ready": start - 100, "start": start, "stop": stop} | more


def sample() -> bytes:
    """A node with two GPUs: names that come after what they name, copies, waits, an instance that is never freed."""
    made = [
        record("MaxDimDesc", max_dim=2),
        record("MachineDesc", num_nodes=1, hostname="node07", process_id=4242),
        record("ZeroTime", zero_time=1_700_000_000_000_000_000),
        *(record("ProcDesc", proc_id=one, kind=kind, uuid_size=16, cuda_device_uuid=uuid) for one, kind, uuid in (
            (CPU, 2, bytes(16)), (UTILITY, 3, bytes(16)), (GPU_2, 1, UUID[::-1]), (GPU, 1, UUID))),
        record("MemDesc", mem_id=SYSTEM, kind=2, capacity=1 << 30),
        record("MemDesc", mem_id=FRAMEBUFFER, kind=6, capacity=1 << 30),
        record("MetaDesc", kind=5, name="Map Operation"),
        record("MapperCallDesc", kind=7, name="map_task"),
        record("RuntimeCallDesc", kind=9, name="Physical Analysis"),
        record("IndexSpacePointDesc", unique_id=1, dim=1, rem=bytes(16)),
        record("IndexSpaceRectDesc", unique_id=2, dim=1, rem=bytes(32)),
        record("Provenance", provenance=3, prov="app.py:12"),
        record("OperationInstance", op_id=21, parent_id=1, kind=2, provenance=3),
        record("OperationInstance", op_id=22, parent_id=1, kind=2),
        record("ImplicitTaskInfo", op_id=1, task_id=100, proc_id=CPU, **times(1_000, 90_000)),
        record("TaskWaitInfo", op_id=1, task_id=100, wait_start=60_000, wait_ready=80_000, wait_end=80_500),
        record("GPUTaskInfo", op_id=21, task_id=101, variant_id=2, proc_id=GPU_2,
               **times(20_000, 24_000), gpu_start=22_000, gpu_stop=31_000),
        record("GPUTaskInfo", op_id=22, task_id=101, variant_id=2, proc_id=GPU, **times(26_000, 28_000)),
        record("TaskInfo", op_id=23, task_id=102, variant_id=1, proc_id=CPU, **times(40_000, 52_000)),
        record("MetaInfo", op_id=21, lg_id=5, proc_id=UTILITY, **times(10_000, 15_000)),
        record("MetaWaitInfo", op_id=21, lg_id=5, wait_start=11_000, wait_ready=12_000, wait_end=12_100),
        record("MetaWaitInfo", op_id=99, lg_id=5, wait_start=16_000, wait_ready=16_500, wait_end=16_600),
        record("MessageInfo", op_id=0, lg_id=6, proc_id=UTILITY, **times(17_000, 17_500), spawn=16_000),
        record("MapperCallInfo", kind=7, op_id=21, start=12_500, stop=14_000, proc_id=UTILITY),
        record("RuntimeCallInfo", kind=9, start=14_100, stop=14_900, proc_id=UTILITY),
        record("ApplicationCallInfo", provenance=3, start=5_000, stop=58_000, proc_id=CPU),
        record("CopyInfo", op_id=21, size=65_536, fevent=71, **times(16_000, 19_000)),
        record("CopyInstInfo", src=SYSTEM, dst=FRAMEBUFFER, fevent=71),
        record("CopyInfo", op_id=23, size=512, fevent=72, **times(33_000, 34_000)),
        record("CopyInstInfo", src=SYSTEM, dst=SYSTEM, fevent=72),
        record("CopyInfo", op_id=23, size=7, fevent=79, **times(35_000, 35_500)),
        record("FillInfo", op_id=20, size=65_536, fevent=73, **times(8_000, 8_400)),
        record("FillInstInfo", dst=FRAMEBUFFER, fid=10_001, fevent=73),
        record("PartitionInfo", op_id=24, part_op=10, **times(36_000, 38_000)),
        record("InstTimelineInfo", inst_uid=900, mem_id=FRAMEBUFFER, size=65_536, create=7_000, destroy=85_000),
        record("InstTimelineInfo", inst_uid=901, mem_id=SYSTEM, size=4_096, create=7_100, destroy=(1 << 64) - 1),
        record("PhysicalInstanceUsage", op_id=21, mode=4, redop=1_048_577),
        record("PhysicalInstanceUsage", op_id=22, mode=7),
        record("ProfTaskInfo", proc_id=UTILITY, op_id=21, start=50_000, stop=50_600),
        record("TaskInfo", op_id=25, task_id=102, variant_id=1, proc_id=CPU, **times(56_000, 55_000)),
        record("TaskKind", task_id=101, name="saxpy", overwrite=1),
        record("TaskKind", task_id=101, name="not this one"),
        record("TaskVariant", task_id=102, variant_id=1, name="reduce_cpu"),
    ]  # fmt: skip
    return description() + b"".join(made)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "two-gpus-names-late-a-reduction.prof").write_bytes(sample())
