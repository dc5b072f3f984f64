"""Code that several formats share. Each folder lists its modules in its own `__init__`; this is what to look for where.

text/                   logs and tables small enough to read whole, line by line: lines and their account, tables in any
                        layout, headings with units, printed numbers
columnar/               millions of rows as columns, without Python objects for values: CSV blocks, conversion of
                        text cells, protobuf messages
sqlite/                 tables of a database as blocks of columns, and joins between them
trace_json/             Trace Event JSON in all dialects
canonical/              ktrace's own records and tables: written, and read back
ncu/                    Nsight Compute: launches with metrics, names, units
ascend/                 Huawei Ascend: types of tasks, files of a profile
rocm/                   ROCm: its CSV tables, dispatches with counters, agents
xla/                    XLA's profiler: lines, details of device work
torch_stacks            stacks in dumps of PyTorch, as facts of the catalog
plain_pickle            pickles of plain values, without running anything
intel_names             Intel's unitrace and its predecessors: names of device work in their parts
intel_tracks            rows of queues in the JSON of OpenCL's and Level Zero's tracers as device work
timeline_arguments      what a timeline output shows as the arguments of an event
track_paths             names of tracks for outputs without tracks below tracks
"""
