"""Steps between a reader and a writer that an option asks for, and `align` and `classify`, which other calls use, too.

align/      times of several sources in one clock           relabel    source labels of several inputs kept apart
metrics     those of one tool on the launches of another    matching   which launch is which kernel
classify    operation, library, layer, short name
crop        a part by time: part (which time), marks (rows that say it), intervals, fetch (by reading twice)
filter      a part by what rows are
split       numbered parts: splitby (how it is written), steps (by steps)

masks       which rows of a batch                           attached   rows that hang on others go with these
launched    calls and the work that they launch
"""
