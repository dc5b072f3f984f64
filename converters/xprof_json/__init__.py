"""The Trace Event JSON of XLA's profiler (JAX, TensorFlow): `<host>.trace.json.gz` and `perfetto_trace.json.gz`.

{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}},
{"ph":"X","pid":1,"tid":17,"ts":1611.362,"dur":18.24,"name":"loop_add_fusion","args":{"correlation_id":"18"}},{}]}
"""
