"""Trace Event JSON of the Intercept Layer for OpenCL Applications (clintercept_trace.json).

[
{"ph":"M","name":"clintercept_start_time","pid":825,"tid":0,"args":{"start_time":8334000904}},
{"ph":"M","name":"thread_name","pid":825,"tid":1.1,"args":{"name":"IOQ 0xaaab.0.0 Some GPU (CL_DEVICE_TYPE_GPU)"}},
{"ph":"X","pid":825,"tid":900,"name":"clEnqueueNDRangeKernel( mm )","ts":100.125,"dur":5.250,"args":{"id":2}},
{"ph":"X","pid":825,"tid":1.1,"name":"mm","ts":130.500,"dur":9.125,"args":{"id":2}},

A whole tid is a thread of the host. Device work has the tid <queue>.1, its name (`PerKernel`), <number>.<queue> with
three stages (`InStages`), or -<queue> in old versions. The id of a call and of the work that it enqueued are the same.
"""
