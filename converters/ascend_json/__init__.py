"""Huawei Ascend's timelines: trace_view.json of torch_npu and MindSpore, msprof_*.json and its parts, timeline_display.

    [{"name": "process_name", "pid": 800, "tid": 0, "args": {"name": "Ascend Hardware"}, "ph": "M"},
     {"name": "Mul1", "pid": 800, "tid": 3, "ts": "1704161511422904.204", "dur": 1.35, "ph": "X",
      "args": {"Model Id": 4294967295, "Task Type": "AI_VECTOR_CORE", "Stream Id": 3, "connection_id": 8}}]

A bare list; times are epoch µs with three digits as text, or numbers. A process is a layer: host, device or analysis.
"""
