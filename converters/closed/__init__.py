"""Files of vendors that only the vendor's own tool can read, recognised to name that tool's export command.

run.qdstrm       a stream of Nsight Systems         QdstrmImporter -i …
kernel.ncu-repz                                     ncu --import … --csv --page raw
run.trace/       a folder of Instruments             nothing that it exports can be read yet
otlp.json        {"resourceSpans": [...             of a tool that can't be read yet (`unread`): another way
"""
