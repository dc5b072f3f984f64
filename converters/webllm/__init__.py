"""GPU timestamps of WebLLM's compute passes, logged as blocks of JSON between other text.

    [12:01:07] decode step 3
    {"entryPoints":["NT_matmul7_kernel_2"],"start":1038090240,"end":1054801920}
    {"entryPoints":["rms_norm2_kernel"],"start":1054801920,"end":1054867456}

Times are ns of a WebGPU timestamp query; browsers round them to steps of 65,536 or 100,000 ns, so that many
passes take 0 ns. A pass that ran several entry points is one block that lists all of them.
"""
