"""Where the time went: what `ktrace summary` and `ktrace diff` compute.

batches ──► gather ──► events ──► compute ──► model ──► tables

gather       collects from batches what a summary needs
columns      keeps numbers and rows, source by source
shapes       numbers the combinations of values that rows have
events       device work with what it is grouped by
joining      the call of an arrow, and the range around a time
marked       the step and the layer of each piece of work
use          what devices did with their time
statistics   groups from tables of statistics, for sources without events
figures      counts, totals and percentiles of groups
labels       the names of groups
keys         what work can be grouped by
compute      makes the summary
model        the summary and its parts
tables       the summary as tables
"""
