"""rocprofv3's CSV files: one, or a folder of them as one trace (ROCm 6.2 to 7).

host/834304_kernel_trace.csv
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",...
"KERNEL_DISPATCH","Agent 4",1,1,834304,1,10,"void add<float>(float*)",1,1550151853029637,1550151853042437,...

host/834304_hip_api_trace.csv
"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"""
