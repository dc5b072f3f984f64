"""The phases of inference: figures against plain arithmetic over traces whose truth is known, and over a real one."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import nsys_samples as made
import pytest
from click.testing import CliRunner
from conftest import SAMPLES, SHARED
from phase_traces import Batch, kineto, served
from real_traces import at_hand

import ktrace
from ktrace.analysis.questions.phases.answer import PhasesAnswer
from ktrace.cli import cli
from ktrace.errors import InputError

SAMPLE = SAMPLES / "kineto" / "phases-of-inference.pt.trace.json"


def answer(*paths: Path) -> PhasesAnswer:
    found = ktrace.summary(paths, by=["phase"]).answers["phase"]
    assert isinstance(found, PhasesAnswer)
    return found


def times(batches: list[Batch]) -> list[tuple[int, int]]:
    """Since when the device was at each batch, and how long: from its annotation, or from the end of the one before."""
    found, done = [], 0
    for number, one in enumerate(batches):
        since = max(one.begin, done)
        following = batches[number + 1].kernels[0][0] if number + 1 < len(batches) else one.end
        done = one.kernels[-1][1]
        found.append((since, max(done, min(one.end, following)) - since))
    return found


@pytest.mark.parametrize("engine", ["vllm", "sglang", "atom", "trt"])
@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_plain_arithmetic(tmp_path: Path, engine: str, seed: int) -> None:
    batches = served(seed, engine=engine)
    found = answer(kineto(batches, tmp_path / "run.json"))
    spans = times(batches)
    rows: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
    for number, one in enumerate(batches):
        rows[one.phase, one.requests].append(number)
        rows[one.phase, None].append(number)
    uses = {(use.phase, use.batch): use for use in (*found.phases, *found.batches)}
    assert uses.keys() == rows.keys()
    generating = [number for number, one in enumerate(batches) if one.phase != "prefill"]
    waits = {
        one: (spans[following][0] - spans[one][0] if following is not None else spans[one][1])
        for one, following in zip(generating, [*generating[1:], None], strict=True)
    }
    for key, mine in rows.items():
        use = uses[key]
        assert (use.steps, use.time) == (len(mine), sum(spans[number][1] for number in mine))
        assert use.kernels == sum(len(batches[number].kernels) for number in mine)
        assert use.busy == sum(end - start for number in mine for start, end in batches[number].kernels)
        assert use.tokens == sum(batches[number].tokens for number in mine)
        assert use.step.median == pytest.approx(median(spans[number][1] for number in mine))
        waited = [waits[number] for number in mine if number in waits]
        if waited:
            assert use.per_token is not None
            assert use.per_token.median == pytest.approx(median(waited))
        else:
            assert use.per_token is None
    assert found.notes == []


@pytest.mark.parametrize("slower", [1.0, 1.1])
def test_diff_finds_the_phase_that_became_slower(tmp_path: Path, slower: float) -> None:
    before = kineto(served(1, batches=200), tmp_path / "before.json")
    after = kineto(served(1, batches=200, slower=slower), tmp_path / "after.json")
    rows = ktrace.diff(before, after, by=["phase", "batch"]).rows
    grown = {change.key for name in rows for change in rows[name] if change.verdict == "clear"}
    assert grown == ({"decode", *(f"decode, batch {size}" for size in (8, 16, 32))} if slower > 1 else set())


def test_a_phase_is_selected_with_what_it_launches(tmp_path: Path) -> None:
    batches = served(2)
    path = kineto(batches, tmp_path / "run.json")
    for wanted, mine in (
        ("decode", [one for one in batches if one.phase == "decode"]),
        ("decode:16", [one for one in batches if one.phase == "decode" and one.requests == 16]),
    ):
        summary = ktrace.summary(path, by=["kernel"], crop=ktrace.Crop(phase=wanted))
        kernels = [end - start for one in mine for start, end in one.kernels]
        assert (summary.count, summary.total) == (len(kernels), sum(kernels))
    with pytest.raises(InputError, match="there is no phase decode:31") as error:
        ktrace.summary(path, crop=ktrace.Crop(phase="decode:31"))
    assert "decode:8, decode:16, decode:32" in str(error.value.expected)
    with pytest.raises(InputError, match="there is no phase decode") as error:
        ktrace.summary(SAMPLES / "kineto" / "one-step-of-training.pt.trace.json", crop=ktrace.Crop(phase="decode"))
    assert "no annotation states a phase" in str(error.value.remedy)


def test_the_timeline_gets_a_track_of_phases(tmp_path: Path) -> None:
    batches = served(3)
    path = kineto(batches, tmp_path / "run.json")
    out = tmp_path / "run.parquet"
    ktrace.convert(path, out, explain=["phase"])
    rows = [row for row in ktrace.read(out).frame("events").to_dict("records") if row["track"] == "phase"]
    found = [(row["ts"], row["dur"], row["name"]) for row in sorted(rows, key=lambda row: row["ts"])]
    base = min(row["ts"] for row in ktrace.read(path).frame("events").to_dict("records")) - batches[0].begin
    assert found == [
        (since + base, span, f"{one.phase}, batch {one.requests}")
        for one, (since, span) in zip(batches, times(batches), strict=True)
    ]
    assert all(json.loads(row["args"])["tokens"] for row in rows)


def test_nested_annotations_count_once(tmp_path: Path) -> None:
    """SGLang's annotation in vLLM's form around it, and a plain range around all."""
    path = kineto(served(4, engine="sglang"), tmp_path / "run.json")
    plain = answer(path)
    document = json.loads(path.read_text())
    around = []
    for event in document["traceEvents"]:
        if event["cat"] == "user_annotation" and "DECODE" in event["name"]:
            size = event["name"].split("=")[1][:-1]
            around.append(event | {"name": f"execute_context_0(0)_generation_{size}({size})"})
    first = document["traceEvents"][0]
    document["traceEvents"] = [*around, *document["traceEvents"], first | {"name": "decode", "dur": 1e6}]
    path.write_text(json.dumps(document))
    assert answer(path).phases == plain.phases


def test_speculative_steps_have_no_time_per_token(tmp_path: Path) -> None:
    path = kineto(served(5), tmp_path / "run.json")
    text = path.read_text().replace("_generation_32(32)", "_generation_32(128)")
    path.write_text(text)
    found = answer(path)
    assert {use.batch: use.per_token is None for use in found.batches if use.phase == "decode"} == {
        8: False, 16: False, 32: True,
    }  # fmt: skip
    assert any("several tokens a request" in note for note in found.notes)


def test_work_outside_of_phases_is_said(tmp_path: Path) -> None:
    path = kineto(served(6), tmp_path / "run.json")
    document = json.loads(path.read_text())
    marks = [one for one in document["traceEvents"] if one["cat"].endswith("annotation")]
    document["traceEvents"] = [one for one in document["traceEvents"] if one not in marks[-2:]]
    path.write_text(json.dumps(document))
    (note,) = answer(path).notes
    assert "of the device time is launched in no step of a phase" in note


def test_ranks_are_said(tmp_path: Path) -> None:
    one, other = (kineto(served(7), tmp_path / f"rank{rank}.json") for rank in (0, 1))
    found = answer(one, other)
    assert "Steps and tokens are counted in each of 2 sources." in found.notes
    assert found.phases[0].steps == 2 * answer(one).phases[0].steps


def test_a_trace_without_annotations_has_no_phases() -> None:
    summary = ktrace.summary(SAMPLES / "kineto" / "one-step-of-training.pt.trace.json", by=["phase"])
    assert "phase" not in summary.answers
    assert any(note.startswith("This input has no phase information. Phases: vLLM") for note in summary.notes)


def test_ranges_of_tensorrt_llm_in_a_database(tmp_path: Path) -> None:
    """Counts and sums by SQL over the same file."""
    text = made.Strings()
    steps = [(0, 32), (0, 32), (2, 30), (0, 32)]
    ranges, calls, kernels = [], [], []
    for number, (context, generation) in enumerate(steps):
        begin = 10_000 + 5_000 * number
        name = (
            f"[Executor] _forward_step {number}: {context} ctx reqs, {512 * context} ctx tokens, {generation} gen reqs"
        )
        ranges.append(made.nvtx(59, begin, begin + 4_000, name))
        calls.append(made.call(text, "cudaLaunchKernel_v7000", begin + 100, begin + 200, number + 1))
        kernels.append(made.kernel(text, "gemm", begin + 1_000, begin + 3_000 + 50 * context, number + 1))
    path = made.make(
        tmp_path / "run.sqlite",
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
            "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
            "NVTX_EVENTS": ranges,
            "StringIds": text.rows(),
        },
    )
    uses = {use.phase: use for use in answer(path).phases}
    with closing(sqlite3.connect(path)) as database:
        ((decode,),) = database.execute(
            "SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE end - start = 2000"
        )
    assert (uses["decode"].busy, uses["decode"].tokens, uses["decode"].steps) == (decode, 96, 3)
    assert (uses["mixed"].busy, uses["mixed"].tokens, uses["mixed"].batch) == (2_100, 1_054, None)


def test_a_real_decode_step() -> None:
    """Work of its launches, by the JSON itself; all of it is in the one batch that the annotation states."""
    path = at_hand(SHARED / "corpus/pytorch_kineto/graph_execution.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    (mark,) = [one for one in events if one.get("cat") == "user_annotation" and one["name"].startswith("execute_")]
    begin, end = float(mark["ts"]), float(mark["ts"]) + mark["dur"]
    calls = {
        one["args"]["correlation"]
        for one in events
        if one.get("cat") in ("cuda_runtime", "cuda_driver") and begin <= float(one["ts"]) < end
    }
    kernels = [one for one in events if one.get("cat") == "kernel" and one["args"]["correlation"] in calls]
    (use,) = answer(path).phases
    assert (use.phase, use.tokens, use.kernels) == ("mixed", 8_192, len(kernels))
    assert use.generation == 37
    assert use.context == 9


def test_the_sample_in_a_terminal() -> None:
    result = CliRunner().invoke(cli, ["summary", str(SAMPLE), "--by", "phase"])
    assert result.exit_code == 0
    (line,) = [line.split() for line in result.output.splitlines() if line.startswith("decode ")]
    assert line[1] == str(answer(SAMPLE).phases[0].steps)
    assert CliRunner().invoke(cli, ["summary", str(SAMPLE), "--by", "batch"]).output.count("decode ") == 3


GENERATE = "transformers/generation/utils.py({}): {}"


def generated(path: Path, loop: str, *, prompt: str | None, passes: int, around: str = "generate") -> Path:
    """A trace of a call of generate() whose passes each take 100 us and launch a kernel of 10 us."""
    frames = [(GENERATE.format(2581, around), 0, 100 * passes + 20), (GENERATE.format(3123, loop), 10, 100 * passes)]
    frames += [(GENERATE.format(4283, prompt), 10, 90)] if prompt else []
    events = []
    for number in range(passes):
        begin = 10 + 100 * number
        frames += [
            ("transformers/models/llama/modeling_llama.py(9): prepare_inputs_for_generation", begin, 8),
            (GENERATE.format(666, "prepare_inputs_for_generation"), begin + 1, 5),
            ("nn.Module: LlamaForCausalLM_0", begin + 10, 70),
        ]
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 70, "tid": 70, "ts": begin + 20, "dur": 5}
        kernel = {"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": begin + 30, "dur": 10}
        for row, more in ((launch, {}), (kernel, {"device": 0, "stream": 7})):
            events.append({"ph": "X", **row, "args": {"correlation": number + 1, **more}})
    events += [
        {"ph": "X", "cat": "python_function", "name": name, "pid": 70, "tid": 70, "ts": ts, "dur": dur, "args": {}}
        for name, ts, dur in frames
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    return path


@pytest.mark.parametrize(
    ("loop", "prompt"),
    [("_sample", "_prefill"), ("_beam_search", "_prefill"), ("_sample", None), ("greedy_search", None)],
)
def test_passes_of_generate_are_steps(tmp_path: Path, loop: str, prompt: str | None) -> None:
    path = generated(tmp_path / "run.json", loop, prompt=prompt, passes=5)
    uses = {use.phase: use for use in answer(path).phases}
    assert {name: (use.steps, use.kernels, use.busy) for name, use in uses.items()} == {
        "prefill": (1, 1, 10_000),
        "decode": (4, 4, 40_000),
    }
    assert uses["decode"].time == 4 * 100_000
    assert uses["decode"].batch is uses["decode"].per_token is None, "nothing states how many requests there are"


def test_nothing_is_said_of_passes_that_no_loop_of_generate_surrounds(tmp_path: Path) -> None:
    for number, case in enumerate(
        ({"loop": "forward", "prompt": None}, {"loop": "_sample", "prompt": "_prefill", "around": "_assisted_decoding"})
    ):
        path = generated(tmp_path / f"{number}.json", passes=3, **case)
        assert "phase" not in ktrace.summary(path, by=["phase"]).answers


def test_annotations_count_rather_than_the_passes_around_them(tmp_path: Path) -> None:
    path = generated(tmp_path / "run.json", "_sample", prompt="_prefill", passes=2)
    document = json.loads(path.read_text())
    document["traceEvents"].append(
        {"ph": "X", "cat": "user_annotation", "name": "decode_7", "pid": 70, "tid": 70, "ts": 110, "dur": 60}
    )
    path.write_text(json.dumps(document))
    assert [(use.phase, use.steps) for use in answer(path).phases] == [("decode", 1)]


def looped(path: Path, names: list[str], *, times: int, others: int = 0) -> Path:
    """A trace of kernels of 1 us that run in this order again and again, and of others."""
    order = [*names * times, *(f"other {number}" for number in range(others))]
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": 7,
            "ts": 2 * number,
            "dur": 1,
            "args": {"stream": 7},
        }
        for number, name in enumerate(order)
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    return path


LAYER = ["norm", "qkv", "attention", "out", "norm", "up", "act", "down"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (LAYER, "The same 8 kernels run in the same order 6 times in a row, 100.0%"),
        ([*LAYER * 3, "head", "sample"], "The same 26 kernels run in the same order 6 times in a row, 100.0%"),
    ],
)
def test_what_repeats_is_said_where_nothing_names_phases(tmp_path: Path, names: list[str], says: str) -> None:
    found = answer(looped(tmp_path / "run.json", names, times=6))
    assert found.phases == []
    (note,) = found.notes
    assert note.startswith(f"No range in this input names a phase. {says}")
    assert f"{2 * len(names)}.0 us from one to the next" in note


def test_nothing_is_said_to_repeat_that_is_short_rare_or_a_small_part(tmp_path: Path) -> None:
    for number, path in enumerate(
        (
            looped(tmp_path / "short.json", LAYER[:7], times=9),
            looped(tmp_path / "twice.json", [f"kernel {one}" for one in range(20)], times=2),
            looped(tmp_path / "part.json", LAYER, times=4, others=40),
        )
    ):
        assert "phase" not in ktrace.summary(path, by=["phase"]).answers, number


def test_tokens_a_second_and_time_per_token_say_the_same(tmp_path: Path) -> None:
    """Steps of 300 us of work begin 700 us apart: 32 requests get a token each 700 us, not each 300 us."""
    events: list[dict[str, Any]] = []
    for number in range(10):
        ts, args = 700.0 * number, {"correlation": number + 1}
        name = "execute_context_0(0)_generation_32(32)"
        events.append({"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 20.0})
        launch = {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "pid": 1,
            "tid": 1,
            "ts": ts + 1,
            "dur": 2.0,
        }
        work = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": ts + 5, "dur": 295.0}
        events += [launch | {"args": args}, work | {"args": args | {"device": 0, "stream": 7}}]
    (tmp_path / "run.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    answer = ktrace.summary(tmp_path / "run.json", by=["phase"]).answers["phase"]
    assert isinstance(answer, PhasesAnswer)
    (use,) = answer.phases
    assert (use.tokens, use.step.median, use.elapsed) == (320, 300_000, 9 * 700_000 + 300_000)
    assert use.per_token is not None and use.per_token.median == 700_000
    assert use.tokens_per_s == pytest.approx(320 / 6.6e-3)
