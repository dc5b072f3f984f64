"""XLA's profiler, which writes XPlane files and Trace Event JSON.

lines       what a line is, by its name and that of its plane: a stream, a thread, or a repetition of others
details     the texts with details of kernels, copies, memsets and allocations
"""
