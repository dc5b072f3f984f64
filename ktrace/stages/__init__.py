"""The stages between reading and writing: each takes batches and yields batches.

decode     decodes the names of device work that C++ compilers encoded
align/     brings the times of several sources to one clock
classify   labels device work with operation, library, precision, layer and short name
select/    crops by time and filters rows
metrics/   attaches the metrics of one tool to the kernels that another tool timed
execution_trace
           attaches the arguments of operators in an execution trace to their rows
split      divides a trace into numbered parts
layout/    makes synthetic slices of tables, for timeline writers
order/     pairs begins and ends; sorts, nests and links events for timeline writers
"""
