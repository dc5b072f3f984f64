"""Lines that are no table, by patterns of the user: what they state, what is guessed, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ktrace
from ktrace.cli import cli
from ktrace.errors import InputError, UsageError
from ktrace.input.mapping import mapping_of
from ktrace.pipeline.propose import propose

LOG = "starting\ngemm took 3.25 ms on gpu:0\nsoftmax took 0.50 ms on gpu:1\n\ngemm  took 1,003.5 ms on gpu:0\n"
TOOK = "line='{name} took {dur} ms on {device}'"


def log(folder: Path, text: str = LOG) -> str:
    path = folder / "run.log"
    path.write_text(text, "utf-8")
    return str(path)


def summaries(path: str, mapping: str) -> list[dict[str, Any]]:
    found = ktrace.read(path, map=mapping).to_arrow()["summaries"].to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def test_a_duration_without_a_start_is_the_total_of_one_occurrence(tmp_path: Path) -> None:
    found = summaries(log(tmp_path), TOOK)
    assert [(row["name"], row["total"], row["count"], row["device"], row["kind"]) for row in found] == [
        ("gemm", 3_250_000, 1, 0, "kernel"),
        ("softmax", 500_000, 1, 1, "kernel"),
        ("gemm", 1_003_500_000, 1, 0, "kernel"),
    ]


OPS = ("gemm", "relu", "norm", "copy")


@pytest.mark.parametrize(
    ("pattern", "line", "row"),
    [
        ("{name}: {avg} us x {count}", "a b: 2.5 us x 4", {"name": "a b", "avg": 2500, "count": 4}),
        ("{}] {name} = {dur}", "[x] k<a, 2> = 2.5us", {"name": "k<a, 2>", "total": 2500}),
        ("{name} {dur:ms} {bytes} KiB", "k 2 3 KiB", {"name": "k", "total": 2_000_000, "bytes": 3072}),
        ("{name}|{dur} seconds|", "k|2e-6 seconds|", {"name": "k", "total": 2000}),
    ],
)
def test_what_patterns_state(tmp_path: Path, pattern: str, line: str, row: dict[str, Any]) -> None:
    (found,) = summaries(log(tmp_path, line + "\n"), f"line='{pattern}'")
    assert row.items() <= found.items()


def test_lines_with_starts_are_events(tmp_path: Path) -> None:
    path = log(tmp_path, "t=1.5 s: gemm ran 20 us (m=8)\nt=1.6 s: gemm ran 0.0005 us (m=9)\n")
    found = ktrace.read(path, map="line='t={start} s: {name} ran {dur} us (m={m})',stream=7").to_arrow()["events"]
    assert found["ts"].to_pylist() == [1_500_000_000, 1_600_000_000]
    assert found["dur"].to_pylist() == [20_000, 0]  # digits below 1 ns stay in args
    assert json.loads(found["args"][1].as_py())["m"] == 9


def test_several_patterns_and_the_account(tmp_path: Path) -> None:
    path = log(tmp_path, LOG + "copy of 4 KiB: 7 us\n")
    found = summaries(path, TOOK + ",line='{name} of {bytes} KiB: {dur} us'")
    assert [row["name"] for row in found] == ["gemm", "softmax", "gemm", "copy"]
    report = ktrace.convert(path, tmp_path / "o.jsonl", map=TOOK)
    assert (report.read, report.written) == (5, 3)
    assert list(report.issues) == ["unrecognised"] and report.issues["unrecognised"].rows == 2


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ("line='{name took {dur} ms'", "a brace isn't closed"),
        ("line='{dur} ms'", "has no name"),
        ("line='{name}{dur} ms'", "nothing separates two placeholders"),
        ("line='{name} {name} {dur} ms'", "name occurs twice"),
        ("line='{name:us} {dur} ms'", "name has a unit"),
        ("line='{name} is here'", "neither a start nor a figure"),
        ("line='{name} {dur} ms',line='at {start} s {name} {dur} ms'", "some lines have a start"),
    ],
)
def test_patterns_that_are_refused(mapping: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        mapping_of(mapping)


def test_no_line_of_the_form(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no line of a form in --map"):
        summaries(log(tmp_path), "line='{name} needs {dur} ms'")


@pytest.mark.parametrize(
    ("lines", "pattern"),
    [
        (["gemm took 3.25 ms on gpu:0", "softmax took 0.5 ms on gpu:1"], "{name} took {dur} ms on gpu:{device}"),
        (
            ["[2025-01-01 10:00:00,123] INFO Layer conv: 1.25ms", "[2025-02-01 10:00:01,4] INFO Layer fc: 5ms"],
            "[{} {}] INFO Layer {name}: {dur}ms",
        ),
        (
            ["void gemm<float, 4>(int)  avg: 12.5 us calls: 30", "void relu<float>(int)  avg: 2 us calls: 9"],
            "{name} avg: {avg} us calls: {count}",
        ),
        (["Layer 1: 0.5 ms", "Layer 2: 0.7 ms"], "{name}: {dur} ms"),
        (["rank 0 | DEBUG | k=a t=12us", "rank 1 | INFO | k=b t=2us"], "rank {rank} | {} | k={name} t={dur}us"),
    ],
)
def test_the_pattern_of_lines_that_are_pointed_at(tmp_path: Path, lines: list[str], pattern: str) -> None:
    proposal = propose(log(tmp_path, "\n".join(["begin", *lines, "end"])), ["2,3"])
    assert proposal.lines == (pattern,)
    assert "2 of 4 lines have the form" in proposal.layout


def test_the_command_keeps_a_pattern_and_reads_by_it(tmp_path: Path) -> None:
    path = log(tmp_path)
    result = CliRunner().invoke(cli, ["map", path, "--line", "2,3,5", "--write"])
    assert result.exit_code == 0, result.output
    assert 'lines = [\n    "{name} took {dur} ms on gpu:{device}",\n]' in Path(path + ".ktrace.toml").read_text()
    assert [row["total"] for row in summaries(path, path + ".ktrace.toml")] == [3_250_000, 500_000, 1_003_500_000]
    assert "gemm takes the most time" in CliRunner().invoke(cli, ["summary", path]).output


@pytest.mark.parametrize("reader", [ktrace.read, propose])
def test_a_log_with_times_is_refused_with_the_command_that_reads_it(tmp_path: Path, reader: Any) -> None:
    with pytest.raises(InputError) as refused:
        reader(log(tmp_path, LOG.replace("on gpu:0", "or so").replace("on gpu:1", "or so")))
    assert "--line 2,3,5 shows how lines such as these could be read" in str(refused.value)
    with pytest.raises(InputError) as refused:
        reader(log(tmp_path, "one\ntwo took 3 ms\nthree\n"))
    assert "--line 2 shows how that line could be read" in str(refused.value)
    with pytest.raises(InputError) as refused:
        reader(log(tmp_path, "one\ntwo took 3 apples\nthree\n"))
    assert "--line" not in str(refused.value)


def test_lines_that_share_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="share no form with a name and a time"):
        propose(log(tmp_path), ["1,2"])
    with pytest.raises(InputError, match="has no line 9"):
        propose(log(tmp_path), ["2,9"])


def test_a_hostile_line_takes_no_time(tmp_path: Path) -> None:
    path = log(tmp_path, "a " * 8000 + "\n" + " " * 16000 + "x\n" + "1" * 16000 + "\nk took 3 ms on gpu:1\n")
    assert len(summaries(path, TOOK + ",line='{} {name} {} {dur} ms {} end'")) == 1


EVENTS = [
    {"t": 0.001, "name": "matmul", "elapsed_ms": 1.25, "queue": 0},
    {"t": 0.003, "name": "softmax", "elapsed_ms": 0.15, "queue": 0},
    {"t": 0.0035, "name": "matmul", "elapsed_ms": 1.3, "queue": 1},
]


def test_json_lines_whose_keys_state_a_name_and_a_time_need_no_mapping(tmp_path: Path) -> None:
    path = log(tmp_path, "".join(json.dumps(event) + "\n" for event in EVENTS))
    found = ktrace.read(path).to_arrow()["events"].to_pylist()
    assert [(row["name"], row["ts"], row["dur"], row["stream"]) for row in found] == [
        ("matmul", 1_000_000, 1_250_000, 0),
        ("softmax", 3_000_000, 150_000, 0),
        ("matmul", 3_500_000, 1_300_000, 1),
    ]
    report = ktrace.convert(path, tmp_path / "o.jsonl")
    assert list(report.issues) == ["guessed"]


def test_a_start_whose_unit_nothing_shows_is_an_argument(tmp_path: Path) -> None:
    path = log(tmp_path, "".join(json.dumps(event | {"t": 5 * number}) + "\n" for number, event in enumerate(EVENTS)))
    found = ktrace.read(path).to_arrow()
    assert not len(found["events"]) and found["summaries"]["value"].to_pylist() == [1_250_000, 150_000, 1_300_000]


@pytest.mark.parametrize(
    "line", ['{"name": "a", "latency": 3}', '{"gpu_ms": 3, "cpu_ms": 4}', '{"name": "a", "size_mb": 3}']
)
def test_json_lines_that_state_no_time_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match="unrecognised format"):
        ktrace.read(log(tmp_path, f"{line}\n" * 3))


@pytest.mark.parametrize(
    ("text", "names", "figure"),
    [
        ("a time: 1 ms\nbb time: 2 ms\nccc time: 3 ms\nd time: 4 ms\n", ["a", "bb", "ccc", "d"], "total"),
        ("Average time per layer:\n" + "".join(f"conv{n}  fwd: 0.{n} ms.\n" for n in range(1, 5)), None, "avg"),
        ("".join(f"[{n}] x: kernel k{n} is: {n} (ms)\n" for n in range(1, 5)), ["k1", "k2", "k3", "k4"], "total"),
        (
            "".join(f"  GPU part {n}   9 launches  1.5 ms / 5%\n" for n in "abcd"),
            [f"GPU part {n}" for n in "abcd"],
            "total",
        ),
        (  # lines without a time between; a time before the name
            "".join(
                f"  {n}.5 ms  {op}  WebGPU  node_{n}\n     in: [1, 2]\n" for n, op in enumerate(("Mul", "Add") * 2)
            ),
            ["Mul", "Add", "Mul", "Add"],
            "total",
        ),
        (  # a form that the first lines have, but not all; the least common word is of none
            "".join(
                f"[pipe] took 0.0{n} secs done `{name}' on {'CPU' if n == 5 else 'GPU'}\n"
                for n, name in enumerate(OPS, 2)
            ),
            [f"`{name}'" for name in OPS],
            "total",
        ),
        (  # a name with brackets in which words differ, a count between the total and the average
            "".join(f"gpu::{name}<f(x, {name})>: 0.{n}ms / {n} = 0.1ms, {n}0%\n" for n, name in enumerate(OPS, 2)),
            [f"gpu::{name}<f(x, {name})>" for name in OPS],
            "total",
        ),
        (  # shares say which of two times is meant
            "".join(f" {n}.00%  {name}  {n}0.00ms {n + 3}1.00ms\n" for n, name in enumerate(OPS, 2)),
            list(OPS),
            "total",
        ),
    ],
)
def test_lines_of_one_form_need_no_mapping(tmp_path: Path, text: str, names: list[str] | None, figure: str) -> None:
    path = log(tmp_path, text)
    found = ktrace.read(path).to_arrow()["summaries"]
    assert len(found) == 4 and found[figure].null_count == 0
    assert names is None or found["name"].to_pylist() == names
    assert list(ktrace.convert(path, tmp_path / "o.jsonl").issues)[-1:] != ["mapped"]


@pytest.mark.parametrize(
    "text",
    [
        "one took 3 ms\ntwo took 4 ms\n",  # too few
        "".join(f"{name} interval: {n} s\n" for n, name in enumerate(OPS, 2)),  # set, not measured
        "".join(f"{n}.{n} s {name}\n" for n, name in enumerate(OPS, 2)),  # since the start
        "".join(f"[ RUN      ] G.{name}\n[       OK ] G.{name} ({n} ms)\n" for n, name in enumerate(OPS, 2))
        + "4 tests from G (9 ms total)\n",  # tests
        "".join(f"layer{n} took {n}\n" for n in range(1, 6)),  # no unit
        "".join(f"op{n} {n}.5KB (1%), {n}3us, 0us\n" for n in range(1, 6)),  # two times: nothing says which
        "".join(f" {n}.00%  {name}  {9 - n}0.00ms {n + 3}1.00ms\n" for n, name in enumerate(OPS, 2)),  # of neither
    ],
)
def test_other_lines_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="unrecognised format"):
        ktrace.read(log(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"  {word} time:  {n} us\n" for n, word in enumerate(("minimum", "median", "mean", "maximum"), 2)),
        "".join(
            f"{op}/elapsed_{who} : {n}.5ms (avg {n}.4ms)\n" for n, op in enumerate(OPS) for who in ("cpu", "gpu")
        ),  # the same work twice
        "".join(f"{name}: 1.{n} us avg\n" for n, name in enumerate(OPS)),
        "".join(f"  Iter 00{n}  |  33.6{n} GB/s |  2.00{n} ms |\n" for n in range(1, 6)),  # one thing, several times
        "".join(f"FFT {name} avg_time_per_step: 1.{n} us\n" for n, name in enumerate(OPS)),
        "".join(f"{name} (2) >>> Min: {n} us; Average: {n + 2} us;\n" for n, name in enumerate(OPS)),
    ],
)
def test_lines_whose_times_dont_add_up_are_figures(tmp_path: Path, text: str) -> None:
    rows = ktrace.read(log(tmp_path, text)).to_arrow()["summaries"]
    assert set(rows["kind"].to_pylist()) == {"metric"} and len(rows) == text.count("\n")


def test_names_are_whole_around_two_colons(tmp_path: Path) -> None:
    text = "".join(
        f"[Measure] {name}::Prefetch time: 1.{n} ms\n" for n, name in enumerate(("RamDb", "Read", "A1", "B"))
    )
    names = ktrace.read(log(tmp_path, text)).to_arrow()["summaries"]["name"].to_pylist()
    assert names == ["RamDb::Prefetch", "Read::Prefetch", "A1::Prefetch", "B::Prefetch"]


def test_the_word_kernel_before_names_says_what_they_are(tmp_path: Path) -> None:
    for word, kind in (("kernel", "kernel"), ("stage", "op")):
        text = "".join(f"{word} {name} took 1.{n} ms\n" for n, name in enumerate(OPS))
        rows = ktrace.read(log(tmp_path, text)).to_arrow()["summaries"]
        assert rows["name"].to_pylist() == list(OPS) and set(rows["kind"].to_pylist()) == {kind}


@pytest.mark.parametrize(
    "text",
    [
        "".join(
            f"I0610 14:38:5{n}.5 206 pairing.cc:373]  in 0.2{n}s\nI0610 14:38:5{n}.6 206 a.cc:3] x\n" for n in range(5)
        ),
        "".join(
            f"{name} 0.{n}% 1{n}.3ms 0.3% 5{n}.9ms 4{n}.1us 0.0us 0.0% 1{n}.0us 0.1us 12{n}\n"
            for n, name in enumerate(OPS)
        ),
    ],
)
def test_what_is_no_name_isnt_taken_for_one(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="unrecognised format"):
        ktrace.read(log(tmp_path, text))


def test_a_number_that_begins_with_0_and_a_comma_has_a_decimal_comma(tmp_path: Path) -> None:
    text = "".join(f"{name} took 0,{n}50 secs\n" for n, name in enumerate(OPS, 2))
    rows = ktrace.read(log(tmp_path, text)).to_arrow()["summaries"]
    assert rows["total"].to_pylist() == [250_000_000, 350_000_000, 450_000_000, 550_000_000]
    rows = ktrace.read(log(tmp_path, text.replace("0,", "1,"))).to_arrow()["summaries"]
    assert rows["total"].to_pylist() == [1_250_000_000_000, 1_350_000_000_000, 1_450_000_000_000, 1_550_000_000_000]


def test_shares_say_whether_a_time_is_that_of_a_call(tmp_path: Path) -> None:
    rows = [("gemm", 80.0, 4000, 2.0), ("topk", 10.0, 10, 100.0), ("norm", 6.0, 200, 3.0), ("rope", 4.0, 400, 1.0)]

    def read(times: list[float]) -> list[dict[str, Any]]:
        lines = (
            f"{share}%  {n} calls  {dur} us  {name}\n" for (name, share, n, _), dur in zip(rows, times, strict=True)
        )
        found: list[dict[str, Any]] = ktrace.read(log(tmp_path, "".join(lines))).to_arrow()["summaries"].to_pylist()
        return found

    each = read([dur for *_, dur in rows])
    assert [(row["name"], row["count"], row["avg"], row.get("total")) for row in each[:2]] == [
        ("gemm", 4000, 2_000, None),
        ("topk", 10, 100_000, None),
    ]
    assert [row["total"] for row in read([800.0, 100.0, 60.0, 40.0])] == [800_000, 100_000, 60_000, 40_000]
    with pytest.raises(InputError):
        read([1.5, 700.0, 2.5, 33.0])  # the shares are of neither


def test_blanks_before_a_unit(tmp_path: Path) -> None:
    text = "".join(f"cost:{n}00    us      {name}\n" for n, name in enumerate(("conv_a", "conv_b", "pool", "norm"), 2))
    assert ktrace.read(log(tmp_path, text)).to_arrow()["summaries"]["total"].to_pylist() == [2e5, 3e5, 4e5, 5e5]


def test_equal_times_of_different_names_are_one_within_the_other(tmp_path: Path) -> None:
    text = "".join(f"end {name}: 195 elapsed {ms} ms\n" for ms in (708, 962) for name in ("launch", "plan", "dispatch"))
    assert set(ktrace.read(log(tmp_path, text)).to_arrow()["summaries"]["kind"].to_pylist()) == {"metric"}
    text = "".join(f"end {name}: 195 elapsed {ms} ms\n" for name, ms in zip(OPS, (708, 962, 115, 42), strict=False))
    assert set(ktrace.read(log(tmp_path, text)).to_arrow()["summaries"]["kind"].to_pylist()) == {"op"}
