"""The stages that select a part of a trace.

wanted          the crop and the filter that a user asks for
crop            by time: an interval, around a name, a step, a range; some formats are read twice for it
filter          by kind, name, device, stream, rank and duration; why one found nothing
coarsen         short slices become one with their neighbours, counters keep their extremes
dependents      rows that depend on other rows (figures, links, launched work) stay or go with these
intervals       sets of time intervals
"""
