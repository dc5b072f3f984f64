"""OpenVINO: the counters of a model's layers as benchmark_app writes them (2018 to 2026, C++ and Python).

    CSV   layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)        average, detailed, sorted
          conv;EXECUTED;Convolution;jit_avx512_f32;0.103;0.103
    JSON  {"report_type": "detailed", "detailed_performance": [{"nodes": [{"name": "conv", "real_time": "0.103"}]}]}
    log   conv   EXECUTED   layerType: Convolution   execType: jit_avx512_f32   realTime (ms): 0.103   ...
    XML   <layer name="conv" type="Convolution"><data execTimeMcs="103" .../>           -exec_graph_path

Facts: benchmark_app in openvinotoolkit/openvino (statistics_report.cpp and .py, utils.py, common.hpp).
"""
