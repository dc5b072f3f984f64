"""From batches to an output: its format and name, the sink, numbered parts, archives, the writers' protocol."""
