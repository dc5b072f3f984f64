"""Vendors' files that only the vendor's own tool can read, recognised so that ktrace can name the export command.

run.qdstrm       a stream of Nsight Systems         QdstrmImporter -i …
kernel.ncu-repz                                     ncu --import … --csv --page raw
run.trace/       a folder of Instruments            xcrun xctrace export --input …
otlp.json        {"resourceSpans": [...             from a tool that ktrace can't read yet (`unread`): an alternative
"""
