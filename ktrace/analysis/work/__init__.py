"""Device work with the calls that launched it and what the host did around them: what every answer begins with.

batches ──► gather ──► events ──► answers

gather       collects from batches what answers need
columns      keeps numbers and rows, source by source
shapes       numbers the combinations of values that rows have
events       device work with what it is grouped by
spans        what the host did: operators, ranges and calls by thread
waits        who waits for whom: synchronisations and arrows
gaps         the gaps of devices, the call that ends each, its cause
meanwhile    how gaps are divided among the spans of the host
launching    the latency of launches, what may keep work waiting, what was queued before the recording
span_names   names of spans without what differs between occurrences
joining      the call of an arrow, and the range around a time
use          what devices did with their time
figures      counts, totals and percentiles of groups
labels       the names of groups
keys         what work can be grouped by
model        groups of work and the use of devices
question     what answers a question about the work
"""
