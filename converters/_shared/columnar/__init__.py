"""Columns for millions of rows: blocks, CSV, cells, protobuf messages."""
