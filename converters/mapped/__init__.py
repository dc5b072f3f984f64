"""Tables of anybody, CSV, TSV or JSON Lines, by a mapping of their columns to fields (`ktrace.input.mapping`).

    Kernel,t0,Δ,queue,note                                 {"op":"gemm","span":{"begin":12.5,"end":14},"gpu":0}
    gemm,12.5,3.25,compute,                                {"op":"norm","span":{"begin":14,"end":14.25},"gpu":0}
    softmax,15.75,0.5,compute,"second, slower"

    name=Kernel,start=t0:us,dur=Δ:us,stream=queue          name=op,start=span.begin:ms,end=span.end:ms,device=gpu

A row with a start is an event, any other row a summary. Columns that the mapping doesn't name become arguments.
"""
