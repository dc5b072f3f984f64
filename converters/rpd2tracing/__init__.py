"""The output of rocmProfileData's `rpd2tracing.py`: Trace Event JSON whose list begins with an empty object.

    [ {}
    ,{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}
    ,{"pid":"2","tid":"0","name":"scale(float*)","ts":"8306020565922","dur":"26211","ph":"X","args":{"desc":"KernelExecution"}}

pid, tid, ts and dur are texts, times are whole µs, rounded down. The pid of a GPU is its number.
"""
