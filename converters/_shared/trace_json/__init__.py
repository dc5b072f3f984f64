"""Trace Event JSON, which many tools write, each in its own dialect: one decoder for all of them.

    {"displayTimeUnit": "ms", "traceEvents": [
      {"ph": "X", "cat": "kernel", "name": "ampere_sgemm", "pid": 0, "tid": 7, "ts": 12.345, "dur": 3.210,
       "args": {"device": 0, "stream": 7, "correlation": 41, "grid": [64, 1, 1]}},
      {"ph": "s", "id": 41, "pid": 4242, "tid": 4242, "ts": 10.001, "cat": "ac2g", "name": "ac2g"}
    ], "traceName": "rank0.json"}

The way of the data, bounded by the batch whatever the size of the file:

    containers   bytes -> the members of the document, and chunks of the events array        repairs
    decode       a chunk -> `Events`, columns of events that have the same shape             shapes
    phases       `Events` -> canonical batches, by the table of a dialect                    dialect
    ranges       chunks to several processes, and their batches back in order
"""
