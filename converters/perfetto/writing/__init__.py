"""A timeline as packets, a batch at a time.

machine           the events of one machine: device work as render stages, all else as events on tracks
trace_output      what the machines of a trace share: the stream, the tracks, the sidecar
sequences         the two sequences of a machine, and messages as packets on them
track_events      TrackEvents of the host
render_stages     GpuRenderStageEvents
kernel_counters   metrics and estimates of kernels as GpuCounterEvents
busy_pieces       when streams are busy, in pieces of time
device_processes  these pieces as threads of processes, which viewers show at first sight
descriptors       TrackDescriptors of processes, threads, devices, streams and counters
track_names       their names as viewers show them: ids, order, what is cut
gpu_tracks        GPUs, contexts and hardware queues
arrows            flows, launches and waits as fields of the events at their ends
arguments         arguments as DebugAnnotations or ExtraComputeArgs
argument_fields   columns of a batch as arguments and texts
fields            the kinds of fields of messages, a value for each row
"""
