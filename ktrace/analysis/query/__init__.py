"""SQL on a trace, with DuckDB.

answers    `ktrace.query`: an input and a text of SQL become an Arrow table, or a stream of batches
views      the views that SQL sees, on the tables of the model
plan       which tables and columns a text of SQL needs, found before anything is read
loading    reads these columns into tables that can be scanned several times
launches   which call launched which device work, as a table
output     writes an answer: table, CSV, TSV, JSON, JSON Lines, Markdown, Parquet
engine     DuckDB: connections without access to files, and their errors as ours
overview   the views of an input with their columns and numbers of rows
"""
