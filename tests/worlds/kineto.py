"""Writes a rank of a world as torch.profiler does (Kineto, JSON). Times are us with three decimals, exact to the ns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .world import Record, World

PID = 4000
#: Unix time, in ns, at which a world begins.
EPOCH = 1_750_000_000_000_000_000

_CATS = {
    "op": "cpu_op", "range": "user_annotation", "step": "user_annotation", "api": "cuda_runtime", "kernel": "kernel",
    "collective": "kernel", "copy": "gpu_memcpy", "sync": "cuda_sync", "wait": "cuda_sync",
}  # fmt: skip


def write(
    world: World, path: Path, rank: int = 0, *, device: str = "NVIDIA H100 80GB HBM3", nccl: str = "2.21.5"
) -> Path:
    """Writes the file of a rank and returns its path; `device` is the model, `nccl` the version of the library."""
    head: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": rank, "name": device, "computeMajor": 9, "computeMinor": 0,
                              "numSms": 132, "warpSize": 32}],
        "baseTimeNanoseconds": EPOCH,
        "displayTimeUnit": "ms",
    }  # fmt: skip
    if world.shape.ranks > 1:
        members = list(range(world.shape.ranks))
        head["distributedInfo"] = {
            "backend": "nccl", "rank": rank, "world_size": len(members), "pg_count": 1, "nccl_version": nccl,
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "ranks": members}],
        }  # fmt: skip
    text = json.dumps(head)[:-1]
    events = ",\n".join(_events(world, rank))
    path.write_text(f'{text}, "traceEvents": [\n{events}\n]}}\n', "utf-8")
    return path


def _events(world: World, rank: int) -> Iterator[str]:
    pid = PID + rank
    yield json.dumps({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "python3"}})
    records = world.records(rank)
    launched = {one.correlation for one in records if one.kind in ("kernel", "copy", "collective")}
    for number, one in enumerate(records):
        args = _args(world, one, rank)
        if one.kind in ("op", "range", "step"):
            args["External id"] = number + 1
        device = one.stream is not None or one.kind in ("sync", "wait")
        place = (rank, -1 if one.stream is None else one.stream) if device else (pid, pid + (one.thread or 0) - 1)
        yield (
            f'{{"ph": "X", "cat": "{_CATS[one.kind]}", "name": {json.dumps(one.name)}, "pid": {place[0]}, '
            f'"tid": {place[1]}, "ts": {_us(one.begin)}, "dur": {_us(one.dur)}, "args": {json.dumps(args)}}}'
        )
        if one.correlation in launched and one.kind in ("api", "kernel", "copy", "collective"):
            end = '"ph": "s"' if one.kind == "api" else '"ph": "f", "bp": "e"'
            yield (
                f'{{{end}, "id": {one.correlation}, "pid": {place[0]}, "tid": {place[1]}, "ts": {_us(one.begin)}, '
                '"cat": "ac2g", "name": "ac2g"}'
            )


def _us(ns: int) -> str:
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _args(world: World, one: Record, rank: int) -> dict[str, Any]:
    if one.kind in ("op", "range", "step"):
        return {}
    args: dict[str, Any] = {"correlation": one.correlation}
    if one.kind == "api":
        return args | {"cbid": 211}
    args |= {"device": rank, "context": 1, "stream": -1 if one.stream is None else one.stream}
    if one.kind in ("sync", "wait"):
        args["cuda_sync_kind"] = one.name
        if one.kind == "wait":
            args |= {"wait_on_stream": one.source, "wait_on_cuda_event_record_corr_id": one.number}
        return args
    if one.kind == "copy":
        return args | {"bytes": one.bytes, "memory bandwidth (GB/s)": round((one.bytes or 0) / max(one.dur, 1), 6)}
    args |= {"queued": 0, "registers per thread": 64, "shared memory": 0, "grid": [256, 1, 1], "block": [128, 1, 1]}
    if one.kind == "collective":
        members = list(range(world.shape.ranks))
        args |= {
            "Collective name": "allreduce", "In msg nelems": (one.bytes or 0) // 2, "Seq": one.number,
            "Out msg nelems": (one.bytes or 0) // 2, "Group size": len(members), "dtype": "BFloat16",
            "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": str(members),
        }  # fmt: skip
    return args
