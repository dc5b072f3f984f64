"""rocprof and rocprofv2, CSV and text, and rocprof-compute's tables of counters (ROCm 3 to 6).

Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,...,SQ_WAVES,DispatchNs,BeginNs,EndNs,CompleteNs
0,"vecCopy(double*, double*) [clone .kd]",2,0,0,1271546,1271546,1048576,256,0,0,...,16384,14102,14103,14104,14105

Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,...,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES
Domain(HIP_API_DOMAIN), Function(hipMalloc), Start_Timestamp(611510516160324), End_Timestamp(...), Correlation_ID(2)
"""
