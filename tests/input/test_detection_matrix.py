"""Every sample and every file of the corpus against the probes of all formats: one is surest, or none is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from conftest import MADE_SAMPLES, SAMPLES, SHARED
from golden import samples_of

from ktrace.errors import KtraceError
from ktrace.input.detection import choose, detect_sample
from ktrace.input.format import Score, builtin_formats
from ktrace.input.source import Sample, Source

#: Path below ../shared -> format; the longest begin counts. "" is no format: a description, or facts about a file.
CORPUS = {
    "seeds/000": "doppler",
    "seeds/001": "metallic",
    "seeds/002": "mlc",
    "seeds/003": "latencyprism",
    "seeds/004": "nsys-stats",
    "corpus/MANIFEST.tsv": "",
    "corpus/made/INDEX.tsv": "",
    "corpus/ascend/kernel_details.csv": "ascend-csv",
    "corpus/ascend/msprof": "ascend-json",
    "corpus/bpftrace/": "bpftrace",
    "corpus/chrome_trace/": "chrome",
    "corpus/chrome_trace/google_cloud_trace.json": "",
    "corpus/chrome_trace/incomplete-trace.json": "speedscope",
    "corpus/hpctoolkit/": "",  # its folder is
    "corpus/intel_unitrace/": "unitrace",
    "corpus/made/bpftrace/": "bpftrace",
    "corpus/made/jax/": "xprof-json",
    "corpus/made/jax/plugins/profile/2026_11_22_06_14_24/vm.xplane.pb": "xplane",
    "corpus/made/legate/": "legion-prof",
    "corpus/made/llama_server/": "llama",
    "corpus/made/onnxruntime/ort-": "onnxruntime",
    "corpus/made/onnxruntime/_facts": "",
    "corpus/made/opentelemetry/": "otlp",
    "corpus/made/opentelemetry/_facts": "",
    "corpus/made/openvino/": "openvino",
    "corpus/made/openvino/detailed/benchmark_report.csv": "",
    "corpus/made/openvino/detailed/exec_graph.bin": "",
    "corpus/made/openvino/json/benchmark_report.json": "",
    "corpus/made/pyspy/threads.chrometrace.json": "chrome",
    "corpus/made/pyspy/threads.folded.txt": "folded",
    "corpus/made/pyspy/threads.speedscope.json": "speedscope",
    "corpus/made/pytorch_compile/": "kineto",
    "corpus/made/pytorch_compile/compiled_table.txt": "torch-table",
    "corpus/made/pytorch_gloo4_stack/": "kineto",
    "corpus/made/pytorch_single/": "torch-table",
    "corpus/made/pytorch_single/_facts": "",
    "corpus/made/pytorch_single/autograd_profiler_kineto0.json": "kineto",
    "corpus/made/pytorch_single/autograd_profiler_kineto1.json": "kineto",
    "corpus/made/pytorch_single/autograd_profiler_legacy.json": "chrome",
    "corpus/made/pytorch_single/execution_trace.json": "execution-trace",
    "corpus/made/pytorch_single/flop_counter.txt": "torch-flops",
    "corpus/made/pytorch_single/memory_timeline": "kineto",
    "corpus/made/pytorch_single/single.pt.trace.json.gz": "kineto",
    "corpus/made/pytorch_single/stacks.txt": "kineto",
    "corpus/made/viztracer/": "chrome",
    "corpus/made/webgpu_console/ort_web_mlp.log": "ort-web",
    "corpus/made/webgpu_console/": "console",
    "corpus/nsys_sqlite/": "nsys",
    "corpus/nsys_stats_2023.4/": "nsys-stats",
    "corpus/nsys_stats_2023.4/README.md": "",
    "corpus/nvprof/": "nvprof",
    "corpus/onnxruntime/": "onnxruntime",
    "corpus/openvino/": "openvino",
    "corpus/perfetto_pb/": "perfetto",
    "corpus/perfetto_textproto/": "perfetto-text",
    "corpus/projections/": "",  # its folder is
    "corpus/proton/": "proton",
    "corpus/pyprof/": "pyprof",
    "corpus/pyprof/net.sql.gz": "nvvp",
    "corpus/pytorch_kineto/": "kineto",
    "corpus/pytorch_table/": "torch-table",
    "corpus/rocprof_v1_v2/": "rocprof",
    "corpus/rocprofv3/": "rocprofv3",
    "corpus/rpd/matmul_result.json": "rpd2tracing",
    "corpus/rpd/matmul_result.rpd": "rpd",
    "corpus/tensorrt/": "tensorrt",
    "corpus/xplane/": "xplane",
}

#: What this process has read so far.
IO = Path("/proc/self/io")

FILES = [path for folder in ("seeds", "corpus") for path in sorted((SHARED / folder).glob("**/*")) if path.is_file()]


def surest(sample: Sample) -> list[str]:
    """The formats with the best score, NEAR not counted, of all probes."""
    matches = [match for match in detect_sample(sample, builtin_formats()) if match.score > 0]
    assert not any(match.failed for match in matches)
    return [match.format for match in matches if match.score == matches[0].score]


def test_one_format_is_surest_of_each_sample() -> None:
    samples = [
        (fmt.name, path) for fmt in builtin_formats() if fmt.reads and not fmt.closed for path in samples_of(fmt.name)
    ]
    wrong = {path: best for name, path in samples if (best := surest(Source(str(path)).sample())) != [name]}
    assert not wrong


@pytest.mark.skipif(not FILES, reason="the corpus is not at hand (../shared/corpus)")
def test_one_format_is_surest_of_each_file_of_the_corpus() -> None:
    wrong: dict[str, list[str]] = {}
    for path in FILES:
        relative = path.relative_to(SHARED).as_posix()
        begins = [begin for begin in CORPUS if relative.startswith(begin)]
        assert begins, f"a new file of the corpus: which format is {relative}?"
        expected = CORPUS[max(begins, key=len)]
        best = surest(Source(str(path)).sample())
        if best != ([expected] if expected else []):
            wrong[relative] = best
    assert not wrong


def test_the_words_of_a_format_leave_out_no_file_that_its_probe_accepts() -> None:
    """Words spare the import of a probe; they may not decide in its place."""
    worded = [fmt for fmt in builtin_formats() if fmt.words]
    for path in [*MADE_SAMPLES, *FILES]:
        with suppress(KtraceError):
            sample = Source(str(path)).sample()
            for fmt in worded:
                if sample.listing is None and not sample.has_any(fmt.words):
                    match = fmt.function("probe")(sample)
                    assert match is None or match.score <= Score.NEAR, (fmt.name, path)


@pytest.mark.skipif(not IO.exists(), reason="this system doesn't count what a process reads")
@pytest.mark.parametrize("sample", ["doppler/prefill-and-three-decodes.log", "jsonl/all-records.jsonl"])
def test_of_a_long_input_little_is_read(sample: str, tmp_path: Path) -> None:
    data = (SAMPLES / sample).read_bytes()
    path = tmp_path / sample.rpartition("/")[2]
    path.write_bytes(data * ((20 << 20) // len(data)))
    expected = choose(Source(str(SAMPLES / sample)))  # imports the probes, which are read from files, too
    before = bytes_read()
    assert choose(Source(str(path))) == expected
    assert 1 << 20 <= bytes_read() - before < 4 << 20


def bytes_read() -> int:
    return next(int(line.split()[1]) for line in IO.read_text().splitlines() if line.startswith("rchar"))
