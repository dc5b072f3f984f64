"""The files that commands in the docs name, such as `run.sqlite`: copies of samples, or small ones made here.

A page may name anything in `FILES`; `PAGES` has what a page means otherwise. A new name is a line in one of them.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import ncu_pages
import runs
from conftest import SAMPLES
from nsys_samples import Strings, call, environment, gpu, kernel, make, nvtx

import ktrace

STEP = "kineto/one-step-of-training.pt.trace.json"
RULES = {
    "ktrace_operations": "1.0",
    "rules": [{"about": "Ours", "name": "acme", "library": "Acme", "operation": "gemm"}],
}


def sample(name: str, path: Path) -> None:
    """A copy of a sample, gzip-compressed where only the name of the copy ends so."""
    source = SAMPLES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, path)
    elif path.suffix == ".gz" and source.suffix != ".gz":
        path.write_bytes(gzip.compress(source.read_bytes(), 1))
    else:
        shutil.copyfile(source, path)


def rank(number: int, path: Path, step: str = "ProfilerStep#3") -> None:
    """One of the ranks of a run: its collectives end when those of the others end. It has a step 3."""
    text = (SAMPLES / f"kineto/collectives-of-two-ranks-rank{min(number, 1)}.json").read_text("utf-8")
    text = text.replace('"rank": 1,', f'"rank": {number},').replace("ProfilerStep#7", step)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 1) if path.suffix == ".gz" else text.encode())


def nsys(path: Path) -> None:
    """Five steps of half a second as Nsight Systems exports them: in each a gemm and a softmax of layer 9."""
    strings = Strings()
    kernels, calls, ranges = [], [], []
    names = ("ampere_sgemm_128x64_nn", "void softmax_warp_forward<float, 10>(float*, int)")
    for step in range(5):
        begin = step * 500_000_000 + 1_000
        ranges += [
            nvtx(59, begin, begin + 450_000_000, f"train step {step}"),
            nvtx(59, begin + 1_000, begin + 900_000, "layer 9"),
        ]
        for number, name in enumerate(names):
            start, correlation = begin + 10_000 + number * 100_000, 10 * step + number + 1
            calls.append(call(strings, "cudaLaunchKernel", start, start + 5_000, correlation))
            length = (400_000_000, 20_000_000)[number]
            kernels.append(kernel(strings, name, begin + 20_000_000 + number * 405_000_000, 0, correlation))
            kernels[-1]["end"] = kernels[-1]["start"] + length
    tables = {
        "StringIds": strings.rows(),
        "TARGET_INFO_SYSTEM_ENV": environment("node1"),
        "TARGET_INFO_GPU": [gpu(0)],
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "NVTX_EVENTS": ranges,
    }
    make(path, tables)


def ncu(path: Path) -> None:
    """What Nsight Compute measured of the kernels of `nsys`, two launches a step."""
    heads = [*ncu_pages.HEADS, "sm__throughput.avg.pct_of_peak_sustained_elapsed", "dram__bytes.sum"]
    lines = [heads, [""] * 11 + ["%", "byte"]]
    for number in range(10):
        name = ("ampere_sgemm_128x64_nn", "softmax_warp_forward")[number % 2]
        place = [number, 4711, "app", "127.0.0.1", name, 1, 7, "(256, 1, 1)", "(128, 2, 1)", 0, "9.0"]
        lines.append([*map(str, place), str(80 - 30 * (number % 2)), "1048576"])
    ncu_pages.write(path, lines)


def rocprofv3(path: Path) -> None:
    """Five steps of the same program on an AMD GPU, as rocprofv3 writes them: its gemm a fifth shorter."""
    heads = ["Kind", "Agent_Id", "Queue_Id", "Kernel_Id", "Kernel_Name", "Correlation_Id"]
    heads += ["Start_Timestamp", "End_Timestamp", "Workgroup_Size_X", "Grid_Size_X"]
    names = ("Cijk_Ailk_Bljk_SB_MT128x64x16_MI32x32x1_SN_K1", "void softmax_warp_forward<float, 10>(float*, int)")
    lines = [heads]
    for number in range(10):
        step, which = divmod(number, 2)
        start = 1_000_000 + step * 400_000_000 + which * 330_000_000
        length = (320_000_000, 24_000_000)[which] + step * 1_000
        lines.append(["KERNEL_DISPATCH", "Agent 4", "1", str(which), names[which], str(number)])
        lines[-1] += [str(start), str(start + length), "256", "32768"]
    path.write_text("\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n")


def other_day(which: str, path: Path) -> None:
    made: Path = getattr(runs, which)(path.parent)
    if path.name == made.name:
        return
    if path.name.endswith(".parquet"):
        ktrace.convert(made, path)
    else:
        path.write_bytes(gzip.compress(made.read_bytes(), 1) if path.suffix == ".gz" else made.read_bytes())
    made.unlink()


def dataset(path: Path) -> None:
    for number in (0, 1, 3):
        rank(number, path.parent / f"dataset-of/{path.name}/rank{number}.json")
    ktrace.batch(path.parent / f"dataset-of/{path.name}", path, jobs=1)
    shutil.rmtree(path.parent / "dataset-of")


def text(content: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")


def sampled(name: str) -> Callable[[Path], None]:
    return partial(sample, name)


RANKS = {f"rank{number}.json.gz": partial(rank, number) for number in range(4)}
FLEET = {f"runs/{day}/rank{number}.json.gz": partial(rank, number) for day in ("mon", "tue") for number in (0, 1)}


#: What a command names -> what makes it; a dict makes several files.
def bomb(path: Path) -> None:
    """A name of 256 MiB and more, compressed."""
    with gzip.open(path, "wb") as file:
        file.write(b'{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 1, "cat": "kernel", "name": "')
        for _ in range(260):
            file.write(b"a" * (1 << 20))


FILES: dict[str, Callable[[Path], None] | dict[str, Callable[[Path], None]]] = {
    "big.pt.trace.json.gz": partial(sample, STEP),
    "bomb.pt.trace.json.gz": bomb,
    "run.sqlite": nsys,
    "nsys.sqlite": nsys,
    "h100.sqlite": nsys,
    "mi300_kernel_trace.csv": rocprofv3,
    "ncu.csv": ncu,
    "run_ncu.csv": ncu,
    "run.json": sampled(STEP),
    "run.json.gz": sampled(STEP),
    "run.pt.trace.json": sampled(STEP),
    "rank0.pt.trace.json": sampled(STEP),
    "rank0.pt.trace.json.gz": sampled(STEP),
    "rank0.json.gz": partial(rank, 0),
    "rank1.json.gz": partial(rank, 1),
    "rank*.json.gz": RANKS,
    "runs/*/rank*.json.gz": FLEET,
    "runs.parquet/": dataset,
    "last-week.parquet/": dataset,
    "run.log": sampled("doppler/prefill-and-three-decodes.log"),
    "page.log": sampled("webllm/blocks-amid-a-log.log"),
    "gpu.trace.json": sampled("chrome/flows-counters-and-rare-phases.json"),
    "request.otlp.json": sampled("otlp/two-services-one-request-links-and-lanes.otlp.json"),
    "node7/4711_results.db": sampled("rocpd/two-processes-in-the-same-tables.db"),
    "out": sampled("rocprofv3/a-folder-of-one-process"),
    "logdir": sampled("xplane/a-run-of-two-hosts"),
    "logdir/plugins/profile/*/*.trace.json.gz": {
        "logdir/plugins/profile/2026/h.trace.json.gz": sampled(
            "xprof-json/streams-repeated-lines-a-picosecond-for-nothing.trace.json"
        )
    },
    "mine.csv": partial(text, "Kernel,t0 (us),dur (us)\ngemm,12.5,3.25\nsoftmax,15.75,0.5\n"),
    "rules.json": partial(text, json.dumps(RULES)),
    "et.json": sampled("execution-trace/quotes-in-a-name-collectives-triton.json"),
    "memory.pickle": sampled("torch-memory/two-devices-earlier-allocations-oom.pickle"),
    "run.ncu-rep": sampled("ncu-rep/names-behind-their-use-samples-and-rules.ncu-rep"),
    "run.nvvp": sampled("nvvp/a-range-a-fault-an-unknown-call-and-a-table-of-branches.nvvp"),
    "run.hatchet": sampled("proton/own-kernels-cycles-and-metrics-of-users.hatchet"),
    "run.arrows": sampled("nsys-tables/2022-streams-with-texts-as-bytes.arrows"),
    "run_pqtdir": sampled("nsys-tables/a-file-a-table_pqtdir"),
    "run.timing.json": sampled("tensorrt/times-with-copies-that-overlap-the-next-query.json"),
    "benchmark_detailed_counters_report.csv": sampled("openvino/average-of-cpp-with-a-semicolon-in-a-name.csv"),
    "nccl-inspector-unknown-jobid/node1-pid77.log": sampled("nccl-inspector/verbose-with-sends.log"),
    "nccl-inspector-*/*.log": {"nccl-inspector-4711/node1.log": sampled("nccl-inspector/verbose-with-sends.log")},
    "trace.csv": sampled("nvprof/calls-and-work-mixed-two-processes.csv"),
    "results.csv": sampled("rocprof/counters-with-times-behind-a-banner.csv"),
    "results.json": sampled("rocprof-json/a-marker-two-gpus-and-a-copy.json"),
    "run.csv": sampled("nsys-stats/traces-of-a-copy-two-kernels-and-their-calls.csv"),
    "loop.pt.trace.json": sampled("kineto/five-steps-that-wait-for-the-loss.pt.trace.json"),
    "monday.json.gz": partial(other_day, "monday"),
    "tuesday.json.gz": partial(other_day, "tuesday"),
    "monday.pt.trace.json": partial(other_day, "monday"),
    "tuesday.pt.trace.json": partial(other_day, "tuesday"),
    "base.json": partial(other_day, "monday"),
    "new.json": partial(other_day, "tuesday"),
    "report.sql": partial(text, "select name, sum(dur) as total from kernels group by name"),
    "base.parquet": partial(other_day, "monday"),
    "new.parquet": partial(other_day, "tuesday"),
    "step.perfetto": lambda path: void(ktrace.convert(SAMPLES / STEP, path)),
    "run.parquet": lambda path: void(ktrace.convert(SAMPLES / STEP, path)),
    "run.perfetto": lambda path: void(ktrace.convert(SAMPLES / STEP, path)),
}

OWN_TABLE = partial(text, "Kernel,t0,Δ,queue,note\ngemm,12.5,3.25,0,a\nsoftmax,15.75,0.5,0,b\ncopy,15.75,1,1,c\n")
OWN_LOG = partial(
    text,
    "start\ngemm took 3.25 ms on gpu:0\nsoftmax took 0.50 ms on gpu:1\nstep 1\ngemm took 3.50 ms on gpu:0\n"
    + "".join(f"op{line} took {line} us\n" if line in (12, 14, 19) else "\n" for line in range(6, 20)),
)

#: Page -> name -> what makes it, where a page means another file than others.
PAGES: dict[str, dict[str, Callable[[Path], None]]] = {
    "docs/commands/map.md": {"run.csv": OWN_TABLE, "run.log": OWN_LOG},
    "docs/formats/mapped.md": {"run.csv": OWN_TABLE},
    "docs/commands/convert.md": {"run.ncu-rep": ncu},  # the content decides: the text of the same launches
    "docs/commands/merge.md": {"rank0.json.gz": partial(rank, 0, step="train step 3")},
}


def void(_: object) -> None:
    """Nothing: for makers that return a value."""


def lay(page: str, name: str, folder: Path) -> None:
    """Makes what a command of a page names: by the tables, else from a sample of the format of the page."""
    maker = PAGES.get(page, {}).get(name) or FILES.get(name)
    if isinstance(maker, dict):
        for path, each in maker.items():
            if not (folder / path).exists():
                PAGES.get(page, {}).get(path, each)(folder / path)
        return
    target = folder / name.replace("**", "x").replace("*", "1")
    if target.exists() or name.startswith(("-", "samples/")):
        return
    if maker:
        target.parent.mkdir(parents=True, exist_ok=True)
        maker(target)
    elif page.startswith("docs/formats/") and re.search(r"[./]", name) and "=" not in name:
        samples = [path for path in sorted((SAMPLES / Path(page).stem).glob("*")) if path.suffix != ".toml"]
        alike = [path for path in samples if path.suffix == target.suffix]
        for path in (alike or samples)[:1]:
            sample(str(path.relative_to(SAMPLES)), target)
