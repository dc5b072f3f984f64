"""Execution traces of PyTorch (Chakra ET, JSON): the operators of a run with their arguments, and no times.

    {"schema": "1.1.1-chakra.0.0.4", "pid": 77, "time": "2025-03-04 05:06:07", "start_ts": 9000, "nodes": [
      {"id": 5, "name": "aten::mm", "ctrl_deps": 3,
       "inputs": {"values": [[6,7,0,32,4,"cpu"], ...], "shapes": [[4,8],[8,2]], "types": [...], "strides": ...},
       "outputs": {...}, "attrs": [{"name": "rf_id", "type": "uint64", "value": 12}, ...]}, ...], "finish_ts": 9100}

Schemas 1.0.0 and 1.0.1 have flat nodes: "parent", "rf_id", "inputs", "input_shapes", "input_types", ...
torch.profiler.ExecutionTraceObserver writes it (torch/csrc/profiler/standalone/execution_trace_observer.cpp): a node
when its operator returns, so that children come before their parents.
"""
