"""Traces of inference whose truth is known: batches that engines announce, on one stream. `python phase_traces.py`.

Makes samples/kineto/phases-of-inference.pt.trace.json. Nobody profiled anything for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any


@dataclass
class Batch:
    """A batch, what it is called, and when it was announced and its kernels ran; all times are ns."""

    phase: str
    name: str
    requests: int
    tokens: int
    begin: int = 0
    end: int = 0
    kernels: list[tuple[int, int]] = field(default_factory=list)  # start, end
    calls: list[int] = field(default_factory=list)  # the start of the call of each kernel


def named(phase: str, context: int, prompt: int, generation: int, engine: str) -> Batch:
    """A batch of `context` prompts with together `prompt` tokens, and `generation` requests, as an engine calls it."""
    requests = context + generation
    names = {
        "vllm": f"execute_context_{context}({prompt})_generation_{generation}({generation})",
        "sglang": {
            "prefill": f"step[EXTEND bs={context} toks={prompt}]",
            "decode": f"step[DECODE bs={generation}]",
            "mixed": f"step[MIXED bs={requests} c={context} g={generation} c_sq={prompt} g_sq={generation}]",
        }[phase],
        "atom": {
            "prefill": f"prefill[bs={context} tok={prompt} ctx=[{prompt}]]",
            "decode": f"decode[bs={generation}/64 tok={generation} d={generation}]",
            "mixed": f"decode[bs={requests} tok={prompt + generation} p={context} d={generation}]",
        }[phase],
        "trt": f"[Executor] _forward_step 7: {context} ctx reqs, {prompt} ctx tokens, {generation} gen reqs",
    }
    return Batch(phase, names[engine], requests, prompt + generation)


def served(seed: int, *, engine: str = "vllm", batches: int = 40, slower: float = 1.0) -> list[Batch]:
    """Batches one after another; the host is ahead of the device or late. `slower` is a factor of decode's kernels."""
    chance = Random(f"phases {seed}")
    host, device, found = 1_000_000, 0, []
    for _ in range(batches):
        phase = chance.choices(("decode", "prefill", "mixed"), (8, 1, 1))[0]
        context = 0 if phase == "decode" else chance.randint(1, 4)
        generation = 0 if phase == "prefill" else chance.choice((8, 16, 32))
        prompt = context * chance.randint(100, 900)
        one = named(phase, context, prompt, generation, engine)
        one.begin = host
        call = host + chance.randint(20_000, 60_000)
        for _ in range({"decode": 5, "prefill": 3, "mixed": 4}[phase]):
            work = 30_000 + 100 * (prompt + generation) + chance.randint(0, 3_000)
            dur = round(work * (slower if phase == "decode" else 1.0))
            start = max(call + 5_000, device + chance.randint(500, 1_500))
            one.calls.append(call)
            one.kernels.append((start, start + dur))
            device = start + dur
            call += 8_000
        one.end = call + chance.randint(5_000, 20_000)
        host = one.end + chance.choice((2_000, 2_000, 400_000))
        found.append(one)
    return found


def kineto(batches: Sequence[Batch], path: Path) -> Path:
    """Writes the batches as a trace of PyTorch."""
    events: list[dict[str, Any]] = []

    def add(cat: str, name: str, begin: int, end: int, pid: int, tid: int, **args: Any) -> None:
        times = {"ts": begin / 1000, "dur": (end - begin) / 1000}
        events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, **times, "args": args})

    correlation = 0
    for one in batches:
        add("user_annotation", one.name, one.begin, one.end, 70, 70)
        for call, (start, end) in zip(one.calls, one.kernels, strict=True):
            correlation += 1
            add("cuda_runtime", "cudaLaunchKernel", call, call + 4_000, 70, 70, correlation=correlation)
            add("kernel", f"{one.phase}_gemm", start, end, 0, 7, correlation=correlation, device=0, stream=7)
        add("gpu_user_annotation", one.name, one.kernels[0][0], one.kernels[-1][1], 0, 7)
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "a device"}], "traceEvents": events}
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def main() -> None:
    """Writes the sample."""
    folder = Path(__file__).parent.parent.parent / "samples" / "kineto"
    kineto(served(3, batches=12), folder / "phases-of-inference.pt.trace.json")


if __name__ == "__main__":
    main()
