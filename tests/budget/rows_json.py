"""The rows of formats in JSON. `,"args"` or another member may stand behind each «filling»."""

from __future__ import annotations

from .texts import Texts


def _event(sample: str, row: str, between: str = ",\n") -> Texts:
    return Texts(sample, row, between, is_json=True)


def _line(sample: str, row: str) -> Texts:
    return Texts(sample, row, "\n", is_json=True)


HATCHET = _event(
    "proton/own-kernels-cycles-and-metrics-of-users.hatchet",
    """{
                                "children": [],
                                "frame": {
                                    "name": "«name»",
                                    "type": "function"
                                },
                                "metrics": {
                                    "count": 1,
                                    "device_id": "0",
                                    "device_type": "CUDA",
                                    "time (ns)": 4064«filling»
                                }
                            }""",
)

SNAPSHOT = _event(
    "torch-memory/two-devices-earlier-allocations-oom.pickle",
    '{"action": "alloc", "addr": «id», "size": 512, "stream": «track», "time_us": «start», "frames": '
    '[{"name": "«name»", …}]«filling»}',
)

FLIGHT = _event(
    "nccl-flight-recorder/zeros-for-unknown-times_rank_2.json",
    '{"collective_seq_id":18,"duration_ms":1.5,…,"profiling_name":"«name»","record_id":«id»,"retired":true,'
    '"state":"completed","thread_id":"«track»","thread_name":"pt_autograd_0","time_created_ns":«start»,'
    '"time_discovered_completed_ns":1770000000003000000,"time_discovered_started_ns":1770000000000950000,'
    '"timeout_ms":600000«filling»}',
)

#: Events of traces.
JSON = (
    _event(
        "kineto/one-step-of-training.pt.trace.json",
        '{"ph": "X", "cat": "cpu_op", "name": "«name»", "pid": 4242, "tid": «track», "ts": «start», "dur": «dur»,'
        ' "args": {"External id": «id», "Record function id": 0, "Ev Idx": 0, "Input Dims": [[8, 512],'
        " []]«filling»}}",
    ),
    _event(
        "kineto/base-after-the-events-graph-of-three-kernels.pt.trace.json",
        '{"ph": "X", "cat": "kernel", "name": "«name»", "pid": 0, "tid": «track», "ts": «start», "dur": «dur»,'
        ' "args": {"device": 0, "context": 1, "stream": «track», "correlation": «id»«filling»}}',
    ),
    _event(
        "chrome/flows-counters-and-rare-phases.json",
        '{"ph": "X", "cat": "t", "name": "«name»", "pid": 1, "tid": «track», "ts": «start», "dur": «dur»«filling»}',
    ),
    _event(
        "chrome/begins-without-ends-and-an-end-too-many.json",
        '{"ph": "B", "name": "«name»", "cat": "a", "pid": 1, "tid": «track», "ts": «start», "args": {"x": 1, "y":'
        ' "begin"«filling»}}',
    ),
    _event(
        "ascend-json/two-npus-and-a-collective.json",
        '{"ph":"X","name":"«name»","pid":5242880,"tid":«track»,"ts":"«start»","dur":«dur»,"cat":"enqueue",'
        '"args":{"correlation_id":«id»«filling»}}',
    ),
    _event(
        "xprof-json/streams-repeated-lines-a-picosecond-for-nothing.trace.json",
        '{"ph":"X","pid":2,"tid":«track»,"ts":«start»,"dur":«dur»,"name":"«name»","args":{"correlation_id":"70",'
        '"memcpy_details":"kind_src:pinned kind_dst:device size:4096 dest:1 async:1"«filling»}}',
    ),
    _event(
        "rocprof-json/a-marker-two-gpus-and-a-copy.json",
        ',{"ph":"X","name":"«name»","pid":"0","tid":"«track»","ts":"7000500","dur":"300",\n  "args":{\n'
        '    "BeginNs":"«start»",\n    "EndNs":"«end»"«filling»\n  }\n}\n',
        "",
    ),
    _event(
        "rpd2tracing/two-gpus-a-barrier-and-no-end.json",
        ',{"pid":"2","tid":"«track»","name":"«name»","ts":"«start»","dur":"«dur»","ph":"X","args":{"desc":'
        '"KernelExecution"«filling»}}\n',
        "",
    ),
    _event(
        "unitrace-json/two-backends-a-tile-and-mpi.json",
        '{"ph": "X", "tid": «track», "pid": 7815, "name": "«name»", "cat": "cpu_op", "ts": «start», "dur": «dur»'
        "«filling»}",
    ),
    _event(
        "onetrace-json/calls-and-queues-without-end.json",
        '{"ph":"X", "pid":"4321", "tid":"«track»", "name":"«name»", "ts": «start», "dur":«dur», "args": {"id": "«id»"'
        "«filling»}}",
    ),
    _event(
        "clintercept-json/queues-of-two-devices-stages-and-kernels.json",
        '{"ph":"X","pid":826,"tid":«track»,"name":"«name»","ts":«start»,"dur":«dur»«filling»}',
    ),
    _event(
        "onnxruntime/cuda-fences-and-a-quote-in-a-name.json",
        '{"cat" : "Node","pid" :700,"tid" :«track»,"dur" :«dur»,"ts" :«start»,"ph" : "X","name" :"«name»",'
        '"args" : {"op_name" : "MemcpyFromHost"«filling»}}',
    ),
    _event(
        "ggml-opencl/cl_trace.json",
        '{"name": "«name»", "cat": "OpenCL", "ph": "B", "ts": «start», "pid": "", "tid": "Host"«filling»},\n'
        '{"name": "«name»", "cat": "OpenCL", "ph": "E", "ts": «end», "pid": "", "tid": "Host"}',
    ),
    _event(
        "proton/lanes-a-graph-and-a-launch.chrome_trace",
        '{"cat":"scope","dur":«dur»,"name":"«name»","ph":"X","pid":0,"tid":«track»,"ts":«start»«filling»}',
    ),
    _event(
        "proton/cycles-of-the-warps-of-a-kernel-named-kernel.chrome_trace",
        '{"args":{"Finalization Time (ns)":480,"Frequency (MHz)":1000.0,"Init Time (ns)":1767323045000000100,'
        '"Post Final Time (ns)":1767323045000009100,"call_stack":["ROOT","kernel"]«filling»},"cat":"kernel","cname":'
        '"cq_build_running","dur":«dur»,"name":"«name»","ph":"X","pid":"kernel Core7 CTA1","tid":"warp 0 (line 0)",'
        '"ts":«start»}',
    ),
)

#: Documents and lines of JSON that aren't events of a trace.
DOCUMENTS = (
    HATCHET,
    SNAPSHOT,
    FLIGHT,
    _event(
        "speedscope/ranges-unclosed-heap-counts-without-a-weight.json",
        '{"type": "O", "frame": 2, "at": «start»}, {"type": "C", "frame": 2, "at": «end»«filling»}',
    ),
    _line(
        "jsonl/all-records.jsonl",
        '{"record":"event","source":"run","id":«id»,"pid":4321,"tid":«track»,"ts":«start»'
        ',"cat":"cuda_runtime","args":'
        '{"cbid":211«filling»},"kind":"api","name":"«name»","dur":«dur»,"timing":"measured","correlation":77}',
    ),
    _event(
        "json/a-record-a-line.json",
        '{"record":"event","source":"run","id":«id»,"pid":4321,"tid":«track»,"ts":«start»'
        ',"cat":"cuda_runtime","args":'
        '{"cbid":211«filling»},"kind":"api","name":"«name»","dur":«dur»,"timing":"measured","correlation":77}',
    ),
    _event(
        "execution-trace/flat-nodes-of-2022.json",
        '{\n      "name": "«name»", "id": «id», "rf_id": 3, "parent": 8, "fw_parent": 0, "seq_id": 1, "scope": 0,'
        ' "tid": «track», …"output_types": ["Tensor(float)"]«filling»\n    }',
    ),
    _event(
        "rocprofv3-json/records-before-the-names-two-processes_results.json",
        '{\n"size": 80,\n"kind": 3,\n"operation": 0,\n"thread_id": 4001,\n"correlation_id": {\n"internal": «id»,\n'
        '"external": 0\n},\n"start_timestamp": «start»,\n"end_timestamp": «end»,\n…"stream_id":'
        ' {\n"handle": «track»\n}'
        "«filling»\n}",
    ),
    _event(
        "otlp/collector-lines-with-metrics-and-bad-spans.otlp.jsonl",
        '{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"00f067aa0ba90301","name":"«name»","kind":1,'
        '"startTimeUnixNano":"«start»","endTimeUnixNano":"«end»","attributes":[],"status":{}«filling»}',
        ",",
    ),
    _line(
        "otlp/console-between-lines-older-sdk.txt",
        '{\n    "name": "«name»",\n    "context": {\n        "trace_id": "0x0af7651916cd43dd8448eb211c80319c",\n'
        '        "span_id": "0x00f067aa0ba90402",…"service.name": "older sdk"\n    }«filling»\n}',
    ),
    _line(
        "nccl-inspector/verbose-with-sends.log",
        '{"header":{"id":"0xa1","comm_name":"DP Group 0","rank":1,"n_ranks":4,"nnodes":1},"metadata":{…},"coll_perf":'
        '{"coll":"«name»",…"event_trace_ts":{"coll_start_ts":«start»,"coll_stop_ts":«end»,…«filling»}}}',
    ),
    _line(
        "metallic-jsonl/every-type-and-an-unknown-one.jsonl",
        '{"timestamp":"2025-10-21T17:03:11.264Z","span_id":2,"parent_span_id":1,"span_name":"decode","event":{"type":'
        '"InternalKernelCompleted","data":{"parent_op_name":"generation_loop","internal_kernel_name":"«name»",'
        '"duration_us":2400«filling»}}}',
    ),
    _line(
        "mapped/nested-objects-counters-and-a-broken-line.jsonl",
        '{"op":"«name»","type":"kernel","span":{"begin":«start»,"end":«end»},"gpu":0,"q":«track»,"worker":"main",'
        '"attrs":{"loss":0.5,"tags":["a","b"]«filling»}}',
    ),
    _event(
        "openvino/detailed-of-two-requests.json",
        '{\n                    "name": "«name»",\n                    "node_type": "Convolution",\n'
        '                    "status": "Status.EXECUTED",\n                    "real_time": "0.125",\n'
        '                    "cpu_time": "0.125",\n                    "exec_type": "jit_avx2_f32"«filling»\n'
        "                }",
    ),
    _event(
        "tensorrt/profile-with-quotes-in-a-name-and-a-copy.json",
        ', { "name" : "«name»", "timeMs" : 0.25, "averageMs" : 0.03125, "medianMs" : 0.031, "percentage" : 12.5'
        "«filling» }\n",
        "",
    ),
    _event(
        "tensorrt/layers-described-with-streams.json",
        '{\n  "Name": "«name»",\n  "LayerType": "CaskConvolution",…"StreamId": «track»,\n'
        '  "Metadata": "[ONNX Layer: conv]"«filling»\n}',
        ",",
    ),
    _event(
        "tvm/report-of-two-devices-with-counters.json",
        '{"Name":{"string":"«name»"},"Duration (us)":{"microseconds":12.50000000000000000},"Percent":{"percent":'
        '10.00000000000000000},"Count":{"count":1},"Device":{"string":"cpu0"}«filling»}',
    ),
    _event(
        "nsys-stats/json-of-three-reports-amid-nsys-own-words.json",
        '{\n    "Time (%)": 75.0,\n    "Total Time (us)": 1500.250,\n    "Instances": 3,\n    "Avg (us)": 500.083,\n'
        '    "Min (us)": 400.000,\n    "Max (us)": 600.250,\n    "Name": "«name»"«filling»\n  }',
    ),
    _line(
        "webllm/blocks-amid-a-log.log",
        '{"entryPoints":["«name»"],"start":«start»,"end":«end»«filling»}',
    ),
)
