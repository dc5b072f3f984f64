"""Memory snapshots of PyTorch: what its caching allocator did, and the memory at the time of the snapshot.

    {"segments": [{"device": 0, "address": 139.., "total_size": 2097152, "allocated_size": 512, "stream": 0, ...,
                   "blocks": [{"address": 139.., "size": 512, "requested_size": 500, "state": "active_allocated",
                               "frames": [{"name": "forward", "filename": "model.py", "line": 7}, ...]}, ...]}, ...],
     "device_traces": [[{"action": "alloc", "addr": 139.., "size": 512, "stream": 0, "time_us": 17.., "frames": [...]},
                        ...]],                                                          a list for each device
     "allocator_settings": {...}}

torch.cuda.memory._dump_snapshot() pickles it with Python; torch/csrc/cuda/memory_snapshot.cpp with a writer of its own
(protocol 2). XPU and other devices have the same. Some tools write it as JSON.
"""
