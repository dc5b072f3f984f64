"""Databases of Huawei Ascend's profilers: ascend_pytorch_profiler*.db, ascend_mindspore_profiler*.db, msprof_*.db.

TASK                 startNs, endNs, deviceId, connectionId, globalTaskId, taskType, streamId, taskId
COMPUTE_TASK_INFO    globalTaskId, name, blockDim (blockNum from 2026 on), opType, inputShapes, ...
CANN_API             startNs, endNs, type, globalTid (pid << 32 | tid), connectionId, name
PYTORCH_API          startNs and endNs as text, globalTid, name, type, ...
STRING_IDS           id, value: all names, types and shapes

Times are ns since 1970. 4294967295 means "none".
"""
