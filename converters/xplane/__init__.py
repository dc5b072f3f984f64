"""XPlane files of XLA's profiler, which JAX and TensorFlow use: one, or a profile folder (2020 to 2026).

plugins/profile/2026_11_22_06_14_24/vm.xplane.pb, a protobuf message XSpace:

planes { name: "/device:GPU:0"
  lines { id: 7 name: "Stream #7(Kernel)" timestamp_ns: 911061
    events { metadata_id: 1 offset_ps: 700301000 duration_ps: 18240000 stats { metadata_id: 3 uint64_value: 18 } } }
  event_metadata { key: 1 value { id: 1 name: "loop_add_fusion" } }
  stat_metadata { key: 3 value { id: 3 name: "correlation_id" } } }
"""
