"""Text that Intel's unitrace, onetrace, cl_tracer and ze_tracer print: summaries, timelines (-t), calls (-c).

=== Device Timing Summary ===
                Total Execution Time (ns):            214649009
== L0 Backend ==
                                 Kernel,        Calls,            Time (ns),     Time (%),         Average (ns), ...
"GEMM[SIMD32 {1; 1024; 1} {1024; 1; 1}]",            4,             89769760,    91.937500,             22442440, ...

Thread 47342 Device 59736512 : "GEMM[...]" [ns] 1368 (append) 1400 (submit) 1793 (start) 4645 (end)
>>>> [271632470] <PID:12> <TID:13> clCreateBuffer: context = 0x5591dba3f860 flags = 4 ...
<<<< [271640078] <PID:12> <TID:13> clCreateBuffer [7608 ns] result = 0x5591dbaa5760 -> CL_SUCCESS (0)
"""
