"""From batches to an output.

destination   the format and form of an output
sink          writes to a temporary file, which replaces the target at the end
writer        the protocols of writers
write         passes batches to a writer, through the stages that its format needs
parts         numbered parts
archive       an archive with a Perfetto trace for each source
"""
