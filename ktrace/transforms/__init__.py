"""Steps between a reader and a writer: batches in, batches out."""
