"""What the profilers of ROCm share: rocprof, rocprofv2, rocprofv3, RPD and rocpd databases.

common              work-items as blocks, agents, names of kernels and copies, counters shown as means
csv_file            reads one CSV file, whichever table it contains
tables              the kind of a CSV table by its headings
columns             the columns of dispatches, and how accurate their times are
dispatches          dispatches as kernels, with their counters
known_dispatches    dispatches of earlier rows and files, for counters in later ones
rows                all other tables: calls, copies, allocations, samples, statistics, agents
arrow_ends          the slices at the ends of launches that JSON states by place and time
"""
