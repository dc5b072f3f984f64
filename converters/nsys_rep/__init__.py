"""Reports of Nsight Systems: a closed format that NVIDIA's own program exports to SQLite.

run.nsys-rep     NVIDIA Tegra Profiler Report 1.…    nsys export --type sqlite -o run.sqlite run.nsys-rep
run.qdrep        the same, before 2021.4

ktrace doesn't parse the report itself. Without an nsys on this machine, the error names the command.
"""
