"""Columns of nsys' tables that may be null and in which 0 has no other meaning, by its schemas 2.9 to 3.11."""

from __future__ import annotations

OPTIONAL = frozenset(
    {
        *("end", "text", "textId", "jsonText", "jsonTextId", "endNameId", "name", "rangeId", "category", "color"),
        *("globalTid", "globalPid", "endGlobalTid", "correlationId", "callchainId", "rawTimestamp"),
        *("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue"),
        *("graphNodeId", "originalGraphNodeId", "graphId", "graphExecId", "greenContextId", "mangledName"),
        *("migrationCause", "virtualAddress", "srcDeviceId", "srcContextId", "dstDeviceId", "dstContextId"),
        *("deprecatedSrcId", "copyCount", "eventSyncId", "originalIP", "unwindMethod"),
        *("kernelMode", "thumbCode", "unresolved", "specialEntry", "nextTaskId", "requestHandle"),
    }
)
