"""Device work with the calls that launched it and what the host did around them: what every answer begins with.

batches ──► gather ──► device_work ──► answers

gather           collects from batches what answers need; samples of CPU profiles by the function that ran
stated           figures that a source states itself, such as the log of a server
steadiness       steps that take longer than the others, other than by noise
stored_columns   keeps numbers and rows, source by source
device_work      device work with what it is grouped by
views            sources whose work another tool recorded, too
torch_facts      what operators of PyTorch state of themselves, for checks
spans            what the host did, by thread, under which names; who waits for whom; the span around a call
occurrences      the range with a meaning (step, layer, phase) that work belongs to, and its time on a device
gaps             the gaps of devices, the call that ends each, its cause, CPU activity during gaps
window           what devices lose before their first and after their last work
launching        the latency of launches, what may keep work waiting, what was queued before the recording
replayed         the operators and modules of kernels that graphs replay
durations        counts, totals and percentiles of groups, and what devices did with their time
grids             work by kernel and grid, for a comparison
groups           groups of work and the use of devices, and what work can be grouped by
findings         facts for programs, with rows that show them
question         what answers a question about the work, and the names of groups
"""
