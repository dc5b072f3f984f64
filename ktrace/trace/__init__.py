"""A trace in memory, for notebooks.

read     reads inputs as a trace
trace    the trace: four tables, DataFrames on demand
frames   frames with names from the catalog, and how a notebook shows a trace
hta      events in the form of Holistic Trace Analysis
"""
