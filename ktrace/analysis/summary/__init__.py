"""Where the time went: what `ktrace summary` computes.

batches ──► analysis.work ──► compute ──► summary

marked       the step and the layer of each piece of work
statistics   groups from tables of statistics, for sources without events
questions    the rooms that answer other questions than "how long?"
compute      makes the summary
summary      the summary and its parts, as tables and in one line
verdict      the summary in three sentences
"""
