"""Nsight Systems: what `nsys export` writes beside SQLite, the same tables in another container.

    nsys export --type arrow        run.arrows                 Arrow streams one after the other, a table each
    nsys export --type arrowdir     run_arwdir/NVTX_EVENTS.arrow          a folder, a stream for each table
    nsys export --type parquetdir   run_pqtdir/NVTX_EVENTS.parquet
    nsys export --type hdf          run.h5                     a dataset for each table; HDF5 has no nulls

The tables become an SQLite database in a temporary folder, which is read as an SQLite export is.
"""
