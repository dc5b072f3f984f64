"""Trace Event JSON, which many tools write, each in its own dialect: one decoder for all of them.

    {"displayTimeUnit": "ms", "traceEvents": [
      {"ph": "X", "cat": "kernel", "name": "ampere_sgemm", "pid": 0, "tid": 7, "ts": 12.345, "dur": 3.210,
       "args": {"device": 0, "stream": 7, "correlation": 41, "grid": [64, 1, 1]}},
      {"ph": "s", "id": 41, "pid": 4242, "tid": 4242, "ts": 10.001, "cat": "ac2g", "name": "ac2g"}
    ], "traceName": "rank0.json"}

The data flows through these modules; memory is bounded by the batch, whatever the size of the file:

    document    what a format calls: bytes -> the members of a document and its lists of events, which are read chunk by
                chunk (`chunks` reads the text through a window), also by several processes
    decode      a chunk -> `Events` (`events`), columns of a category: compiled code makes them where all events have
                known shapes, else Python collects JSON values
    phases      `Events` -> canonical batches, by the rules of a `dialect`: slices, counters and links become rows of a
                `draft`; the rules of PyTorch's categories are in `torch_categories`
    salvage     mends what tools write wrong, and reads a damaged list element by element
"""
