"""Nsight Systems: the SQLite export of a report (`nsys export --type sqlite`) by every release since 2021.

    StringIds                      671 | saxpy                        every name once; other tables have its id
    CUPTI_ACTIVITY_KIND_KERNEL     924922186 | 942626994 | 0 | 1 | 7 | 140 | 302119223558144 | 670 | 671 | ...
    CUPTI_ACTIVITY_KIND_RUNTIME    924890173 | 924923126 | 0 | 302119224788637 | 140 | 672 | 0 | ...
    NVTX_EVENTS                    924881857 | 924940911 | 59 | ... | saxpy | 302119224788637 | ...

There is a table for each kind of event, with times in ns since the start of the session, and process and thread packed
into one number. A table exists only if it has rows, and each release adds columns: everything is found by name.
"""
