"""Perfetto traces: the protobuf of ui.perfetto.dev, version 52 and later.

A file is a row of packets. Each packet belongs to a sequence, whose first packet clears the incremental state and whose
later packets need it:

    packet { sequence 1, first, cleared    track_descriptor { uuid 2, process { pid 4242 "python3" } } }
    packet { sequence 1, needs state       interned_data { event_names { iid 1 "ampere_sgemm_128x64_tn" } } }
    packet { timestamp 1000  track_event { SLICE_BEGIN, track 3, name 1, debug_annotations { "grid" ... } } }
    packet { sequence 2, timestamp 1200  gpu_render_stage_event { event_id 9, duration 40, kernel 1, launch { ... } } }

reader    packets -> batches
writer    timeline -> packets
probe     recognises the format
about     what the GPU Compute tab of the viewer shows of a trace
proto/    field numbers, varints, and the sidecar that both directions share
writing/  the messages, a batch at a time
reading/  the rows, some thousand packets at a time
"""
