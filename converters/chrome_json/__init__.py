"""Chrome trace JSON: the Trace Event Format of chrome://tracing, which Perfetto reads as well.

    {"displayTimeUnit":"ns","otherData":{"ktrace":{"origin_ns":1724000000000000000}},"traceEvents":[
    {"ph":"M","name":"process_name","pid":4242,"args":{"name":"python3"}},
    {"ph":"X","name":"ampere_sgemm_128x64_tn","cat":"kernel","pid":4242,"tid":7,"ts":12.345,"dur":3.210,"args":{"id":5}}
    ]}

Times are microseconds with three decimals, counted from the start of the trace: viewers read them through a double, in
which an epoch time would lose its nanoseconds.

probe      recognises the format
reader     events of any program
dialect    rules that recognise GPU work in them
spans      byte ranges of a large file for parallel reading
read_back  rows of a file that ktrace wrote
writer     timeline -> JSON, with these modules:
lines      events of a batch as lines
arguments  the arguments of events as columns of JSON values
track_ids  tracks and lanes as process and thread ids
flow_ids   arrows as flows
"""
