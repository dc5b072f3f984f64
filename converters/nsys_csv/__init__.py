"""CSV as NVIDIA's `nsys stats --format csv` prints it, for programs that read its reports. The headings are 2023.4's.

    run_cuda_gpu_trace.csv
        Start (ns),Duration (ns),CorrId,GrdX,...,Device,Ctx,GreenCtx,Strm,Name
        1040000,250500,13,132,...,NVIDIA H100 (0),1,,7,"gemm(float *, int)"

    run_cuda_gpu_kern_sum.csv
        Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
        75.0,1500000,300,5000.0,4998.5,4100,6020,211.4,"gemm(float *, int)"

The end of the file's name is the name of the report, as in the files that `nsys stats -o run` writes.
"""

from __future__ import annotations

from ktrace.kit import Format

FORMAT = Format(
    "nsys-csv",
    "CSV as `nsys stats` prints it, a report by the name of the file",
    patterns=("*_cuda_gpu_trace.csv", "*_cuda_gpu_kern_sum.csv"),
    writer="ktrace.converters.nsys_csv.writer:Writer",
    timeline=True,
    overlap=True,
)
