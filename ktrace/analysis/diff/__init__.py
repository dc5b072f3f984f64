"""What changed between two traces: what `ktrace diff` computes.

sides      the two sides: paths, traces, summaries, or two runs of one input
answered   answers of a summary (operators, idle time, ...) as groups
matching   which work of one side corresponds to which work of the other
noise      whether samples of both sides differ by more than chance
verdicts   the verdict on each change: clear, within noise, not known
compare    makes the comparison
sentences  the comparison in three sentences
gate       the conditions under which a pipeline fails
model      the comparison and its parts
tables     the comparison as tables
"""
