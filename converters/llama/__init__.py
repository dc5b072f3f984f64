"""Timing lines of llama.cpp and ggml in logs: of the server and the tools, of the Vulkan backend, of test-backend-ops.

    0.04.796.165 I slot print_timing: id  0 | task 3 | prompt eval time =    94.80 ms /    20 tokens (    4.74 ms ...
    llama_perf_context_print:        eval time =    2056.60 ms /    12 runs   (  171.38 ms per token,     5.83 ...
    Vulkan Timings:
    MUL_MAT_VEC q8_0 m=12288 n=1 k=2048: 46116 x 125.336 us = 5.78e+06 us (401.476 GFLOPS/s)
    Total time: 9.1e+06 us.
      MUL_MAT(type_a=q4_0,type_b=f32,m=4096,n=1):    852 runs -  1176.54 us/run - 117.44 MFLOP/run -  99.82 GFLOPS

`timings` reads the first two forms, `kernels` the others.
"""
