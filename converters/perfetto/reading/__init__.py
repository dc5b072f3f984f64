"""Packets as rows, some thousand packets at a time.

trace         the packets of a trace: first what they change, then their events
context       what one reading knows: tracks, clocks, times on the main clock; the events of a chunk
messages      a file as packets; the fields of a single message; interned texts and defaults of a sequence
arguments     arguments of many events as columns of values; rows with arguments as batches
event_fields  TrackEvents taken apart: type, track, name, category, phases of older traces; work of other tools
track_events  TrackEvents as rows
gpu_packets   GpuRenderStageEvents and what they refer to; counters, descriptions, memory and log of a GPU
extra_rows    counters that events carry, metrics of kernels, ends of arrows
"""
