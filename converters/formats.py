"""What there is: the formats of ktrace, a line each. Nothing is imported before it is used."""

from __future__ import annotations

from ktrace.input.format import Format, Score

# fmt: off
FORMATS = (
    # Timelines and tables that ktrace writes.
    Format("perfetto", "Perfetto trace", ".perfetto", ("*.perfetto", "*.pftrace", "*.perfetto-trace"), reads=True, writes=True, timeline=True, overlap=True),
    Format("chrome", "Chrome trace JSON", ".chrome_json", ("*.trace.json",), reads=True, writes=True, timeline=True),
    Format("jsonl", "canonical records, a line each", ".jsonl", ("*.jsonl",), reads=True, writes=True),
    Format("json", "canonical records, one document", ".json", ("*.json",), reads=True, writes=True),
    Format("parquet", "canonical records in Parquet, a file or a folder", ".parquet", ("*.parquet",), reads=True, writes=True, folder=True),
    Format("csv", "canonical records as one flat table", ".csv", ("*.csv",), reads=True, writes=True),
    # Traces, logs and tables that ktrace reads.
    Format("kineto", "PyTorch profiler (Kineto) JSON", ".kineto", ("*.pt.trace.json",), reads=True),
    Format("doppler", "Doppler browser log", ".doppler", ("*.log", "*.txt"), reads=True),
    Format("metallic", "Metallic analysis text", ".metallic", ("*.txt",), reads=True),
    Format("metallic-jsonl", "Metallic raw JSON Lines", ".metallic_jsonl", ("*.jsonl",), reads=True),
    Format("mlc", "MLC kernel statistics in Markdown", ".mlc", ("*.md", "*.txt"), reads=True),
    Format("webllm", "WebLLM timestamp blocks", ".webllm", ("*.log", "*.txt"), reads=True),
    Format("latencyprism", "LatencyPrism comparison", ".latencyprism", ("*.md",), reads=True),
    Format("latencyprism-csv", "LatencyPrism performance and counter CSV", ".latencyprism_csv", ("*_data.csv",), reads=True),
    Format("ncu", "Nsight Compute: printed text, CSV of the details and raw pages", ".ncu", ("*ncu*.csv", "*ncu*.txt", "*ncu*.log"), reads=True),
    Format("ncu-rep", "Nsight Compute report", ".ncu_rep", ("*.ncu-rep",), reads=True),
    Format("nsys", "Nsight Systems SQLite export", ".nsys", ("*.sqlite", "*.sqlite3", "*.db"), reads=True),
    Format("nsys-stats", "Nsight Systems reports as `nsys stats` prints them", ".nsys_stats", ("*.txt", "*.tsv", "*_sum.csv", "*_trace.csv", "*_sum.json", "*_trace.json", "*_sum.html", "*_trace.html"), reads=True),
    Format("nsys-tables", "Nsight Systems export as Arrow, Parquet or HDF5", ".nsys_tables", ("*.arrows", "*.h5", "*_arwdir", "*_pqtdir"), reads=True, via="nsys"),
    Format("nvprof", "nvprof traces, summaries and metrics, CSV or text", ".nvprof", ("*.csv", "*.log", "*.txt"), reads=True),
    Format("nvvp", "nvprof and Visual Profiler database", ".nvvp", ("*.nvvp", "*.nvprof"), reads=True),
    Format("rocpd", "ROCm rocprofiler-sdk database (rocprofv3, rocprof-sys)", ".rocpd", ("*_results.db",), reads=True),
    Format("rocprof", "ROCm rocprof and rocprofv2 tables, CSV or text; rocprof-compute counters", ".rocprof", ("results*.csv", "pmc_perf*.csv", "*.txt"), reads=True),
    Format("rocprof-json", "ROCm rocprof's results.json", ".rocprof_json", ("results*.json",), reads=True),
    Format("rocprofv3", "ROCm rocprofv3 CSV, a file or a folder", ".rocprofv3", ("*_trace.csv", "*_counter_collection.csv", "*_stats.csv", "*_agent_info.csv"), reads=True),
    Format("rocprofv3-json", "ROCm rocprofv3 JSON", ".rocprofv3_json", ("*_results.json",), reads=True),
    Format("rpd", "ROCm rocmProfileData (RPD) database", ".rpd", ("*.rpd",), reads=True),
    Format("rpd2tracing", "ROCm rocmProfileData (RPD) as Trace Event JSON", ".rpd2tracing", ("*.json",), reads=True),
    Format("torch-table", "PyTorch profiler tables, what `key_averages().table()` prints", ".torch_table", ("*.txt", "*.log"), reads=True),
    Format("xctrace", "Apple Instruments (Metal System Trace), XML of `xctrace export`", ".xctrace", ("*.xml",), reads=True),
    Format("unitrace", "Intel unitrace, onetrace, cl_tracer, ze_tracer: summaries, timelines and calls as text", ".unitrace", ("*.txt", "*.log"), reads=True),
    Format("unitrace-json", "Intel unitrace JSON (--chrome-...-logging)", ".unitrace_json", ("*.json",), reads=True),
    Format("clintercept", "OpenCL Intercept Layer: the report of its timings", ".clintercept", ("clintercept_report.txt", "*.txt", "*.log"), reads=True),
    Format("clintercept-json", "OpenCL Intercept Layer JSON", ".clintercept_json", ("clintercept_trace.json", "*.json"), reads=True),
    Format("onetrace-json", "Intel onetrace, cl_tracer, ze_tracer JSON", ".onetrace_json", ("*.json",), reads=True),
    Format("table", "any Markdown, TSV or text table with a name and a time", ".table", ("*.md", "*.tsv", "*.txt"), reads=True, surest=Score.SHAPE),
    # Closed formats that the vendor's own program, where it is installed, turns into one of the above.
    Format("nsys-rep", "Nsight Systems report, read through NVIDIA's nsys", ".nsys_rep", ("*.nsys-rep", "*.qdrep"), reads=True, closed=True, via="nsys"),
    # Closed formats, to name the vendor's export command.
    Format("closed", "vendors' closed formats", ".closed", ("*.qdstrm", "*.ncu-repz", "*.nsight-cuprof-report", "*.trace", "*.gputrace"), reads=True, closed=True),
)
# fmt: on
