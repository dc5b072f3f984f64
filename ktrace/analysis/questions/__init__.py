"""Answers to one question each, on the work and its calls in `ktrace.analysis.work`; none imports another.

hosts/          what operators, modules and ranges of the host cost on devices
idle            why devices are idle
breakdown       the parts of the time of steps, which add up to it
checks/         what is wrong with a recording, and which findings that takes away
collectives/    size, bandwidth, skew and stragglers of collectives
roofline/       how near the work is to what the machine can do
critical_path/  the calls and kernels that decide how long a step takes
launches/       how kernels are launched, and what limits them
memory/         how much was allocated, when, and who held it
phases          prefill and decode: time, tokens and waits by phase and batch size
queues          how much is queued on streams, and cost of waiting for devices
counters        what was counted of kernels and sampled of devices
energy          joules of devices, operations and kernels, from samples of power
inside          what warps do inside kernels
requests        how long requests of servers waited, were prefilled and decoded
overview/       traces of any size: how busy everything is over time, and any part of it
"""
