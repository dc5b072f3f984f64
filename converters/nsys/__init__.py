"""Nsight Systems: the SQLite export of a report, `nsys export --type sqlite`, of every release since 2021.

    StringIds                      671 | saxpy                        every name stands once, as an id everywhere else
    CUPTI_ACTIVITY_KIND_KERNEL     924922186 | 942626994 | 0 | 1 | 7 | 140 | 302119223558144 | 670 | 671 | ...
    CUPTI_ACTIVITY_KIND_RUNTIME    924890173 | 924923126 | 0 | 302119224788637 | 140 | 672 | 0 | ...
    NVTX_EVENTS                    924881857 | 924940911 | 59 | ... | saxpy | 302119224788637 | ...

A table for each kind of event, times in ns since the start of the session, process and thread packed in one number.
Tables are there only where they have rows, and have more columns with every release: all is found by name.
"""
