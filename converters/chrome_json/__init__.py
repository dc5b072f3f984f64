"""Chrome trace JSON: the Trace Event Format of chrome://tracing, which Perfetto reads as well.

    {"displayTimeUnit":"ns","otherData":{"ktrace":{"origin_ns":1724000000000000000}},"traceEvents":[
    {"ph":"M","name":"process_name","pid":4242,"args":{"name":"python3"}},
    {"ph":"X","name":"ampere_sgemm_128x64_tn","cat":"kernel","pid":4242,"tid":7,"ts":12.345,"dur":3.210,"args":{"id":5}}
    ]}

Times are microseconds with three decimals, counted from the begin of the trace: an epoch time would lose
its nanoseconds in the double that viewers read it through.
"""
