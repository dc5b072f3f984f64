"""What changed between two traces: what `ktrace diff` computes.

sides        the two sides: paths, traces, summaries, or two runs of one input
matching     which work of one side corresponds to which of the other; answers of a summary as groups of work
verdicts     the verdict on each change: clear, within noise, not known; launches in pairs
noise        tests of samples
compare      makes the comparison
facts        what of a comparison is worth naming; the same for programs
sentences    the comparison in three sentences
changes      the parts of a comparison
comparison   the comparison, its tables, and the conditions under which a pipeline fails
"""
