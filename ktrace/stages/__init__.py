"""The stages between reading and writing: each takes batches and yields batches.

names      decodes the names of device work that C++ compilers encoded; labels it with operation, library and so on
align/     brings the times of several sources to one clock
clock_repair
           moves devices whose work begins before the calls that launched it
select/    crops by time and filters rows
metrics    attaches the metrics of one tool to the kernels that another tool timed
launch_matching
           finds the kernel of each launch, for metrics
execution_trace
           attaches the arguments of operators in an execution trace to their rows
replays    gives the kernels that graphs replay the operators of their capture
redact     replaces names, paths and hosts by tokens
split      divides a trace into numbered parts
layout     makes synthetic slices of tables, for timeline writers
launch_tables
           makes one for each launch without a time, for layout
order/     pairs begins and ends; sorts, nests and links events for timeline writers
"""
