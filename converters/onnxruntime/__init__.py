"""Profiles of ONNX Runtime (`SessionOptions.enable_profiling`): a list of trace events, an event a line.

    [
    {"cat" : "Session","pid" :12,"tid" :12,"dur" :485,"ts" :10,"ph" : "X","name" :"model_loading_uri","args" : {}},
    {"cat" : "Node","pid" :12,"tid" :19,"dur" :96,"ts" :3271,"ph" : "X","name" :"fc1_kernel_time","args" : {"provider" :
     "CPUExecutionProvider","op_name" : "Gemm","output_size" : "1024","input_type_shape" : [{"float":[4,32]}]}},
    {"cat" : "Kernel","pid" :-1,"tid" :-1,"dur" :41,"ts" :3290,"ph" : "X","name" :"void gemm<float>()","args" :
     {"stream" : "7","grid_x" : "12","parent_name" : "fc1_kernel_time"}}
    ]

Times are whole µs since the session began. Numbers among the arguments are texts. Names were written without escapes
until 1.28, so that a quote in a node's name breaks the JSON; the shared reader repairs that.
"""
