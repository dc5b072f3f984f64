"""Nsight Compute (`ncu`, 2019 to 2026): its printed text and its CSV pages. Launches with their metrics, without times.

What `ncu ./app` prints, between the output of the program itself (from 2019 to 2022 tables have no heading row,
and lines of kernels have a date but no grid):

    [4242] app@127.0.0.1
      gemm(const float *, float *) (64, 64, 1)x(16, 16, 1), Context 1, Stream 7, Device 0, CC 8.0
        Section: GPU Speed Of Light Throughput
        ----------------------- ----------- ------------
        Metric Name             Metric Unit Metric Value
        ----------------------- ----------- ------------
        Duration                         us       896.42
        ----------------------- ----------- ------------

        OPT   Est. Speedup: 12.5%
              The grid is too small.

`--csv --page details`, a line per metric or rule; rows of metrics have fewer cells:

    "ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",...
    "0","4242","app","127.0.0.1","gemm(..)","1","7","(16, 16, 1)","(64, 64, 1)","0",...,"Duration","us","896.42",

`--csv --page raw`, a line per launch, a column per metric, and a row of units below the headings:

    "ID","Process ID","Process Name","Host Name","Kernel Name",...,"gpu__time_duration.sum","launch__grid_size"
    "","","","","",...,"us",""
    "0","4242","app","127.0.0.1","gemm(..)",...,"896.42","4,096"
"""
