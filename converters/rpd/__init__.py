"""RPD, the SQLite database of rocmProfileData (`runTracer.sh`, rpd_tracer), schema version 2, times in ns.

    rocpd_api      id, pid, tid, start, end, apiName_id, args_id         hipLaunchKernel, UserMarker
    rocpd_op       id, gpuId, queueId, start, end, description_id, opType_id      KernelExecution, CopyHostToDevice
    rocpd_api_ops  api_id, op_id                                          which call started which work
    rocpd_kernelapi, rocpd_copyapi   api_ptr_id, grid, workgroup, size    the arguments of the call
    rocpd_monitor  deviceType, deviceId, monitorType, start, end, value   sclk 1700
    rocpd_string   id, string

rocpd, the database of rocprofiler-sdk, has the same prefix but other tables.
"""
