"""The report of the Intercept Layer for OpenCL Applications (clintercept_report.txt, or at the end of its log).

Total Enqueues: 16

Device Performance Timing Results for Intel(R) Graphics [0x5916] (24CUs, 1100MHz):

Total Time (ns): 457092230

                          Function Name,  Calls,     Time (ns), Time (%),  Average (ns),      Min (ns), ...
blur SIMD16 GWS[ 3840 x 2160 ] LWS[ NULL ],     16,     457091912,  100.00%,      28568244,      28467166, ...
"""
