"""LatencyPrism's "Cross Performance Comparison" of two runs, in Markdown (compare_perf_data.py, 2025).

    | Metric              | normal_pid_805580 | abnormal_pid_842126 | Δ (…)       | Change (%) |
    |   Time Rank | normal_pid_805580 Time (us) | abnormal_pid_842126 Time (us) | Δ (us) | Δ (%) |
    | Function Name | Metric Name | Device | Suspicion Score | β_normal_…(%) | β_abnormal_…(%) | Δβ(%) | …

β is the share of a cycle that a function takes, μ the mean of a resource metric while the function runs.
"""
