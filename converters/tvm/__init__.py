"""TVM: profiling reports, the table of the debug executor, the summary of a time evaluator.

    report.json()    {"calls":[{"Name":{"string":"fused_dense"},"Duration (us)":{"microseconds":12.5},...}],
                      "device_metrics":{"cuda0":{...}},"configuration":{"Executor":{"string":"VM"}}}
    report.csv()     Argument Shapes,Count,Device,Duration (us),Hash,Name,Percent
    print(report)    Name         Duration (us)  Percent  Device  Count   Argument Shapes
                     fused_dense          12.50    25.00   cuda0      1  float32[1, 64]
    debug executor   Node Name    Ops          Time(us)  Time(%)  Shape    Inputs  Outputs  Measurements(us)
    time evaluator   Execution time summary:

Facts: src/runtime/profiling.cc (2021 to 2026), python/tvm/contrib/debugger/debug_result.py and
python/tvm/runtime/module.py of apache/tvm.
"""
