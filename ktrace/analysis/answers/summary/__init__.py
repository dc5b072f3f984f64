"""Where the time went: what `ktrace summary` computes.

batches ──► analysis.work ──► compute ──► summary

marked       the step and the layer of each piece of work
statistics   groups from tables of statistics, for sources without events
compute      makes the summary
summary      the summary and its parts, as tables and in one line
nature       whose time is added up without device work: the host's, of requests, of a table
figures      what benchmarks printed, where nothing adds up
findings     the facts of the verdict, for programs, and the rows that show them
remedies     what to do about each
cost         what steps and tokens cost at the price of a device
verdict      the same in sentences
screen       the answer in 40 lines

A summary answers questions besides the groups of work: `QUESTIONS` names the packages and modules that answer them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from ktrace.analysis.work.question import Question
from ktrace.errors import UsageError
from ktrace.naming.phases import HOW
from ktrace.store import Spill

#: The name of a question, as `--by` takes it -> the package that answers it.
QUESTIONS: dict[str, str] = {
    **dict.fromkeys(("op", "shape", "module", "range", "line", "pass", "api"), "ktrace.analysis.questions.hosts"),
    "idle": "ktrace.analysis.questions.idle",
    "breakdown": "ktrace.analysis.questions.breakdown",
    "collective": "ktrace.analysis.questions.collectives",
    "roofline": "ktrace.analysis.questions.roofline",
    "critical-path": "ktrace.analysis.questions.critical_path",
    "memory": "ktrace.analysis.questions.memory",
    "request": "ktrace.analysis.questions.requests",
    "inside": "ktrace.analysis.questions.inside",
    "energy": "ktrace.analysis.questions.energy",
    "counter": "ktrace.analysis.questions.counters",
    **dict.fromkeys(("queue", "wait"), "ktrace.analysis.questions.queues"),
    **dict.fromkeys(("launch", "limits", "duration", "copy", "sequence"), "ktrace.analysis.questions.launches"),
    **dict.fromkeys(("phase", "batch"), "ktrace.analysis.questions.phases"),
}

#: The answer that is made of others, at a price.
COST = "cost"

#: The questions that are answered unasked where a source has nothing that can be added up: snapshots of memory.
INSTEAD = ("memory",)

#: How to record what answers a question, for inputs that have nothing of it.
RECORDING = {
    **dict.fromkeys(
        ("op", "shape", "module"),
        "Operators: torch.profiler with ProfilerActivity.CPU (shapes: record_shapes=True, modules: with_stack=True); "
        "nsys with emit_nvtx().",
    ),
    "line": "Lines of code: torch.profiler with with_stack=True, or Inductor's kernels with their provenance.",
    "pass": "Passes of training: torch.profiler with ProfilerActivity.CPU writes the nodes of autograd.",
    "range": "Ranges: torch.profiler.record_function, or NVTX/roctx with nsys --trace=nvtx, rocprofv3 --marker-trace.",
    "breakdown": "A breakdown needs kernels with times: nsys --trace=cuda, torch.profiler.",
    "idle": "Idle time needs kernels with times and the calls that launched them: nsys --trace=cuda, torch.profiler.",
    **dict.fromkeys(
        ("queue", "wait"),
        "Queues and waits need kernels with times and calls on the host: nsys --trace=cuda, torch.profiler.",
    ),
    "collective": "Collectives: NCCL/RCCL kernels, or record_param_comms of torch.profiler with their sizes.",
    "roofline": "The roofline needs shapes of operators, torch.profiler with record_shapes=True, or metrics of ncu.",
    "request": "Requests: vLLM and SGLang send spans by OpenTelemetry (vllm serve --otlp-traces-endpoint URL).",
    "inside": "The inside of kernels: run-iket of CUTLASS, for kernels with marks of cute.experimental.iket.",
    "energy": "Energy: a log of power beside a trace: nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv.",
    "counter": "Counters: rocprofv3 --pmc, ncu, nvprof --metrics; of devices nsys --gpu-metrics-devices, nvidia-smi.",
    "launch": "Launches: nsys --trace=cuda, torch.profiler and ncu record grids and blocks.",
    "limits": "Limits of kernels: ncu --set detailed (speed of light, occupancy, rules).",
    "memory": (
        "Memory: torch.profiler with profile_memory=True, torch.cuda.memory._record_memory_history() and "
        "_dump_snapshot(), nsys with --cuda-memory-usage=true."
    ),
    **dict.fromkeys(("phase", "batch"), HOW),
}

_TREE_PACKAGE = "ktrace.analysis.questions.hosts"

#: What a call tree can nest: at least one of the first three.
TREE = ("range", "module", "op", "kernel")


def columns_of(names: Sequence[str] | None) -> frozenset[str]:
    """The columns of the model that the questions with these names look at; None are all questions."""
    return frozenset[str]().union(*(import_module(package).COLUMNS for package in _packages(names)))


def build_questions(names: Sequence[str] | None, spill: Spill, levels: Sequence[str] = ()) -> list[Question]:
    """The questions with these names, None for all; a package that answers several is asked once.

    `levels` are those of a call tree, which is one more question.
    """
    questions = [
        import_module(package).questions(tuple(names_asked), spill) for package, names_asked in _packages(names).items()
    ]
    return [*questions, import_module(_TREE_PACKAGE).tree(levels, spill)] if levels else questions


def split_tree(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names that are levels of a call tree, and the others.

    Raises UsageError if there is no level to nest.
    """
    levels = [name for name in dict.fromkeys(names) if name in TREE]
    if not {*levels} - {"kernel"}:
        raise UsageError(
            "a call tree needs something that nests", expected="op, module or range, such as --by range,op"
        )
    return levels, [name for name in names if name not in TREE]


def _packages(names: Sequence[str] | None) -> dict[str, list[str]]:
    """The names of questions by the package that answers them."""
    packages: dict[str, list[str]] = {}
    for name in dict.fromkeys(QUESTIONS if names is None else names):
        if name in QUESTIONS:
            packages.setdefault(QUESTIONS[name], []).append(name)
    return packages
