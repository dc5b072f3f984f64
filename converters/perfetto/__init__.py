"""Perfetto traces: the protobuf of ui.perfetto.dev, version 52 and later.

A file is a row of packets, each on a sequence whose first packet clears the state and whose later ones need it:

    packet { sequence 1, first, cleared    track_descriptor { uuid 2, process { pid 4242 "python3" } } }
    packet { sequence 1, needs state       interned_data { event_names { iid 1 "ampere_sgemm_128x64_tn" } } }
    packet { timestamp 1000  track_event { SLICE_BEGIN, track 3, name 1, debug_annotations { "grid" ... } } }
    packet { sequence 2, timestamp 1200  gpu_render_stage_event { event_id 9, duration 40, kernel 1, launch { ... } } }

To write: `encode` makes the bytes of many messages of one kind, `encode_fields` of the columns of a batch, `events` are
those of the host, `gpu` render stages, `arrows` what joins them, `descriptors` and `gpu_tracks` where they stand, and
`writer` puts all in order. `sidecar` is what the reader needs besides.
"""
