"""Raw metrics of Metallic (github cchance27/test-burn, crates/metallic_instrumentation), one record per line.

    {"timestamp":"2025-10-21T17:03:11.123456789Z","span_id":7,"parent_span_id":null,"span_name":"decode",
     "event":{"type":"GpuOpCompleted","data":{"op_name":"block_3/sdpa#12","backend":"Metal","duration_us":142}}}
    METRIC: {"timestamp":…}

The first form is the file of METALLIC_METRICS_JSONL_PATH (each record on one line), the second the console's.
The timestamp of a record is the time of its emission, which is the end of the work.
"""
