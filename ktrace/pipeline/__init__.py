"""Commands as functions.

selection   the options that commands share; what was read with them before, from the cache
read        inputs to batches, through the stages that options ask for
convert     inputs to an output, and several of them to one timeline
overview    inputs to an overview, and a part of it to a trace
explain     rows that explain a trace, from the answers of `ktrace.analysis`
info        what an input is and contains
propose     a mapping for a table, guessed and tried
validate    checks canonical files against the schema
"""
