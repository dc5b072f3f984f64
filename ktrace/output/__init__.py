"""From batches to an output: which format and name, the sink, numbered parts, archives, the writers' protocol."""
