"""Converts many traces into one Parquet dataset, in several processes or on a cluster.

    patterns ──► inputs ──► tasks ──► executor ──► shards ──► manifests
                                      (a process   run_name=a/host_name=n1/rank=3/rank3-5f0c….parquet
                                       a file)     _ktrace/inputs/rank3-5f0c….json, written last

`batch` runs all of it; `inputs` finds them and divides a big one into several tasks; `tasks` also names the sources.
`ktrace.input.stores` accesses local folders and object stores; `ktrace.input.dataset_manifest` records what is done.
"""
