"""Canonical records in Parquet, written by ktrace itself (model version 1): a folder or one file, in zstd.

A dataset (`dataset.py`) is many such files, written by `ktrace batch` and read as one trace.

    run/                       run.parquet
      events.parquet             record | source | id | ts   | kind   | name | ...
      summaries.parquet          event  | run    | 1  | 1000 | kernel | gemm |
      links.parquet              footer: ktrace.version = 1.0
      catalog.parquet                    ktrace.catalog = [{"record":"catalog",...}]

All columns but `scope` (a list of texts) are flat, so DuckDB, Polars and pandas read them directly.
"""
