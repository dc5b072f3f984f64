"""Files of vendors that only the vendor's own tool can read, recognised to name that tool's export command.

run.nsys-rep     NVIDIA Tegra Profiler Report 1.…    nsys export --type sqlite
kernel.ncu-repz                                     ncu --import … --csv --page raw
run.trace/       a folder of Instruments             xcrun xctrace export
"""
