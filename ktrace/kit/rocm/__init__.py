"""What the profilers of ROCm share: rocprof, rocprofv2, rocprofv3, RPD and rocpd databases.

common        work-items as blocks, agents, names of kernels and copies, counters shown as means
csv_file      reads one CSV file: calls, copies, allocations, samples, statistics, agents, dispatches
tables        the kind of a CSV table by its headings
dispatches    dispatches as kernels, with their counters, which may be in later rows and files
arrow_ends    the slices at the ends of launches that JSON states by place and time
"""
