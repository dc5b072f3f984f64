"""The canonical model: batches of Arrow columns, builders of rows, the catalog, tracks, times, JSON values."""
