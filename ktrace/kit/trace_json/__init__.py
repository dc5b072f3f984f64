"""Trace Event JSON, which many tools write, each in its own dialect: one decoder for all of them.

    {"displayTimeUnit": "ms", "traceEvents": [
      {"ph": "X", "cat": "kernel", "name": "ampere_sgemm", "pid": 0, "tid": 7, "ts": 12.345, "dur": 3.210,
       "args": {"device": 0, "stream": 7, "correlation": 41, "grid": [64, 1, 1]}},
      {"ph": "s", "id": 41, "pid": 4242, "tid": 4242, "ts": 10.001, "cat": "ac2g", "name": "ac2g"}
    ], "traceName": "rank0.json"}

The data flows through these modules; memory is bounded by the batch, whatever the size of the file:

    document            what a format calls: a document to batches
    containers          bytes -> the members of the document and the lists of events, which several processes may read
    lists               a list, or byte ranges of it that are read on their own -> chunks of its events; `chunks` reads
                        the text through a window
    decode              a chunk -> `Events` (`events`), columns of a category: `compiled_events` makes them in C where
                        all events have known shapes, else `gather` collects `json_values`
    phases              `Events` -> canonical batches, by the rules of a dialect (`dialect`): `slices` and
                        `counters` make rows of a `draft`; `places` finds the track or the GPU; the rules of PyTorch's
                        categories are in `torch_categories`
    salvage             reads a damaged list element by element: `grammar` finds the end of a valid value, `repair`
                        mends what tools write wrong
"""
