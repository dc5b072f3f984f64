"""The database of nvprof (`nvprof -o run.nvvp ./app`) and of the Visual Profiler, CUDA 5 to 12: CUPTI's records.

    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL   _id_, start, end, deviceId, streamId, gridX, correlationId, name, ...
    CUPTI_ACTIVITY_KIND_RUNTIME             _id_, cbid, start, end, processId, threadId, correlationId
    CUPTI_ACTIVITY_KIND_MARKER              _id_, flags, timestamp, id, objectKind, objectId, name, domain
    StringTable                             _id_, value

Times are ns of unix time. A name is the _id_ of a string; the name of a call is a number (cbid) of CUPTI.
"""
