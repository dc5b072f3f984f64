"""What changed between two traces: what `ktrace diff` computes.

sides        the two sides: paths, traces, summaries, or two runs of one input
matching     which work of one side corresponds to which of the other; answers of a summary as groups of work
verdicts     the verdict on each change: clear, within noise, not known
noise        tests of samples
launches     launches in pairs, with those at the same places of the same steps
compare      makes the comparison
facts        what of a comparison is worth naming
findings     the comparison for programs
rows         the rows that show a change
sentences    the comparison in three sentences
changes      the parts of a comparison
comparison   the comparison, its tables, and the conditions under which a pipeline fails
"""
