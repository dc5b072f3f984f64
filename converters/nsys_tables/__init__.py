"""Nsight Systems: the other exports of `nsys export`, which contain the same tables as SQLite in another container.

    nsys export --type arrow        run.arrows                 Arrow streams one after the other, one per table
    nsys export --type arrowdir     run_arwdir/NVTX_EVENTS.arrow          a folder, a stream for each table
    nsys export --type parquetdir   run_pqtdir/NVTX_EVENTS.parquet
    nsys export --type hdf          run.h5                     a dataset for each table; HDF5 has no nulls

The tables are written to an SQLite database in a temporary folder, which is then read like an SQLite export.
"""
