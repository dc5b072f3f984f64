"""Writes batches to an output.

destination   chooses the format and form of an output
sink          writes to a temporary file, which replaces the target at the end
swap          replaces folders and several files in one step, also when killed
write         passes batches to a writer, through the stages that its format needs; the protocols of writers
parts         writes numbered parts (`--split-by`)
archive       writes an archive with a Perfetto trace for each source
"""
