"""Code that several formats share. Each folder lists its modules in its own `__init__`; this is what to look for where.

text/                   logs and tables small enough to read whole, line by line: lines and their account, tables in any
                        layout, headings with units, printed numbers
columnar/               millions of rows as columns, without Python objects for values: CSV blocks, conversion of
                        text cells, protobuf messages
sqlite/                 tables of a database as blocks of columns, and joins between them
trace_json/             Trace Event JSON in all dialects
canonical/              ktrace's own records and tables: written, and read back
ncu/                    Nsight Compute: launches with metrics, names, units
rocm/                   ROCm: its CSV tables, dispatches with counters, agents
intel/                  Intel's tracers: names of device work, rows of queues
ascend/                 Huawei Ascend: types of tasks, files of a profile
xla/                    XLA's profiler: lines, details of device work
torch/                  PyTorch's dumps: pickles of plain values, stacks
timelines/              timeline outputs: arguments of an event, names of tracks
"""
