"""The JSON of rocprofv3 (`--output-format json`): `*_results.json`, often many GB, read as a stream.

    {"rocprofiler-sdk-tool": [{                                        an entry for each process
        "metadata": {"pid": 4711, "init_time": ..., "node": {...}, "command": [...]},
        "agents": [...], "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": [...]}]},
        "kernel_symbols": [{"kernel_id": 1, "formatted_kernel_name": "scale(float*)"}],
        "callback_records": {"counter_collection": [...]},
        "buffer_records": {"kernel_dispatch": [{"start_timestamp": ..., "dispatch_info": {...}}], "hip_api": [...]}}]}

Times are ns since boot (CLOCK_BOOTTIME), grids are in work-items, agents, queues and streams are handles.
"""
