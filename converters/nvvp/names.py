"""Names for CUPTI's numbers. Facts: its headers for callbacks and activities.

RUNTIME cbid 31      cudaMemcpy
DRIVER  cbid 307     cuLaunchKernel
copyKind 1           HtoD
"""

from __future__ import annotations

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
