"""The rows of formats of lines: tables, CSV, logs, folded stacks, XML."""

from __future__ import annotations

from .texts import Texts


def _line(sample: str, row: str) -> Texts:
    """A line; a long one is so at its end, where nothing else is named."""
    return Texts(sample, (row if "«filling»" in row else row + "«filling»") + "\n")


TEXT = (
    _line(
        "pyprof/all-cells-quoted-without-kernels.csv",
        '"1","12","4711","torch.nn.functional","«name»«filling»","«dur»","524288.0","28672","0","«track»","16,2,1","256,1,1",'
        '"M=32,N=64,K=128,float16,"',
    ),
    _line("bpftrace/newer-text-series-and-scalars.txt", "@waits[«name»«filling»]: -3"),
    _line(
        "csv/events-alone.csv",
        '"run",«id»,,,4321,«track»,,,,,,«start»,"cuda_runtime","{""cbid"":211}","api","«name»",,«dur»,"measured",77'
        ",,,,,,,,,,,,,,,,,,,,,",
    ),
    _line("folded/perf-kernel-frames-a-comment-and-decimals.folded", "python3;main (serve.py:40);«name»«filling» 30.5"),
    _line("kineto/stacks-with-underscores-and-single-frames.txt", "«name»«filling» 4"),
    _line(
        "torch-table/kernels-annotations-on-both-sides-two-tables-amid-output.txt",
        "                                               «name»        20.00%       2.000ms        35.00%   "
        "    3.500ms"
        "     875.000us       2.500ms        66.67%       2.500ms     625.000us           0 B           0 B"
        "       2.00 MB"
        "             4  ",
    ),
    _line(
        "torch-flops/indented-and-rounded-after-log-lines.txt",
        "[rank1]   - «name»                        540.003B     66.50%",
    ),
    _line(
        "nsys-stats/traces-of-a-copy-two-kernels-and-their-calls.csv",
        '«start»,«dur»,«id»,132,1,1,256,2,1,128,0.002,0.164,,,,,NVIDIA H100 80GB HBM3 (0),1,3,«track»,"«name»"',
    ),
    _line(
        "nsys-stats/comma-separated-behind-a-preamble.csv",
        '90.0,4500.250,9,500.028,500.000,499.000,501.250,0.750,  64    2    1, 128    1    1,"«name»"',
    ),
    _line(
        "nsys-stats/several-reports-one-skipped.txt",
        "     75.0        1,500,000        300   5,000.0   4,992.0     4,800     9,000        120.5  «name»",
    ),
    _line(
        "ncu/details-with-rules-two-processes-amid-output.csv",
        '"«id»","4242","train","127.0.0.1","«name»","1","«track»","(256, 1, 1)","(64, 32, 1)","0","9.0",'
        '"GPU Speed Of Light Throughput","DRAM Frequency","Ghz","2.62",',
    ),
    _line(
        "ncu/printed-by-default-amid-output.txt",
        "  «name» (12, 8, 1)x(128, 1, 1), Context 1, Stream «track», Device 0, CC 8.0«filling»\n"
        "    Section: GPU Speed Of Light Throughput\n"
        "    ----------------------- ----------- ------------\n"
        "    Metric Name             Metric Unit Metric Value\n"
        "    ----------------------- ----------- ------------\n"
        "    DRAM Frequency                  Ghz         1.51",
    ),
    _line(
        "nvprof/calls-and-work-mixed-two-processes.csv",
        '«start»,«dur»,,,,,,,,,,4.000000,11.302000,"Pageable","Device","Tesla V100-SXM2-16GB (1)","1","«track»",'
        '"«name»",103',
    ),
    _line(
        "nvprof/printed-traces-summary-unified-memory.txt",
        "133.810ms  135.78us                    -               -         -         -         -  409.50KB  2.8762GB/s"
        "    Pageable      Device  GeForce GT 640M         1         «track»  «name»",
    ),
    _line(
        "tensorrt/log-of-tensorrt-10-with-all-tables.log",
        "[02/29/2032-08:00:05] [I]      200.00       5.0000       5.1000      62.5   «name»",
    ),
    _line(
        "rocprofv3/77_guid-first-never-run-and-backwards_kernel_trace.csv",
        '"0000ddb5-8903","KERNEL_DISPATCH","Agent'
        ' 1",1,«track»,77,1,10,"«name»",«id»,«start»,«end»,0,0,8,0,16,64,1,1,1025'
        ",1,1",
    ),
    _line(
        "rocprofv3/summary-on-the-console.txt",
        "| «name» | KERNEL_DISPATCH |     4 |             800 |      2.000e+02 |     80.000000 |        150"
        " |        250 |"
        " 4.082e+01 |",
    ),
    _line(
        "rocprof/version-2-calls-and-activities-blank-below-headings.csv",
        'HIP_OPS_DOMAIN,KernelExecution,"«name»",«start»,«end»,«id»',
    ),
    _line(
        "rocprof/printed-dispatches-with-counters-below.txt",
        "dispatch[«id»], gpu-id(0), queue-id(«track»), queue-index(0), pid(4545), tid(4546), grd(262144),"
        " wgr(64), lds(0),"
        ' scr(0), vgpr(8), sgpr(16), fbar(0), sig(0x0), obj(0x7f00), kernel-name("«name»"),'
        " time(100,«start»,«end»,950)"
        "«filling»\n  SQ_WAVES (4096.0000000000)",
    ),
    _line(
        "unitrace/timeline-and-calls-of-two-threads.txt",
        'Thread «track» Device 59736512 : "«name»" [ns] 1000448 (append) 1001368 (submit) «start» (start) «end» (end)',
    ),
    _line(
        "unitrace/summaries-of-two-backends-and-properties.txt",
        "«name»,            7,               900300,    90.002998,               128614,                  601,"
        "               400003",
    ),
    _line(
        "clintercept/report-of-two-devices.txt",
        "«name»,      16,       1000019,    0.20%,         62501,         50001,         99003",
    ),
    _line(
        "openvino/log-of-two-requests-and-the-run.log",
        "«name»             Status.EXECUTED      layerType: Softmax…realTime (ms): 0.250…25.00%  ",
    ),
    _line(
        "openvino/sorted-with-commas-and-a-heading-over-two-lines.csv",
        '"«name»",Status.EXECUTED,Convolution,brgconv_avx512_bf16,0.750,0.500,75.00%',
    ),
    _line(
        "openvino/runtime-model.xml",
        '\t\t<layer id="«id»" name="«name»" type="Softmax">\n\t\t\t<data execOrder="2" execTimeMcs="22"'
        ' originalLayersNames="y" primitiveType="ref_f32" />\n\t\t</layer>«filling»',
    ),
    _line(
        "xctrace/two-processes-a-nested-row-and-blits.xml",
        '<row><start-time id="20" fmt="00:01.000.130">«start»</start-time><duration id="21" fmt="7.00'
        ' µs">«dur»</duration>'
        '…<string ref="8"/>…«filling»</row>',
    ),
    _line(
        "ascend-csv/two-devices-and-a-row-without-a-start.csv",
        '3,4,4294967295,101,«track»,«name»,MatMulV2,dynamic,AI_CORE,"«start»\t",«dur»,0,24,0,NO,'
        '"""64,128;128,32""",DT_BF16;DT_BF16,ND;ND,"""64,32""",DT_BF16,ND,N/A,40.5,75000,0.625,0,91.5',
    ),
    _line(
        "ascend-csv/task-time-and-step-trace.csv",
        '1,«name»,AI_CORE,«track»,5,10.5,"«start»\t","«end»\t"',
    ),
    _line(
        "ascend-csv/two-kernels-of-msprof-op/gemm_mix_aic/0/PipeUtilization_20260102030405678.csv",
        "«id»,«name»,2.500000,4125,0.625000,0.250000,0.500000,NA,NA,NA,",
    ),
    _line(
        "roctracer/printed-amid-output-without-correlation-ids.txt",
        "«start»:«end» 42:«track» «name»(ptr=0x7f6c121ff010, size=4194304)",
    ),
    _line(
        "ort-web/webgpu-jsep-of-several-versions.log",
        '[profiling] kernel "7001|Conv|«name»|Conv2DMatMul" input[0]: [1,3,64,64] | float32, input[1]:'
        " [16,3,3,3] | float32,"
        " output[0]: [1,16,32,32] | float32, start time: «start» ns, execution time: «dur» ns",
    ),
    _line("tvm/report-as-csv-with-empty-cells.csv", ',1,"cpu0",499.75,,"«name»",24.9875'),
    _line(
        "tvm/table-with-separated-thousands.txt",
        "«name»          765,432.11    38.27   cuda1      7                                float32[4]  bb22          ",
    ),
    _line(
        "tvm/debug-executor-with-two-outputs-of-a-node.txt",
        "# «name»   fused_conv   1300.0    86.667   (1, 8)  2       1        [1250.0, 1350.0]  ",
    ),
    _line(
        "tenstorrent/cpp_device_perf_report.csv",
        "«id»,,,«track»,blackhole,«name»,110,2700000,2713500,10000,«start»,2713365,«dur»,0",
    ),
    _line(
        "tenstorrent/profile_log_device.csv",
        "0,1,«track»,BRISC,333,«start»,77,«id»,,,«name»,TS_DATA,12,/k/reader.cpp,",
    ),
    _line("tracy-csv/zones-and-plots-names-with-commas.csv", "«name»,render.cpp,120,«start»,«dur»,«track»,"),
    _line("tracy-csv/statistics.csv", "«name»,render.cpp,120,17500,35.000000,2,8750.000000,8500,9000,353.553391"),
    _line(
        "llama/server-two-slots-with-times.log",
        "0.02.796.165 I slot print_timing: id  0 | task «id» | prompt eval time =     250.50 ms /    40"
        " tokens (    6.26 ms"
        " per token,   159.68 tokens per second)",
    ),
    _line("llama/vulkan-blocks-and-backend-ops.txt", "«name»: 2598 x 4.25 us = 11041.5 us"),
    _line(
        "llama-bench/three-tests.csv",
        '"8e427551","7001","Example CPU 8-Core","Example GPU A, Example GPU B","CUDA","models/tiny\'s.gguf","«'
        'name»","700000000","1200000000","2048","512","8","0x0","0","50","f16","f16","99","0","layer","0","0"'
        ',"-1","auto","0.00","none","mmap","0","0","0","0","0","512","0","0","2026-02-03T04:05:06Z","65000000'
        '","1000000","7878.166278","121.216903"',
    ),
    _line(
        "llama-bench/log-with-devices-two-builds.md",
        "| llama 7B mostly Q4_0           |   3.56 GiB |     6.74 B | CPU        |          8 | «name»      "
        "|     32.29 ± 1.21 |",
    ),
    _line("qnn/onnxruntime-two-runs.csv", "UNKNOWN,NODE,6000,CYCLES,BACKEND,SUB-EVENT,«name»:OpId_12 (cycles)"),
    _line(
        "mnn/benchmark-of-two-backends.txt",
        "[ - ] «name»             max =   19.063 ms  min =    0.000 ms  avg =   18.500 ms",
    ),
    _line(
        "paddle/operators-in-us-indented-cut.txt",
        "  «name»           296     53700.25 / 181.42 / 400.10 / 140.00 / 4.34  679110.00 / 2294.29 / 5750.00 / 240.00"
        " / 24.11  ",
    ),
    _line(
        "ncnn/layers-of-three-runs-on-the-cpu.log",
        "Convolution              «name»                              1.26ms    |     [227, 227,   3 *1] -> [113, 113,"
        "  16 *4]         kernel: 3 x 3     stride: 2 x 2",
    ),
    _line(
        "executorch/three-runs-with-two-delegates.tsv",
        "6\tExecute\t«name»\t0.002\t0.002\t0.002\t0.002\t0.002\t0.002\t['aten.topk.default']"
        "\tFalse\t\t[2027000, 3024000, 4024000]",
    ),
    _line("tflite/operators.csv", "«name», 0.412, 0.4, 50.44%, 50.44%, 0, 1, [net/conv0/Relu6]:0"),
    _line(
        "deepspeed/whole-log-of-0.17.log",
        "[2025-03-04 09:30:10,480] [INFO] [logging.py:107:log_dist] [Rank «track»] time (ms) | «name»: 1.50"
        " | optimizer_gradients: 0.25 | optimizer_step: 3.00",
    ),
    _line("ggml-opencl/cl_profiling.csv", "inp_embd,«name»,0.012500,64x1x1,64x1x1,2048x1x1x1"),
    _line(
        "smi/amd-smi-metric-with-lists.csv",
        '«start»,«track»,99,45,N/A,"[3, 0]",701,N/A,«name»,2100,500,DISABLED,1300,N/A,71,48',
    ),
    _line(
        "prometheus/promtool-tsdb-dump.txt",
        '{Hostname="node-a", UUID="GPU-00aa", __name__="«name»", device="nvidia0", gpu="«track»",'
        ' instance="127.0.0.1:9400", job="dcgm", modelName="NVIDIA A100-SXM4-80GB",'
        ' pci_bus_id="00000000:00:00.0"} 110.20866823196411 1795684757707',
    ),
    _line(
        "mlc/two-dialects-and-a-peak-that-disagrees.md",
        "| «name» | 1,200.00        | 100        | 12.00         | 20.50          | 92.31%     | 92.31%       |",
    ),
    _line("doppler/prefill-and-three-decodes.log", "«name»                   9.03    17.0"),
    _line(
        "metallic/repeated-and-nested-totals.txt",
        "  generation_loop :: «name»: count=4 | total=20.00ms | avg=5.000ms | min=4.000ms | max=6.000ms |"
        " p95_ms=6.000ms,"
        " p99_ms=6.000ms",
    ),
    _line(
        "latencyprism/comparison-as-csv.csv",
        '"«name»",gpu_link_transmit,GPU 7,0.5,0.1,0.2,0.1,1.5,0.1,0.2,0,0,0,0,0,,1',
    ),
    _line(
        "latencyprism/pipes-in-a-name-fillers-nan.md",
        "|           1 | 1601.0                   |                 2,500.25 | 899.25   | 56.17%  |",
    ),
    _line(
        "latencyprism-csv/epoch-below-a-nanosecond_perf_data.csv",
        '«id»,101,node7,3.21,"«name»",gpu_usage,GPU 1,Kernel,7.25,0.5,«dur»,measured,forward,1500.5,«start»,4,gemm',
    ),
    _line(
        "mapped/decimal-commas-own-kinds-and-rows-without.csv",
        '«name»;1.000;1,5 ms;transfer;GPU 1;copies;;;4 KiB;"pinned; staged"',
    ),
    _line("mapped/totals-twice-with-units-in-cells.tsv", "«name»\t512\t750 ms\t1464.84375\t21.4%\tfused"),
    _line("table/a-drawn-box-marks-of-markdown-and-totals.md", "| `«name»` | 1 | 1.75 | 35.0 |"),
    _line(
        "table/starts-of-an-accelerator-quoted-with-tabs.csv",
        '«name»,«id»,«track»,AI_VECTOR_CORE,"1699529622793969.5012\t",0.001,0,"""8"""',
    ),
    _line(
        "console/webgpu-page-of-many-forms.log",
        "[gpu] step=0 kernel=«name» begin=«start» end=«end» gpu_ms=0.5000 grid=128x1x1",
    ),
    _line("console/tables-of-console-table.txt", "│ 0       │ '«name»' │ 12.5     │ 5     │ 'warm' │"),
)
