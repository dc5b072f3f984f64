"""SQL on a trace, with DuckDB.

answers    `ktrace.query`: an input and a text of SQL become an Arrow table, or a stream of batches; what can be asked;
           tables that stay in memory, for many questions
loading    reads the columns that a query needs, and which call launched which work, into tables
output     writes an answer: table, CSV, TSV, JSON, JSON Lines, Markdown, Parquet
engine     DuckDB: views, connections without access to files, which tables a text of SQL needs, errors as ours
"""
