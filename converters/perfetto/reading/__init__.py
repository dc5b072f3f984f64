"""Packets as rows, some thousand packets at a time.

trace            the packets of a trace: first what they change, then their events
context          what one reading knows; the events of a chunk; clocks and times on the main clock
sequence_state   interned texts and defaults of a sequence
tracks           uuids and queues as track columns
messages         a file as packets; the fields of a single message
argument_values  arguments of many events as columns of values
event_fields     TrackEvents taken apart: type, track, name, category, phases of older traces
track_events     TrackEvents as rows
interned_stages  queue, stage, kernel and context that render stages refer to
render_stages    GpuRenderStageEvents as rows
gpu_packets      counters, descriptions, memory and log of a GPU
extra_rows       counters that events carry, metrics of kernels, ends of arrows
rows             rows with arguments as batches; columns that ktrace wrote as arguments
"""
