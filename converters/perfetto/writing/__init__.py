"""A timeline as packets, a batch at a time.

machine           the events of one machine: device work as render stages, all else as events on tracks
sequences         the two sequences of a machine, messages as packets on them; what the machines of a trace share
track_events      TrackEvents of the host
render_stages     GpuRenderStageEvents
kernel_counters   metrics and estimates of kernels as GpuCounterEvents
busy_pieces       when streams are busy
device_processes  the same as threads of processes, which the overview of viewers counts
root_tracks       steps, and what streams do, above all processes: what viewers show at first sight
descriptors       TrackDescriptors of processes, threads, devices, streams and counters
track_names       their names as viewers show them: ids, order, what is cut
gpu_tracks        GPUs, contexts and hardware queues
arguments         arguments as DebugAnnotations or ExtraComputeArgs
extra_fields      columns of a batch as arguments and texts; flows, launches and waits at the ends of arrows
fields            the kinds of fields of messages, a value for each row
"""
