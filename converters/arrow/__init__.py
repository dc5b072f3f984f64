"""Canonical records as an Arrow IPC file (Feather V2), written by ktrace itself (model version 1).

    ARROW1 .. record | source | id | ts   | kind   | name | ...    metadata of the schema: ktrace.version = 1.0
              event  | run    | 1  | 1000 | kernel | gemm | ...

The columns are those of Parquet, the catalog is rows as in CSV; buffers are compressed with zstd.
"""
