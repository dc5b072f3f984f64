"""From a name to batches: files, folders and URLs, compression, detection, formats."""
