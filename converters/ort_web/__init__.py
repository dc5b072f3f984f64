"""Profiling lines of onnxruntime-web in the log of a browser's console, between lines of the page.

    [profiling] kernel "9920448|Gemm|fc1|GemmShared" input[0]: [4,32] | float32, output[0]: [4,64] | float32,
    start time: 0 ns, execution time: 70831 ns                                                       (on one line)
    v Profiler.node 2022-08-18T10:05:14.750Z|0.23ms on event 'conv1' at 512.40

The first form is that of `env.webgpu.profiling` (JSEP, from 1.16 on), the second that of WebGL and WebAssembly sessions
(onnxjs). A session with `enableProfiling` prints the JSON of an ONNX Runtime profile, an event a line.
"""
