"""What there is: the formats of ktrace, a line each. Nothing is imported before it is used."""

from __future__ import annotations

from ktrace.input.format import Format, Score

# fmt: off
FORMATS = (
    # Timelines and tables that ktrace writes.
    Format("perfetto", "Perfetto trace", ".perfetto", ("*.perfetto", "*.pftrace", "*.perfetto-trace"), reads=True, writes=True, timeline=True, overlap=True),
    Format("chrome", "Chrome trace JSON", ".chrome_json", ("*.trace.json",), reads=True, writes=True, timeline=True, words=('"traceevents"', '"ph"', "speedscope.app", '"nodes"', '"spans"', "begin trace")),
    Format("speedscope", "speedscope profiles, one for each track", ".speedscope", ("*.speedscope.json",), writes=True, timeline=True),
    Format("folded", "folded stacks for flame graphs", ".folded", ("*.folded", "*.collapsed"), writes=True, timeline=True),
    Format("otlp", "OpenTelemetry spans: OTLP JSON and protobuf, console exporter", ".otlp", ("*.otlp.json", "*.otlp.jsonl"), reads=True, writes=True, timeline=True),
    Format("jsonl", "canonical records, a line each", ".jsonl", ("*.jsonl",), reads=True, writes=True, words=('"ktrace"', '"record"')),
    Format("json", "canonical records, one document", ".json", ("*.json",), reads=True, writes=True, words=('"ktrace"', '"record"')),
    Format("parquet", "canonical records in Parquet, a file or a folder", ".parquet", ("*.parquet",), reads=True, writes=True, folder=True, reads_folders=True),
    Format("arrow", "canonical records as an Arrow IPC file", ".arrow", ("*.arrow", "*.feather"), reads=True, writes=True),
    Format("csv", "canonical records as one flat table", ".csv", ("*.csv",), reads=True, writes=True, words=("source", "record"), prose=True),
    Format("nsys-csv", "CSV as `nsys stats` prints it, a report by the name of the file", ".nsys_csv", ("*_cuda_gpu_trace.csv", "*_cuda_gpu_kern_sum.csv"), writes=True, timeline=True, overlap=True),
    # PyTorch.
    Format("kineto", "PyTorch profiler (Kineto) JSON", ".kineto", ("*.pt.trace.json",), reads=True),
    Format("torch-table", "PyTorch profiler tables, what `key_averages().table()` prints", ".torch_table", ("*.txt", "*.log"), reads=True, words=("self cpu", "cpu total", "cpu time", "self cuda", "cuda total", "self xpu", "time avg", " total %"), prose=True),
    Format("torch-flops", "PyTorch FlopCounterMode's table of floating point operations", ".torch_flops", ("*flop*.txt", "*.log"), reads=True, words=("% total",), prose=True),
    Format("execution-trace", "PyTorch execution trace (Chakra ET), operators without times", ".execution_trace", ("*_et.json", "et.json", "execution_trace*.json"), reads=True, words=('"rf_id"',)),
    Format("torch-memory", "PyTorch memory snapshot, pickle or JSON", ".torch_memory", ("*snapshot*.pickle", "*.pkl", "*.pickle", "*snapshot*.json"), reads=True),
    Format("nccl-flight-recorder", "PyTorch flight recorder, pickle or JSON", ".nccl_flight_recorder", ("*trace_rank_*", "*.pickle", "*.json"), reads=True),
    Format("nccl-inspector", "NCCL Inspector log", ".nccl_inspector", ("*-pid*.log",), reads=True, words=('"inspector_output_format_version"',)),
    # JAX, TensorFlow, Triton.
    Format("xplane", "XPlane of XLA's profiler (JAX, TensorFlow), a file or a profile folder", ".xplane", ("*.xplane.pb",), reads=True, reads_folders=True),
    Format("xprof-json", "Trace Event JSON of XLA's profiler (JAX, TensorFlow)", ".xprof_json", ("*.trace.json", "perfetto_trace.json"), reads=True, words=('"process_name"',)),
    Format("proton", "Triton Proton: tree (hatchet) as JSON or MessagePack, trace, cycle trace", ".proton", ("*.hatchet", "*.hatchet_msgpack", "*.chrome_trace"), reads=True),
    # NVIDIA.
    Format("nsys", "Nsight Systems SQLite export", ".nsys", ("*.sqlite", "*.sqlite3", "*.db"), reads=True, database=True),
    Format("nsys-stats", "Nsight Systems reports as `nsys stats` prints them", ".nsys_stats", ("*.txt", "*.tsv", "*_sum.csv", "*_trace.csv", "*_sum.json", "*_trace.json", "*_sum.html", "*_trace.html"), reads=True, words=("total", "strm", "grdx", "t-pri", "corrid", "rangestack", "projected start", "api start", "qcount", "q type", "peerrank", "send wait", "page faults", "migration size", "migration throughput", "<th>")),
    Format("nsys-tables", "Nsight Systems export as Arrow, Parquet or HDF5", ".nsys_tables", ("*.arrows", "*.h5", "*_arwdir", "*_pqtdir"), reads=True, via="nsys", reads_folders=True),
    Format("ncu", "Nsight Compute: printed text, CSV of the details and raw pages", ".ncu", ("*ncu*.csv", "*ncu*.txt", "*ncu*.log"), reads=True, words=("==", ", context ", ")x(", "kernel name", "metric name", '"source",', "launch attribute", " invocation", "shown averages"), prose=True),
    Format("ncu-rep", "Nsight Compute report", ".ncu_rep", ("*.ncu-rep",), reads=True),
    Format("nvprof", "nvprof traces, summaries and metrics, CSV or text", ".nvprof", ("*.csv", "*.log", "*.txt"), reads=True, words=("prof is profiling", "profiling application", "profiling result", "metric result", "event result", "api calls", "nvtx result", "dependency analysis", "waiting time", "duration", "calls", "invocations", "context", "avg size", "avg_size", "avg-size", "avgsize"), prose=True),
    Format("nvvp", "nvprof and Visual Profiler database", ".nvvp", ("*.nvvp", "*.nvprof"), reads=True, database=True),
    Format("tensorrt", "TensorRT: profiles, times and layers that trtexec exports, its log", ".tensorrt", ("*.profile.json", "*.timing.json", "*.graph.json", "*.log"), reads=True, words=('"count"', '"startenqms"', '"startinms"', '"layers"', "=== p", "tensorrt.trtexec", "gpu latency", '"performance_summary"', '"model_options"'), reads_folders=True),
    # AMD.
    Format("rocprofv3", "ROCm rocprofv3 CSV, a file or a folder", ".rocprofv3", ("*_trace.csv", "*_counter_collection.csv", "*_stats.csv", "*_agent_info.csv"), reads=True, words=("rocprofv3", "timestamp", "grid_size", "grd", "counter_name", "totaldurationns", "agent_type"), prose=True, reads_folders=True),
    Format("rocprofv3-json", "ROCm rocprofv3 JSON", ".rocprofv3_json", ("*_results.json",), reads=True, words=("rocprofiler-sdk-tool",)),
    Format("rocpd", "ROCm rocprofiler-sdk database (rocprofv3, rocprof-sys)", ".rocpd", ("*_results.db",), reads=True, database=True),
    Format("rocprof", "ROCm rocprof and rocprofv2 tables, CSV or text; rocprof-compute counters", ".rocprof", ("results*.csv", "pmc_perf*.csv", "*.txt"), reads=True, words=("timestamp", "grid_size", "grd", "counter_name", "totaldurationns", "agent_type"), prose=True),
    Format("rocprof-json", "ROCm rocprof's results.json", ".rocprof_json", ("results*.json",), reads=True, words=('"traceevents"',)),
    Format("rpd", "ROCm rocmProfileData (RPD) database", ".rpd", ("*.rpd",), reads=True, database=True),
    Format("rpd2tracing", "ROCm rocmProfileData (RPD) as Trace Event JSON", ".rpd2tracing", ("*.json",), reads=True, words=('"desc"', '"api_op"')),
    # Intel, Apple, Huawei.
    Format("unitrace", "Intel unitrace, onetrace, cl_tracer, ze_tracer: summaries, timelines and calls as text", ".unitrace", ("*.txt", "*.log"), reads=True, words=("=== ", " (submit) ", "<<<< ["), prose=True),
    Format("unitrace-json", "Intel unitrace JSON (--chrome-...-logging)", ".unitrace_json", ("*.json",), reads=True, words=('"ph"',)),
    Format("onetrace-json", "Intel onetrace, cl_tracer, ze_tracer JSON", ".onetrace_json", ("*.json",), reads=True, words=('"start_time"',)),
    Format("clintercept", "OpenCL Intercept Layer: the report of its timings", ".clintercept", ("clintercept_report.txt", "*.txt", "*.log"), reads=True, words=("performance timing results",), prose=True),
    Format("clintercept-json", "OpenCL Intercept Layer JSON", ".clintercept_json", ("clintercept_trace.json", "*.json"), reads=True, words=('"clintercept_',)),
    Format("openvino", "OpenVINO: counters of layers that benchmark_app writes and prints", ".openvino", ("benchmark_*_report.csv", "benchmark_*_report.json", "*.log", "*.xml"), reads=True, words=("layername", "layertype: ", '"real_time"', "exectimemcs", "configuration setup", "command line parameters", '"configuration_setup"', "[step 1")),
    Format("xctrace", "Apple Instruments (Metal System Trace), XML of `xctrace export`", ".xctrace", ("*.xml",), reads=True, words=("trace-query-result", "trace-toc"), reads_folders=True),
    Format("ascend-json", "Huawei Ascend timelines (torch_npu, MindSpore, msprof) as JSON", ".ascend_json", ("trace_view*.json", "msprof_*.json"), reads=True, words=("ascend", "async_npu", "async_task_queue", "overlap analysis", "duration estimated(us)", "iteration refresh", "ai core freq", '"npu', "fwd thread id", '"fullname"'), reads_folders=True),
    Format("ascend-csv", "Huawei Ascend tables (torch_npu, MindSpore, msprof) as CSV, a file or a folder", ".ascend_csv", ("kernel_details*.csv", "op_summary*.csv", "op_statistic*.csv", "task_time*.csv", "step_trace*.csv"), reads=True, words=("accelerator core", "task type", "task duration", "kernel_type", "core type", "op type", "api name", "computing", "iteration time", "total reserved", "timestamp(us)", "allocation time", "host self duration", "event_type", "compute_time", "victim rate"), prose=True, reads_folders=True),
    Format("ascend-db", "Huawei Ascend databases (torch_npu, MindSpore, msprof)", ".ascend_db", ("ascend_*_profiler*.db", "msprof_*.db"), reads=True, database=True, reads_folders=True),
    # Inference engines, on servers and in browsers.
    Format("onnxruntime", "ONNX Runtime profiles", ".onnxruntime", ("onnxruntime_profile*.json",), reads=True, words=('"cat"',)),
    Format("ort-web", "onnxruntime-web profiling in a console log", ".ort_web", ("*.log", "*.txt"), reads=True, words=("[profiling] kernel", "ms on event", '"inputsmetadata"', '"cat" : "session"')),
    Format("tvm", "TVM: profiling reports, debug executor, time evaluator", ".tvm", ("*.json", "*.csv", "*.txt", "*.log"), reads=True, words=("duration (us)", "time(us)", "execution time summary", '"microseconds"')),
    Format("llama", "llama.cpp timings in logs: server, tools, Vulkan backend, test-backend-ops", ".llama", ("*.log", "*.txt"), reads=True, words=("print_timing", "perf_", "vulkan timings:", "us/run")),
    Format("ggml-opencl", "ggml OpenCL profiles: cl_profiling.csv, cl_trace.json", ".ggml_opencl", ("cl_profiling*.csv", "cl_trace*.json"), reads=True, words=("op name", '"opencl"')),
    Format("webllm", "WebLLM timestamp blocks", ".webllm", ("*.log", "*.txt"), reads=True, words=("entrypoints",)),
    Format("mlc", "MLC kernel statistics in Markdown", ".mlc", ("*.md", "*.txt"), reads=True, words=("profiling analysis:", "kernel execution statistics", "cumulative"), prose=True),
    Format("doppler", "Doppler browser log", ".doppler", ("*.log", "*.txt"), reads=True, words=("gpu profile report", "ms][", "[browser:", "[metrics] ", "[ok] "), prose=True),
    Format("metallic", "Metallic analysis text", ".metallic", ("*.txt",), reads=True, words=("=== analyzing ", ": count="), prose=True),
    Format("metallic-jsonl", "Metallic raw JSON Lines", ".metallic_jsonl", ("*.jsonl",), reads=True, words=('"event"',)),
    Format("latencyprism", "LatencyPrism comparison", ".latencyprism", ("*.md",), reads=True, words=("performance comparison", "function name", "functionname", "function_name", "time rank", "timerank", "time_rank"), prose=True),
    Format("latencyprism-csv", "LatencyPrism performance and counter CSV", ".latencyprism_csv", ("*_data.csv",), reads=True, words=("counter_name", "function_name"), prose=True),
    # Anybody's.
    Format("mapped", "any CSV, TSV or JSON Lines by a mapping of its columns", ".mapped", ("*.csv", "*.tsv", "*.jsonl"), reads=True, surest=Score.STATED),
    Format("table", "any Markdown, TSV or text table with a name and a time", ".table", ("*.md", "*.tsv", "*.txt"), reads=True, surest=Score.SHAPE, prose=True),
    Format("console", "console log of a page: labels with durations, console.table", ".console", ("*.log", "*.txt"), reads=True, surest=Score.SHAPE, prose=True),
    # Closed formats that the vendor's own program, where it is installed, turns into one of the above.
    Format("nsys-rep", "Nsight Systems report, read through NVIDIA's nsys", ".nsys_rep", ("*.nsys-rep", "*.qdrep"), reads=True, closed=True, via="nsys"),
    # Closed formats, to name the vendor's export command.
    Format("closed", "vendors' closed formats", ".closed", ("*.qdstrm", "*.ncu-repz", "*.nsight-cuprof-report", "*.trace", "*.gputrace"), reads=True, closed=True, reads_folders=True),
)
# fmt: on
