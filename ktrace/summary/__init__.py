"""Where the time went: what `ktrace summary` and `ktrace diff` compute.

    batches ──► gather ──► events ──► compute ──► model ──► tables
               (columns,  (joining: calls, ranges)
                shapes)   (marked: steps and layers; use: of devices)
                          (statistics: of tables)

`columns` are what waits, `shapes` the combinations of values that rows have, `figures` medians and percentiles,
`labels` what groups are called.
"""
