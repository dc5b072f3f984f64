"""A timeline as packets, a batch at a time.

machine          the events of one machine: device work as render stages, all else as events on tracks
sequences        the two sequences of a machine, messages as packets on them; what the machines of a trace share
track_events     TrackEvents of the host, with callstacks
render_stages    GpuRenderStageEvents, and their places: GPUs, contexts and hardware queues
kernel_counters  metrics and estimates of kernels as GpuCounterEvents
busy_pieces      when streams are busy
derived_tracks   steps, and what streams do, above all processes; a process for each device, which viewers count
descriptors      TrackDescriptors of processes, threads, devices, streams and counters, with names as viewers show them
arguments        arguments as DebugAnnotations or ExtraComputeArgs; other columns; the ends of arrows
fields           the kinds of fields of messages, a value for each row
"""
