"""Where the time went: what `ktrace summary` computes.

batches ──► analysis.work ──► compute ──► model ──► tables

marked       the step and the layer of each piece of work
statistics   groups from tables of statistics, for sources without events
questions    the rooms that answer other questions than "how long?"
compute      makes the summary
model        the summary and its parts
verdict      the summary in three sentences
tables       the summary as tables
one_line     its main figures in one line
"""
