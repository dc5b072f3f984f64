"""Kernels, copies, sets, migrations of unified memory, waits, calls and the profiler's own work.

They have names for CUPTI's numbers. Facts: its headers for callbacks and activities.

RUNTIME cbid 31      cudaMemcpy
DRIVER  cbid 307     cuLaunchKernel
copyKind 1           HtoD
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block, timed
from ktrace.model.batch import Batch
from ktrace.model.masks import present

from .reading import NvvpReader, number

#: First number -> the names from there on; "-" is an unneeded one. Release suffixes of names are removed.
_RUNTIME = {
    1: "DriverGetVersion RuntimeGetVersion GetDeviceCount GetDeviceProperties ChooseDevice GetChannelDesc "
    "CreateChannelDesc ConfigureCall SetupArgument GetLastError PeekAtLastError GetErrorString Launch "
    "FuncSetCacheConfig FuncGetAttributes SetDevice GetDevice SetValidDevices SetDeviceFlags Malloc MallocPitch Free "
    "MallocArray FreeArray MallocHost FreeHost HostAlloc HostGetDevicePointer HostGetFlags MemGetInfo Memcpy Memcpy2D "
    "MemcpyToArray Memcpy2DToArray MemcpyFromArray Memcpy2DFromArray MemcpyArrayToArray Memcpy2DArrayToArray "
    "MemcpyToSymbol MemcpyFromSymbol MemcpyAsync MemcpyToArrayAsync MemcpyFromArrayAsync Memcpy2DAsync "
    "Memcpy2DToArrayAsync Memcpy2DFromArrayAsync MemcpyToSymbolAsync MemcpyFromSymbolAsync Memset Memset2D MemsetAsync "
    "Memset2DAsync GetSymbolAddress GetSymbolSize BindTexture BindTexture2D BindTextureToArray UnbindTexture "
    "GetTextureAlignmentOffset GetTextureReference BindSurfaceToArray GetSurfaceReference",
    123: "ThreadExit SetDoubleForDevice SetDoubleForHost ThreadSynchronize ThreadGetLimit ThreadSetLimit StreamCreate "
    "StreamDestroy StreamSynchronize StreamQuery EventCreate EventCreateWithFlags EventRecord EventDestroy "
    "EventSynchronize EventQuery EventElapsedTime Malloc3D Malloc3DArray Memset3D Memset3DAsync Memcpy3D Memcpy3DAsync "
    "ThreadSetCacheConfig StreamWaitEvent - - ThreadGetCacheConfig PointerGetAttributes HostRegister HostUnregister "
    "DeviceCanAccessPeer DeviceEnablePeerAccess DeviceDisablePeerAccess PeerRegister PeerUnregister "
    "PeerGetDevicePointer MemcpyPeer MemcpyPeerAsync Memcpy3DPeer Memcpy3DPeerAsync DeviceReset DeviceSynchronize "
    "DeviceGetLimit DeviceSetLimit DeviceGetCacheConfig DeviceSetCacheConfig ProfilerInitialize ProfilerStart "
    "ProfilerStop DeviceGetByPCIBusId DeviceGetPCIBusId GLGetDevices IpcGetEventHandle IpcOpenEventHandle "
    "IpcGetMemHandle IpcOpenMemHandle IpcCloseMemHandle ArrayGetInfo FuncSetSharedMemConfig DeviceGetSharedMemConfig "
    "DeviceSetSharedMemConfig CreateTextureObject DestroyTextureObject",
    197: "StreamAddCallback StreamCreateWithFlags - DeviceGetAttribute StreamDestroy StreamCreateWithPriority "
    "StreamGetPriority StreamGetFlags DeviceGetStreamPriorityRange MallocManaged "
    "OccupancyMaxActiveBlocksPerMultiprocessor StreamAttachMemAsync GetErrorName "
    "OccupancyMaxActiveBlocksPerMultiprocessor LaunchKernel GetDeviceFlags Launch LaunchKernel Memcpy Memcpy2D "
    "MemcpyToArray Memcpy2DToArray MemcpyFromArray Memcpy2DFromArray MemcpyArrayToArray Memcpy2DArrayToArray "
    "MemcpyToSymbol MemcpyFromSymbol MemcpyAsync MemcpyToArrayAsync MemcpyFromArrayAsync Memcpy2DAsync "
    "Memcpy2DToArrayAsync Memcpy2DFromArrayAsync MemcpyToSymbolAsync MemcpyFromSymbolAsync Memset Memset2D MemsetAsync "
    "Memset2DAsync StreamGetPriority StreamGetFlags StreamSynchronize StreamQuery StreamAttachMemAsync EventRecord "
    "Memset3D Memset3DAsync Memcpy3D Memcpy3DAsync StreamWaitEvent StreamAddCallback Memcpy3DPeer Memcpy3DPeerAsync "
    "OccupancyMaxActiveBlocksPerMultiprocessorWithFlags MemPrefetchAsync MemPrefetchAsync MemAdvise "
    "DeviceGetP2PAttribute",
    266: "MemRangeGetAttribute MemRangeGetAttributes - LaunchCooperativeKernel LaunchCooperativeKernel - "
    "LaunchCooperativeKernelMultiDevice FuncSetAttribute",
    284: "LaunchHostFunc LaunchHostFunc GraphCreate",
    310: "GraphInstantiate GraphLaunch GraphLaunch GraphExecDestroy GraphDestroy StreamBeginCapture StreamBeginCapture "
    "StreamIsCapturing StreamIsCapturing StreamEndCapture StreamEndCapture",
}
_DRIVER = {
    1: "Init DriverGetVersion DeviceGet DeviceGetCount DeviceGetName DeviceComputeCapability DeviceTotalMem "
    "DeviceGetProperties DeviceGetAttribute CtxCreate CtxDestroy CtxAttach CtxDetach CtxPushCurrent CtxPopCurrent "
    "CtxGetDevice CtxSynchronize ModuleLoad ModuleLoadData ModuleLoadDataEx ModuleLoadFatBinary ModuleUnload "
    "ModuleGetFunction ModuleGetGlobal",
    27: "MemGetInfo - MemAlloc - MemAllocPitch - MemFree",
    37: "MemAllocHost MemFreeHost MemHostAlloc",
    115: "Launch LaunchGrid LaunchGridAsync EventCreate EventRecord EventQuery EventSynchronize EventDestroy "
    "EventElapsedTime StreamCreate StreamQuery StreamSynchronize StreamDestroy",
    241: "ModuleGetGlobal MemGetInfo MemAlloc MemAllocPitch MemFree MemGetAddressRange MemHostGetDevicePointer Memcpy "
    "MemsetD8 MemsetD16 MemsetD32 MemsetD2D8 MemsetD2D16 MemsetD2D32",
    259: "DeviceTotalMem",
    271: "MemHostAlloc",
    276: "MemcpyHtoD MemcpyHtoDAsync MemcpyDtoH MemcpyDtoHAsync MemcpyDtoD MemcpyDtoDAsync MemcpyAtoH MemcpyAtoHAsync "
    "MemcpyAtoD MemcpyDtoA MemcpyAtoA Memcpy2D Memcpy2DUnaligned Memcpy2DAsync Memcpy3D Memcpy3DAsync MemcpyHtoA "
    "MemcpyHtoAAsync MemAllocHost StreamWaitEvent CtxGetApiVersion",
    299: "CtxGetCacheConfig CtxSetCacheConfig MemHostRegister MemHostUnregister CtxSetCurrent CtxGetCurrent Memcpy "
    "MemcpyAsync LaunchKernel ProfilerStart ProfilerStop PointerGetAttribute ProfilerInitialize DeviceCanAccessPeer "
    "CtxEnablePeerAccess CtxDisablePeerAccess",
    318: "MemcpyPeer MemcpyPeerAsync Memcpy3DPeer Memcpy3DPeerAsync CtxDestroy CtxPushCurrent CtxPopCurrent "
    "EventDestroy StreamDestroy",
    362: "LinkCreate LinkAddData LinkAddFile LinkComplete LinkDestroy StreamCreateWithPriority",
    371: "MemAllocManaged GetErrorString GetErrorName OccupancyMaxActiveBlocksPerMultiprocessor",
    381: "LinkCreate LinkAddData LinkAddFile OccupancyMaxPotentialBlockSize",
    386: "DevicePrimaryCtxRetain DevicePrimaryCtxRelease DevicePrimaryCtxSetFlags DevicePrimaryCtxReset",
}


def _numbered(prefix: str, names: dict[int, str]) -> dict[int, str]:
    return {
        number: prefix + name
        for first, words in names.items()
        for number, name in enumerate(words.split(), first)
        if name != "-"
    }


#: Number of a call -> its name.
RUNTIME = _numbered("cuda", _RUNTIME)
DRIVER = _numbered("cu", _DRIVER)

COPIES = dict(enumerate(["HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"], 1))
MEMORIES = dict(enumerate(["Pageable", "Pinned", "Device", "Array", "Managed", "Device-Static", "Managed-Static"], 1))
OVERHEADS = {
    0: "Unknown",
    1: "Driver compiler",
    1 << 16: "Buffer flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource creation and destruction",
}
SYNCS = dict(enumerate(("Event synchronize", "Stream wait event", "Stream synchronize", "Context synchronize"), 1))

#: Unified memory: kind of a record -> its name, and the direction if it is a copy.
UNIFIED: dict[int, tuple[str, str | None]] = {
    1: ("[Unified Memory Memcpy HtoD]", "HtoD"),
    2: ("[Unified Memory Memcpy DtoH]", "DtoH"),
    3: ("[Unified Memory CPU page fault]", None),
    4: ("[Unified Memory GPU page faults]", None),
    5: ("[Unified Memory thrashing]", None),
    6: ("[Unified Memory throttling]", None),
    7: ("[Unified Memory remote map]", None),
    8: ("[Unified Memory Memcpy DtoD]", "DtoD"),
}


def kernels(reading: NvvpReader, table: str) -> Iterator[Batch]:
    """Yields kernels; CUPTI's names are those of the compiler, mangled."""
    for block in reading.timed(table):
        static, dynamic = (number(block.take(f"{kind}SharedMemory"), 1 << 60) for kind in ("static", "dynamic"))
        shared = static if dynamic is None or static is None else pc.add(static, dynamic)
        completed, end = block.take("completed"), block.get("end")
        if completed is not None:  # it usually repeats `end`
            completed = pc.if_else(pc.equal(completed, end), pa.scalar(None, pa.int64()), completed)
        yield reading.events(
            table,
            block,
            kind="kernel",
            name=reading.text(block, "name", required=True),
            **block.span("start", "end"),
            **reading.place(block),
            **{f"{part}_{axis}": block.take(f"{part}{axis.upper()}") for part in ("grid", "block") for axis in "xyz"},
            registers=number(block.take("registersPerThread"), 1 << 31),
            shared_memory=shared,
            shared_dynamic=dynamic,
            **{"args.completed": completed},
        )


def copies(reading: NvvpReader, table: str) -> Iterator[Batch]:
    """Yields copies, named as nvprof prints them."""
    for block in reading.timed(table):
        ways = reading.word(block, "copyKind", COPIES, "")
        name: Any = "[CUDA memcpy]" if ways is None else pc.binary_join_element_wise("[CUDA memcpy ", ways, "]", "")
        memories = {
            f"args.{column}": reading.word(block, column, MEMORIES, "Unknown") for column in ("srcKind", "dstKind")
        }
        block_place = reading.place(block)
        yield reading.events(
            table,
            block,
            kind="memcpy",
            name=name,
            copy_kind=ways,
            bytes=block.take("bytes"),
            **block.span("start", "end"),
            **block_place,
            **memories,
        )


def sets(reading: NvvpReader, table: str) -> Iterator[Batch]:
    """Yields memsets."""
    for block in reading.timed(table):
        yield reading.events(
            table,
            block,
            kind="memset",
            name="[CUDA memset]",
            bytes=block.take("bytes"),
            **block.span("start", "end"),
            **reading.place(block),
        )


def unified(reading: NvvpReader, table: str) -> Iterator[Batch]:
    """Yields migrations as copies; faults and others as ranges, or as instants if they have no end."""
    for block in _ended(reading, table):
        kinds = block.get("counterKind")
        numbers = pa.nulls(len(block), pa.int64()) if kinds is None else kinds
        names = reading.word(
            block, "counterKind", {number: name for number, (name, _) in UNIFIED.items()}, "[Unified Memory]"
        )
        ways = pa.array([UNIFIED.get(number, ("", None))[1] for number in numbers.to_pylist()], pa.string())
        times = block.span("start", "end")
        at_once = pc.equal(times["dur"], 0).to_numpy(zero_copy_only=False)
        copied = present(ways)
        kind = np.where(copied, "memcpy", np.where(at_once, "instant", "range"))
        times["dur"] = pc.if_else(pa.array(~copied & at_once), pa.scalar(None, pa.int64()), times["dur"])
        value = block.take("value")
        columns: dict[str, Any] = {}
        if value is not None:
            columns["bytes"] = pc.if_else(ways.is_valid(), value, pa.scalar(None, pa.int64()))
            columns["args.value"] = pc.if_else(ways.is_valid(), pa.scalar(None, pa.int64()), value)
        yield reading.events(
            table,
            block,
            kind=pa.array(kind.tolist(), pa.string()),
            name="[Unified Memory]" if names is None else names,
            copy_kind=ways,
            **times,
            **reading.place(block),
            **columns,
        )


def _ended(reading: NvvpReader, table: str) -> Iterator[Block]:
    """Yields the rows; an unterminated row (0) ends where it begins."""
    for block in reading.blocks(table):
        begin, end = block.get("start"), block.get("end")
        if begin is None or end is None:
            reading.conversion.report.issue("bad-record", table, "has no start or end", len(block))
            return
        open_ = pc.fill_null(pc.equal(end, 0), False)
        columns = {name: block.get(name) for name in (key.removeprefix("args.") for key in block.rest())}
        columns["end"] = pc.if_else(open_, begin, end)
        whole = Block(
            block.place, block.numbers, {name: column for name, column in columns.items() if column is not None}
        )
        sound = timed(whole, reading.conversion, "start", "end")
        if len(sound):
            yield sound


def waits(reading: NvvpReader, table: str) -> Iterator[Batch]:
    """Yields synchronisations."""
    for block in reading.timed(table):
        names = reading.word(block, "type", SYNCS, "Synchronize")
        yield reading.events(
            table,
            block,
            kind="sync",
            name="Synchronize" if names is None else names,
            **block.span("start", "end"),
            **reading.place(block),
        )


def calls(reading: NvvpReader, table: str) -> Iterator[Batch]:
    """Yields calls of the runtime or the driver."""
    driver = "DRIVER" in table.upper()
    for block in reading.timed(table):
        numbers = block.get("cbid")
        names = reading.word(block, "cbid", DRIVER if driver else RUNTIME, "cu" if driver else "cuda")
        yield reading.events(
            table,
            block,
            kind="api",
            name="[no name]" if names is None else names,
            cat="CUDA driver" if driver else "CUDA runtime",
            tid=block.take("threadId"),
            **block.span("start", "end"),
            **{name: column for name, column in reading.place(block).items() if name in ("pid", "correlation")},
            **{"args.cbid": numbers},
        )


def overheads(reading: NvvpReader, table: str) -> Iterator[Batch]:
    """Yields the profiler's own work."""
    for block in reading.timed(table):
        names = reading.word(block, "overheadKind", OVERHEADS, "Overhead")
        yield reading.events(
            table,
            block,
            kind="overhead",
            name="Overhead" if names is None else names,
            pid=reading.pid,
            **block.span("start", "end"),
        )


#: Table without CUPTI_ACTIVITY_KIND_ -> its reader.
READERS: dict[str, Callable[[NvvpReader, str], Iterator[Batch]]] = {
    "KERNEL": kernels,
    "CONCURRENT_KERNEL": kernels,
    "CDP_KERNEL": kernels,
    "MEMCPY": copies,
    "MEMCPY2": copies,
    "MEMSET": sets,
    "UNIFIED_MEMORY_COUNTER": unified,
    "SYNCHRONIZATION": waits,
    "RUNTIME": calls,
    "DRIVER": calls,
    "OVERHEAD": overheads,
}
