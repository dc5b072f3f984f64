"""Writes batches to an output.

sink    writes to a temporary file, which replaces the target at the end
swap    replaces folders and several files in one step, also when killed
write   passes batches to a writer, through the stages that its format needs; the protocols of writers
parts   writes numbered parts (`--split-by`), or an archive with a Perfetto trace for each source
"""
