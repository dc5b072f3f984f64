"""Kernel statistics of MLC-LLM and WebLLM in Markdown, made by scripts from the log of GPU timestamps.

    ## Profiling Analysis: Llama 3.2 1B q4f16_1 on Apple M2
    ### Kernel Execution Statistics (Sorted by Total Time)
    Kernel Name          | Total_Time_ms | Iterations | Avg_Time_ms | Peak_Time_ms | % of Total | Cumulative %
    -----------------------------------------------------------------------------------------------------------
    NT_matmul7_kernel_2  | 1030.28       | 64         | 16.10       | 40.57        | 45.64%     | 45.64%

A capture often has a second table, the kernels with the highest peaks. It repeats figures of the first one.
"""
