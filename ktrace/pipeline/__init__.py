"""Commands as functions: read, convert, merge, info, validate."""
