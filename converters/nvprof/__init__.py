"""nvprof's output, as CSV or as text, and the CSV of the Visual Profiler (CUDA 5 to 12).

==12524== NVPROF is profiling process 12524, command: ./radixSort
==12524== Profiling result:
"Start","Duration","Grid X",...,"Static SMem","Dynamic SMem","Size","Throughput","Device","Context","Stream","Name"
s,ms,,,,,,,,KB,B,MB,GB/s,,,,
0.835718,10.521599,,,,,,,,,,4.000000,0.371260,"GeForce GTX 1080 Ti (0)","1","7","[CUDA memcpy HtoD]"
"""
