"""Canonical records in Parquet, written by ktrace itself (model version 1): a folder or one file, in zstd.

Many such files that `ktrace batch` wrote are a dataset (`dataset.py`), read as one trace.

    run/                       run.parquet
      events.parquet             record | source | id | ts   | kind   | name | ...
      summaries.parquet          event  | run    | 1  | 1000 | kernel | gemm |
      links.parquet              footer: ktrace.version = 1.0
      catalog.parquet                    ktrace.catalog = [{"record":"catalog",...}]

All columns are flat but `scope` (a list of texts), so that DuckDB, Polars and pandas read them as they are.
"""
