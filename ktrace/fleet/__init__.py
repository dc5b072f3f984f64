"""Converts many traces into one Parquet dataset, or reduces them to what is slow, in several processes or on a cluster.

    patterns ──► inputs ──► tasks ──► executor ──► shards ──► manifests
                                      (a process   run_name=a/host_name=n1/rank=3/rank3-5f0c….parquet
                                       a file)     _ktrace/inputs/rank3-5f0c….json, written last

`batch` runs all of it; `inputs` finds them and divides a big one into several tasks; `tasks` also names the sources.
`ktrace.input.stores` accesses local folders and object stores; `ktrace.input.dataset_manifest` records what is done.

    inputs ──► executor ──► small tables ──► together ──► answer ──► a screen, a page
                            _ktrace/ranks/rank3-5f0c….rank

`run` runs that, for `ktrace batch --fleet`; `reduced` makes the tables of a rank, `together` joins those of all, and
`answer` says what is slow.
"""
