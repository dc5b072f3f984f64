"""rocprof's results.json (ROCm 2 to 6): Trace Event JSON with a process for the calls of each API and for each GPU.

    { "traceEvents":[{}
    ,{"args":{"name":"GPU0"},"ph":"M","pid":6,"name":"process_name","sort_index":2}
    ,{"ph":"X","name":"scale(float*)","pid":"6","tid":"0","ts":"4258451581700","dur":"12", "args":{"KernelName":...}}
    ,{"ts":4258451581680,"ph":"s","cat":"DataFlow","id":0,"pid":2,"tid":4001,"name":"dep"}

Numbers of slices are in quotes, times are whole µs.
"""
