"""A trace in a notebook.

trace         `Trace`: the rows in memory, and the methods on them
read          `ktrace.read`: inputs as a `Trace`
arrow_tables  joins batches into Arrow tables, compares values, makes DataFrames
frames        adds names of processes, threads and devices to events; makes the HTML that notebooks show
timeline      a small timeline, for notebooks
contract      what every format promises, checked on samples
hta           events in the form of Holistic Trace Analysis
"""
