"""A trace in a notebook.

trace         `Trace`: the rows in memory, and what can be done with them
read          `ktrace.read`: inputs as a `Trace`
arrow_tables  batches joined into Arrow tables, values compared, DataFrames
frames        events with the names of processes, threads and devices; the HTML that notebooks show
hta           the events as Holistic Trace Analysis has them
"""
