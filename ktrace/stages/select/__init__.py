"""The stages that select a part of a trace.

crop            by time: an interval, around a name, a step, a range
crop_bounds     which time a crop means, for each source
crop_columnar   a crop that reads twice: first the deciding columns, then the selected rows
marks           the rows that name the part: ranges, steps
filter          by kind, name, device, stream, rank and duration
unmatched       why a filter found nothing, and what there is instead
dependents      rows that depend on other rows (figures, links) stay or go with these
launched        links that are launches, and all launches of a trace
intervals       sets of time intervals
"""
