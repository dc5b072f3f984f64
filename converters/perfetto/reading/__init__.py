"""Packets as rows, some thousand packets at a time.

packets          a file as packets; the sidecar in its first one
trace            the packets of a trace: first what they change, then their events
context          what one reading knows; the events of a chunk
sequence_state   interned texts and defaults of a sequence
clocks           clock snapshots, and times on the main clock
tracks           uuids and queues as track columns
messages         the fields of a single message
argument_values  arguments of many events as columns of values
event_fields     TrackEvents taken apart: type, track, name, category, phases of older traces
track_events     TrackEvents as rows
interned_stages  queue, stage, kernel and context that render stages refer to
render_stages    GpuRenderStageEvents as rows
gpu_packets      counters, descriptions, memory and log of a GPU
counters         counters that events carry, and metrics of kernels
links            ends of arrows
rows             rows with arguments as batches; columns that ktrace wrote as arguments
"""
