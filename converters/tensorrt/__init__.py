"""TensorRT: what its benchmark program trtexec exports and prints (TensorRT 5.1 to 11).

    --exportProfile   [ { "count" : 4 }                                             the time of each layer
                      , { "name" : "Conv_0", "timeMs" : 0.5, "averageMs" : 0.125, "medianMs" : 0.12, "percentage" : 50 }
    --exportTimes     [ { "startEnqMs" : 2.7, "endEnqMs" : 2.71, ..., "computeMs" : 0.87, ... }      each query
    --exportLayerInfo {"Layers": [{"Name": "Conv_0", "LayerType": "CaskConvolution", ...}], "Bindings": ["x"]}
    its log           [05/08/2024-14:05:14] [I] === Profile (2094 iterations ) ===
                      [05/08/2024-14:05:14] [I] Latency: min = 0.85 ms, max = 0.87 ms, ..., percentile(99%) = 0.87 ms

Facts: samples/common/sampleReporting.cpp, sampleDevice.cpp and logging.h of NVIDIA/TensorRT from 2019 to 2026.
"""
