"""Fields of Perfetto's messages, made by proto/generate_field_numbers.py. Not to be edited."""

from __future__ import annotations

# fmt: off

TRACE = {"packet": 1}
TRACE_PACKET = {"timestamp": 8, "timestamp_clock_id": 58, "track_event": 11, "track_descriptor": 60,
    "generic_kernel_task_state_event": 117, "generic_kernel_cpu_freq_event": 118,
    "generic_kernel_task_rename_event": 120, "generic_kernel_process_tree": 122, "generic_gpu_frequency_event": 129,
    "process_tree": 2, "track_event_range_of_interest": 90, "process_stats": 9, "inode_file_map": 4,
    "chrome_events": 5, "clock_snapshot": 6, "sys_stats": 7, "trace_uuid": 89, "trace_config": 33, "ftrace_stats": 34,
    "trace_stats": 35, "profile_packet": 37, "streaming_allocation": 74, "streaming_free": 75, "battery": 38,
    "power_rails": 40, "android_log": 39, "system_info": 45, "trigger": 46, "chrome_trigger": 109,
    "packages_list": 47, "chrome_benchmark_metadata": 48, "perfetto_metatrace": 49, "chrome_metadata": 51,
    "gpu_counter_event": 52, "gpu_render_stage_event": 53, "streaming_profile_packet": 54,
    "art_process_metadata": 131, "graphics_frame_event": 57, "vulkan_memory_event": 62, "gpu_log": 63,
    "vulkan_api_event": 65, "perf_sample": 66, "cpu_info": 67, "smaps_packet": 68, "service_event": 69,
    "concurrent_session_event": 134, "stack_sample": 135, "initial_display_state": 70, "gpu_mem_total_event": 71,
    "memory_tracker_snapshot": 73, "android_energy_estimation_breakdown": 77, "ui_state": 78, "translation_table": 82,
    "android_game_intervention_list": 83, "statsd_atom": 84, "android_system_property": 86,
    "entity_state_residency": 91, "trace_provenance": 124, "protovms": 125, "trace_attributes": 126,
    "android_aflags": 127, "gpu_info": 128, "interrupt_info": 130, "module_symbols": 61, "deobfuscation_mapping": 64,
    "process_descriptor": 43, "thread_descriptor": 44, "ftrace_events": 1, "synchronization_marker": 36,
    "compressed_packets": 50, "zstd_compressed_packets": 133, "extension_descriptor": 72, "etw_events": 95,
    "v8_js_code": 99, "v8_internal_code": 100, "v8_wasm_code": 101, "v8_reg_exp_code": 102, "v8_code_move": 103,
    "remote_clock_sync": 107, "pixel_modem_events": 110, "pixel_modem_token_database": 111,
    "clone_snapshot_trigger": 113, "kernel_wakelock_data": 115, "cpu_per_uid_data": 119, "user_list": 123,
    "journald_event": 132, "recovered_trace_info": 138, "for_testing": 900, "trusted_uid": 3,
    "trusted_packet_sequence_id": 10, "trusted_pid": 79, "interned_data": 12, "sequence_flags": 13,
    "incremental_state_cleared": 41, "trace_packet_defaults": 59, "previous_packet_dropped": 42,
    "first_packet_on_sequence": 87, "machine_id": 98, "ktrace_row": 1901}
TRACK_EVENT = {"category_iids": 3, "categories": 22, "name_iid": 10, "name": 23, "type": 9, "track_uuid": 11,
    "counter_value": 30, "double_counter_value": 44, "extra_counter_track_uuids": 31, "extra_counter_values": 12,
    "extra_double_counter_track_uuids": 45, "extra_double_counter_values": 46, "flow_ids_old": 36, "flow_ids": 47,
    "terminating_flow_ids_old": 42, "terminating_flow_ids": 48, "correlation_id": 52, "correlation_id_str": 53,
    "correlation_id_str_iid": 54, "callstack": 55, "callstack_iid": 56, "callstack_weight": 57,
    "debug_annotations": 4, "task_execution": 5, "log_message": 21, "cc_scheduler_state": 24, "chrome_user_event": 25,
    "chrome_keyed_service": 26, "chrome_legacy_ipc": 27, "chrome_histogram_sample": 28, "chrome_latency_info": 29,
    "chrome_frame_reporter": 32, "chrome_application_state_info": 39, "chrome_renderer_scheduler_state": 40,
    "chrome_window_handle_event_info": 41, "chrome_content_settings_event_info": 43, "chrome_active_processes": 49,
    "screenshot": 50, "source_location": 33, "source_location_iid": 34, "chrome_message_pump": 35,
    "chrome_mojo_event_info": 38, "timestamp_delta_us": 1, "timestamp_absolute_us": 16, "thread_time_delta_us": 2,
    "thread_time_absolute_us": 17, "thread_instruction_count_delta": 8, "thread_instruction_count_absolute": 20,
    "legacy_event": 6, "gpu_correlation": 3000, "gpu_api": 3001}
LEGACY_EVENT = {"name_iid": 1, "phase": 2, "duration_us": 3, "thread_duration_us": 4, "thread_instruction_delta": 15,
    "unscoped_id": 6, "local_id": 10, "global_id": 11, "id_scope": 7, "use_async_tts": 9, "bind_id": 8,
    "bind_to_enclosing": 12, "flow_direction": 13, "instant_event_scope": 14, "pid_override": 18, "tid_override": 19}
DEBUG_ANNOTATION = {"name_iid": 1, "name": 10, "bool_value": 2, "uint_value": 3, "int_value": 4, "double_value": 5,
    "pointer_value": 7, "nested_value": 8, "legacy_json_value": 9, "string_value": 6, "string_value_iid": 17,
    "proto_type_name": 16, "proto_type_name_iid": 13, "proto_value": 14, "dict_entries": 11, "array_values": 12}
NESTED_VALUE = {"nested_type": 1, "dict_keys": 2, "dict_values": 3, "array_values": 4, "int_value": 5,
    "double_value": 6, "bool_value": 7, "string_value": 8}
TRACK_DESCRIPTOR = {"uuid": 1, "parent_uuid": 5, "name": 2, "static_name": 10, "atrace_name": 13, "description": 14,
    "process": 3, "chrome_process": 6, "thread": 4, "chrome_thread": 7, "counter": 8, "state": 18,
    "disallow_merging_with_system_tracks": 9, "child_ordering": 11, "sibling_order_rank": 12,
    "sibling_merge_behavior": 15, "sibling_merge_key": 16, "sibling_merge_key_int": 17, "process_ordering": 19,
    "thread_ordering": 20}
PROCESS_DESCRIPTOR = {"pid": 1, "cmdline": 2, "process_name": 6, "process_priority": 5, "start_timestamp_ns": 7,
    "chrome_process_type": 4, "legacy_sort_index": 3, "process_labels": 8}
THREAD_DESCRIPTOR = {"pid": 1, "tid": 2, "thread_name": 5, "chrome_thread_type": 4, "reference_timestamp_us": 6,
    "reference_thread_time_us": 7, "reference_thread_instruction_count": 8, "legacy_sort_index": 3}
COUNTER_DESCRIPTOR = {"type": 1, "categories": 2, "unit": 3, "unit_name": 6, "unit_multiplier": 4,
    "is_incremental": 5, "y_axis_share_key": 7}
INTERNED_DATA = {"event_categories": 1, "event_names": 2, "debug_annotation_names": 3,
    "debug_annotation_value_type_names": 27, "debug_annotation_string_values": 29, "correlation_id_str": 43,
    "build_ids": 16, "mapping_paths": 17, "source_paths": 18, "function_names": 5, "mappings": 19, "frames": 6,
    "callstacks": 7, "stack_sample_task_contexts": 48, "stack_sample_execution_contexts": 49,
    "stack_sample_counter_descriptors": 50, "stack_sample_async_context_descriptors": 51, "source_locations": 4,
    "unsymbolized_source_locations": 28, "log_message_body": 20, "histogram_names": 25, "vulkan_memory_keys": 22,
    "graphics_contexts": 23, "gpu_specifications": 24, "gpu_counter_descriptors": 47, "kernel_symbols": 26,
    "v8_js_function_name": 31, "v8_js_function": 32, "v8_js_script": 33, "v8_wasm_script": 34, "v8_isolate": 35,
    "compute_kernels": 1000, "compute_arg_names": 1001}
CLOCK_SNAPSHOT = {"clocks": 1, "primary_trace_clock": 2}
CLOCK = {"clock_id": 1, "timestamp": 2, "is_incremental": 3, "unit_multiplier_ns": 4}
TRACE_PACKET_DEFAULTS = {"timestamp_clock_id": 58, "track_event_defaults": 11, "perf_sample_defaults": 12,
    "stack_sample_defaults": 100, "v8_code_defaults": 99}
TRACK_EVENT_DEFAULTS = {"track_uuid": 11, "extra_counter_track_uuids": 31, "extra_double_counter_track_uuids": 45}
TEST_EVENT = {"str": 1, "seq_value": 2, "counter": 3, "is_last": 4, "payload": 5, "protovm_patch": 6,
    "protovm_incremental_state": 7}
PROCESS_TREE = {"processes": 1, "threads": 2, "collection_end_timestamp": 3}
PROCESS = {"pid": 1, "ppid": 2, "cmdline": 3, "cmdline_is_comm": 9, "uid": 5, "nspid": 6,
    "process_start_from_boot": 7, "is_kthread": 8}
THREAD = {"tid": 1, "tgid": 3, "name": 2, "nstid": 4}
GPU_RENDER_STAGE_EVENT = {"event_id": 1, "duration": 2, "hw_queue_iid": 13, "stage_iid": 14, "gpu_id": 11,
    "context": 5, "render_target_handle": 8, "submission_id": 10, "extra_data": 6, "render_pass_handle": 9,
    "render_pass_instance_id": 16, "render_subpass_index_mask": 15, "command_buffer_handle": 12, "name": 17,
    "name_iid": 20, "event_wait_ids": 18, "kernel_iid": 19, "launch": 21, "specifications": 7, "hw_queue_id": 3,
    "stage_id": 4}
COMPUTE_KERNEL_LAUNCH = {"grid_size": 1, "workgroup_size": 2, "args": 3}
EXTRA_COMPUTE_ARG = {"name_iid": 1, "name": 2, "int_value": 3, "uint_value": 4, "double_value": 5, "string_value": 6,
    "string_value_iid": 7}
DIM3 = {"x": 1, "y": 2, "z": 3}
EXTRA_DATA = {"name": 1, "value": 2}
SPECIFICATIONS = {"context_spec": 1, "hw_queue": 2, "stage": 3}
CONTEXT_SPEC = {"context": 1, "pid": 2}
DESCRIPTION = {"name": 1, "description": 2}
GPU_CORRELATION = {"render_stage_submission_event_ids": 1, "render_stage_wait_event_ids": 2}
EVENT_NAME = {"iid": 1, "name": 2}
INTERNED_COMPUTE_KERNEL = {"iid": 1, "name": 2, "demangled_name": 3, "arch": 4, "args": 5}
INTERNED_GRAPHICS_CONTEXT = {"iid": 1, "pid": 2, "api": 3}
INTERNED_GPU_RENDER_STAGE_SPECIFICATION = {"iid": 1, "name": 2, "description": 3, "category": 4}
INTERNED_GPU_COUNTER_DESCRIPTOR = {"iid": 1, "counter_descriptor": 2, "gpu_id": 3}
GPU_COUNTER_EVENT = {"counter_descriptor": 1, "counter_descriptor_iid": 4, "counters": 2, "gpu_id": 3}
GPU_COUNTER = {"counter_id": 1, "int_value": 2, "double_value": 3}
GPU_COUNTER_DESCRIPTOR = {"specs": 1, "blocks": 2, "counter_groups": 6, "min_sampling_period_ns": 3,
    "max_sampling_period_ns": 4, "supports_instrumented_sampling": 5, "supports_counter_names": 7,
    "supports_counter_name_globs": 8}
GPU_COUNTER_SPEC = {"counter_id": 1, "name": 2, "description": 3, "int_peak_value": 5, "double_peak_value": 6,
    "numerator_units": 7, "denominator_units": 8, "select_by_default": 9, "groups": 10, "value_direction": 11}
GPU_COUNTER_GROUP_SPEC = {"group_id": 1, "name": 2, "description": 3, "counter_ids": 4}
GPU_INFO = {"gpus": 1}
GPU = {"name": 1, "vendor": 2, "model": 3, "architecture": 4, "uuid": 5, "pci_bdf": 7, "extra_info": 6}
GPU_MEM_TOTAL_EVENT = {"gpu_id": 1, "pid": 2, "size": 3}
GPU_LOG = {"severity": 1, "tag": 2, "log_message": 3}
TRACING_SERVICE_EVENT = {"tracing_started": 2, "all_data_sources_started": 1, "flush_started": 9,
    "all_data_sources_flushed": 3, "read_tracing_buffers_completed": 4, "tracing_disabled": 5,
    "seized_for_bugreport": 6, "slow_starting_data_sources": 7, "last_flush_slow_data_sources": 8,
    "clone_started": 10, "buffer_cloned": 11}
INTERNED_STRING = {"iid": 1, "str": 2}
FRAME = {"iid": 1, "function_name_id": 2, "mapping_id": 3, "rel_pc": 4, "source_path_iid": 5, "line_number": 6,
    "kind": 7, "kind_str": 8}
CALLSTACK = {"iid": 1, "frame_ids": 2}
COUNTER_UNIT = {"UNIT_UNSPECIFIED": 0, "UNIT_TIME_NS": 1, "UNIT_COUNT": 2, "UNIT_SIZE_BYTES": 3}
MEASURE_UNIT = {"NONE": 0, "BIT": 1, "KILOBIT": 2, "MEGABIT": 3, "GIGABIT": 4, "TERABIT": 5, "PETABIT": 6, "BYTE": 7,
    "KILOBYTE": 8, "MEGABYTE": 9, "GIGABYTE": 10, "TERABYTE": 11, "PETABYTE": 12, "HERTZ": 13, "KILOHERTZ": 14,
    "MEGAHERTZ": 15, "GIGAHERTZ": 16, "TERAHERTZ": 17, "PETAHERTZ": 18, "NANOSECOND": 19, "MICROSECOND": 20,
    "MILLISECOND": 21, "SECOND": 22, "MINUTE": 23, "HOUR": 24, "VERTEX": 25, "PIXEL": 26, "TRIANGLE": 27,
    "PRIMITIVE": 38, "FRAGMENT": 39, "MILLIWATT": 28, "WATT": 29, "KILOWATT": 30, "JOULE": 31, "VOLT": 32,
    "AMPERE": 33, "CELSIUS": 34, "FAHRENHEIT": 35, "KELVIN": 36, "PERCENT": 37, "INSTRUCTION": 40}
SEVERITY = {"LOG_SEVERITY_UNSPECIFIED": 0, "LOG_SEVERITY_VERBOSE": 1, "LOG_SEVERITY_DEBUG": 2, "LOG_SEVERITY_INFO": 3,
    "LOG_SEVERITY_WARNING": 4, "LOG_SEVERITY_ERROR": 5}
BUILTIN_CLOCK = {"BUILTIN_CLOCK_UNKNOWN": 0, "BUILTIN_CLOCK_REALTIME": 1, "BUILTIN_CLOCK_REALTIME_COARSE": 2,
    "BUILTIN_CLOCK_MONOTONIC": 3, "BUILTIN_CLOCK_MONOTONIC_COARSE": 4, "BUILTIN_CLOCK_MONOTONIC_RAW": 5,
    "BUILTIN_CLOCK_BOOTTIME": 6, "BUILTIN_CLOCK_TSC": 9, "BUILTIN_CLOCK_PERF": 10, "BUILTIN_CLOCK_TRACE_FILE": 11,
    "BUILTIN_CLOCK_MAX_ID": 63}
API = {"UNDEFINED": 0, "OPEN_GL": 1, "VULKAN": 2, "OPEN_CL": 3, "CUDA": 4, "HIP": 5}
TRACK_EVENT_TYPE = {"TYPE_UNSPECIFIED": 0, "TYPE_SLICE_BEGIN": 1, "TYPE_SLICE_END": 2, "TYPE_INSTANT": 3,
    "TYPE_COUNTER": 4, "TYPE_STATE": 5}
SEQUENCE_FLAGS = {"SEQ_UNSPECIFIED": 0, "SEQ_INCREMENTAL_STATE_CLEARED": 1, "SEQ_NEEDS_INCREMENTAL_STATE": 2}
CHILD_TRACKS_ORDERING = {"UNKNOWN": 0, "LEXICOGRAPHIC": 1, "CHRONOLOGICAL": 2, "EXPLICIT": 3}
SIBLING_MERGE_BEHAVIOR = {"SIBLING_MERGE_BEHAVIOR_UNSPECIFIED": 0, "SIBLING_MERGE_BEHAVIOR_BY_TRACK_NAME": 1,
    "SIBLING_MERGE_BEHAVIOR_NONE": 2, "SIBLING_MERGE_BEHAVIOR_BY_SIBLING_MERGE_KEY": 3}
PROCESS_ORDERING = {"PROCESS_ORDERING_UNSPECIFIED": 0, "PROCESS_ORDERING_EXPLICIT": 1}
THREAD_ORDERING = {"THREAD_ORDERING_UNSPECIFIED": 0, "THREAD_ORDERING_EXPLICIT": 1}
RENDER_STAGE_CATEGORY = {"OTHER": 0, "GRAPHICS": 1, "COMPUTE": 2}
GPU_COUNTER_GROUP = {"UNCLASSIFIED": 0, "SYSTEM": 1, "VERTICES": 2, "FRAGMENTS": 3, "PRIMITIVES": 4, "MEMORY": 5,
    "COMPUTE": 6, "RAY_TRACING": 7}
VALUE_DIRECTION = {"VALUE_DIRECTION_UNSPECIFIED": 0, "VALUE_DIRECTION_BACKWARDS_LOOKING": 1,
    "VALUE_DIRECTION_FORWARDS_LOOKING": 2}
# fmt: on
