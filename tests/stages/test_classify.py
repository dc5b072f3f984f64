"""What names say: rules of one's own, and the transform that fills columns by them."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import golden
import pyarrow as pa
import pytest
from conftest import MADE_FOLDERS, ROOT, SAMPLES
from fork_server import program
from nightly import few

import ktrace
from ktrace.model.batch import Batch
from ktrace.model.row_builder import to_batch
from ktrace.naming.taxonomy import builtin_rules, needed, taxonomy
from ktrace.stages.names import with_operations

COLUMNS = ("operation", "library", "precision", "layer", "short_name")

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"

Row = dict[str, Any]


def event(number: int, name: str, kind: str = "kernel", **more: Any) -> Row:
    return {"source": "s", "id": number, "kind": kind, "name": name, "ts": number, "timing": "measured", **more}


def filled(*batches: Batch, rules: Path | None = None) -> list[Row]:
    found = []
    for batch in with_operations(batches, taxonomy(rules)):
        rows = batch.columns.to_pylist()
        found += [{column: row.get(column) for column in COLUMNS} for row in rows if batch.record != "catalog"]
    return found


def convert(*arguments: object, command: str = "convert") -> subprocess.CompletedProcess[str]:
    """`ktrace convert`, or another command, as a user runs it."""
    line = [program(), command, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def written(path: Path, *rules: Row, **more: Any) -> Path:
    path.write_text(json.dumps({"rules": rules, **more}))
    return path


def test_device_work_is_classified_and_nothing_else() -> None:
    rows = filled(
        to_batch(
            "events",
            [
                event(1, "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN"),
                event(2, "[CUDA memcpy HtoD]", "memcpy"),
                event(3, "Memset (Device)", "memset"),
                event(4, "aten::mm", "op"),
                event(5, "gemm", "api"),
                event(6, "who knows"),
            ],
        )
    )
    assert [(row["operation"], row["library"], row["precision"]) for row in rows] == [
        ("gemm", "cuBLAS", "bf16"),
        ("copy", None, None),
        ("fill", None, None),
        (None, None, None),
        (None, None, None),
        (None, None, None),
    ]
    assert [row["short_name"] is None for row in rows] == [False, False, False, True, True, False]


def test_what_the_source_says_stays() -> None:
    said = {"operation": "mine", "library": "ours", "precision": "fp7", "layer": "L1", "short_name": "g"}
    rows = filled(to_batch("events", [event(1, "ampere_sgemm_128x64_nn", **said), event(2, "ampere_sgemm_128x64_nn")]))
    assert rows[0] == said
    assert rows[1] == {
        "operation": "gemm",
        "library": "cuBLAS",
        "precision": "fp32",
        "layer": None,
        "short_name": "ampere_sgemm_128x64_nn",
    }


def test_columns_that_a_batch_has_are_kept_with_their_order_and_types() -> None:
    batch = to_batch("events", [event(1, "gemm", args='{"a":1}'), event(2, "f", "op")])
    typed = pa.RecordBatch.from_arrays(
        [*batch.columns.columns, pa.array([1, None])], names=[*batch.columns.schema.names, "args.x"]
    )
    (out,) = with_operations([Batch("events", typed)], taxonomy())
    assert out.columns.select(typed.schema.names).equals(typed)
    assert set(out.columns.schema.names) - set(typed.schema.names) == {"operation", "short_name"}


@pytest.mark.parametrize("dictionary", [True, False])
def test_names_as_dictionaries_and_as_text(dictionary: bool) -> None:
    names = [f"gemm_{number % 7}" for number in range(1000)] + ["softmax"]
    columns = to_batch("events", [event(number, name) for number, name in enumerate(names)]).columns
    place = columns.schema.get_field_index("name")
    coded = columns.column(place).dictionary_encode()
    words = pa.array([*coded.dictionary.to_pylist(), *(f"never used {number}" for number in range(100_000))])
    array = pa.DictionaryArray.from_arrays(coded.indices, words) if dictionary else columns.column(place).cast("string")
    arrays = [*columns.columns[:place], array, *columns.columns[place + 1 :]]
    rows = filled(Batch("events", pa.RecordBatch.from_arrays(arrays, names=columns.schema.names)))
    assert [row["operation"] for row in rows] == ["gemm"] * 1000 + ["softmax"]
    assert [row["short_name"] for row in rows] == names


def test_an_engine_is_known_by_the_format_of_the_source() -> None:
    fact = {"entity": "source", "source": "s", "id": 0, "name": "s", "facts": '{"format": "doppler"}'}
    rows = filled(
        to_batch("events", [event(1, "rmsnorm")]),
        to_batch("catalog", [fact]),
        to_batch("events", [event(2, "rmsnorm")]),
    )
    assert [row["library"] for row in rows] == [None, "Doppler"]


def test_a_layer_is_taken_from_the_name_else_from_the_innermost_scope() -> None:
    def summary(number: int, name: str, scope: list[str] | None, kind: str = "kernel") -> Row:
        return {"source": "s", "id": number, "kind": kind, "name": name, "metric": "duration", "scope": scope}

    rows = filled(
        to_batch(
            "summaries",
            [
                summary(1, "gemm:L3", ["layers.9"]),
                summary(2, "gemm", ["model", "layers.8", "layers.9", "mlp"]),
                summary(3, "gemm", ["model"]),
                summary(4, "gemm", None),
                summary(5, "gemm", ["layers.7"], "range"),
                summary(6, "gemm", []),
                summary(7, "gemm", ["block_2"]),
            ],
        )
    )
    assert [row["layer"] for row in rows] == ["L3", "layers.9", None, None, None, None, "block_2"]


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("matmul:q_proj:L13", "L13"),
        ("matmul_rmsnorm_fused:L9.ffn_down", "L9"),
        ("Generation Loop/block_3/attn", "block_3"),
        ("model.layers.21.self_attn.q_proj", "layers.21"),
        ("decoder_layer_4", "layer_4"),
        ("blk.9.attn_q", "blk.9"),
        ("transformer.h.11.mlp", "h.11"),
        ("flush_L2_cache", None),
        ("gemm_block_128x128", None),
        ("layer_norm_kernel", None),
        ("Cijk_Ailk_Bljk_SB_MT128x64x16_SN_1LDSB1_LDL1_L2", None),
    ],
)
def test_layers(name: str, layer: str | None) -> None:
    assert ktrace.classify(name).layer == layer


def test_ones_own_rules_come_first_and_the_others_fill_the_rest(tmp_path: Path) -> None:
    rules = written(
        tmp_path / "rules.json",
        {"about": "ours", "name": ["^acme_", "_acme$"], "library": "Acme"},
        {"name": "acme_gemm", "operation": "attention", "short_name": "ours"},
        {"name": r"acme_\w+_layer(\d+)", "layer": r"layers.\1"},
        {"name": "sgemm", "kind": "kernel", "precision": None},
        {"format": ["mlc"], "library": "my MLC"},
    )
    found = ktrace.classify("acme_gemm_bf16_layer12", rules=rules)
    assert found == ("attention", "Acme", "bf16", "layers.12", "ours")
    assert ktrace.classify("ampere_sgemm_128x64_nn", rules=rules)[:3] == ("gemm", "cuBLAS", None)
    assert ktrace.classify("ampere_sgemm_128x64_nn", kind="memcpy", rules=rules).precision == "fp32"
    assert ktrace.classify("rms_norm", format="mlc", rules=rules).library == "my MLC"
    assert ktrace.classify("rms_norm", format="mlc").library == "MLC"


def test_a_pattern_with_a_capital_counts_letters_as_they_stand(tmp_path: Path) -> None:
    small = written(tmp_path / "small.json", {"name": r"rope\W", "operation": "x"})
    exact = written(tmp_path / "exact.json", {"name": "RoPE", "operation": "x"})
    assert [ktrace.classify(name, rules=small).operation for name in ("RoPE!", "rope!")] == ["x", "x"]
    assert [ktrace.classify(name, rules=exact).operation for name in ("RoPE!", "rope!")] == ["x", "rope"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("gemm", ("gemm",)),
        ("(?<![a-z])rope", ("rope",)),
        ("top_?p_norms", ("p_norms",)),
        ("^nvjet_(?:sm|x)", ("nvjet_",)),
        ("a|b", ("a", "b")),
        ("a|b*", ()),
        ("(?:a|bcd)ef", ("ef",)),
        ("(?:abc|defg)ef", ("abc", "defg")),
        ("(?:abc|defg)?ef", ("ef",)),
        ("(?:abc|)ef", ("ef",)),
        ("(?:abc|d(?:efg|hij))k", ("abc", "efg", "hij")),
        ("(?:abc|(?:efg|hij))k", ("abc", "efg", "hij")),
        ("[abc]+def*", ("de",)),
        ("abc{0}12{23}x", ("ab",)),
        ("[)](abc)?", ()),
        ("[]a]bc(?=def)", ("bc",)),
        ("(?!gemm)x", ("x",)),
        ("ab+c", ("ab",)),
        (r"\babc\.d", ("abc",)),
        ("(?x)a b c", ()),
        ("(?i)abc", ()),
        ("(?i:abc)d", ("d",)),
        ("(?P<name>abc)d", ("d",)),
        ("(abc)?", ()),
        ("x[(]abc[)]y", ("abc",)),
    ],
)
def test_what_a_pattern_needs(pattern: str, words: tuple[str, ...]) -> None:
    assert needed(pattern) == words


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[", "isn't JSON"),
        ("[]", 'no list "rules"'),
        ('{"rules": 1}', 'no list "rules"'),
        ('{"rules": [1]}', "rules[0]"),
        ('{"rules": [{"name": "x"}]}', "rules[0]: the rule sets no column"),
        ('{"rules": [{"operation": "x"}, {"nam": "x", "operation": "y"}]}', "rules[1]: 'nam'"),
        ('{"rules": [{"name": "(", "operation": "y"}]}', "rules[0].name"),
        ('{"rules": [{"name": "x", "layer": "\\\\1"}]}', "rules[0].name"),
        ('{"rules": [{"name": 3, "operation": "y"}]}', "rules[0].name"),
        ('{"rules": [{"name": [], "operation": "y"}]}', "rules[0].name"),
        ('{"rules": [{"name": "x", "operation": ""}]}', "rules[0].operation"),
        ('{"ktrace_operations": "2.0", "rules": []}', "ktrace_operations"),
    ],
)
def test_a_fault_in_a_file_of_rules_is_named(text: str, where: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(ktrace.InputError) as caught:
        ktrace.classify("x", rules=path)
    assert where in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.remedy
    with pytest.raises(ktrace.InputError):
        ktrace.convert(STEP, tmp_path / "o.csv", rules=path)
    assert not (tmp_path / "o.csv").exists()


def test_rules_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ktrace.InputError):
        ktrace.classify("x", rules=tmp_path / "none.json")


def test_convert_classifies_and_changes_nothing_else(tmp_path: Path) -> None:
    plain, named = tmp_path / "plain.csv", tmp_path / "named.csv"
    ktrace.convert(STEP, plain)
    report = ktrace.convert(STEP, named, classify=True)
    assert report.balanced()
    (stage,) = [ledger for ledger in report.stages if ledger.stage == "classify"]
    assert stage.taken == stage.given > 0
    before, after = (list(csv.DictReader(path.open(newline="", encoding="utf-8"))) for path in (plain, named))
    assert [{key: value for key, value in row.items() if key not in COLUMNS} for row in before] == [
        {key: value for key, value in row.items() if key not in COLUMNS} for row in after
    ]
    kernels = [row for row in after if row["kind"] == "kernel"]
    assert kernels
    assert all(row["operation"] and row["short_name"] for row in kernels)
    assert not any(row["operation"] for row in after if row["kind"] in ("op", "api", "range"))


def test_the_timeline_says_the_operation(tmp_path: Path) -> None:
    """In Chrome's JSON as arguments; in Perfetto as those of the launch, which come back."""
    wanted = set(ktrace.read(STEP).classify().events["operation"].dropna())
    assert {"gemm", "collective"} <= wanted
    ktrace.convert(STEP, tmp_path / "o.trace.json", classify=True)
    events = json.loads((tmp_path / "o.trace.json").read_text("utf-8"))["traceEvents"]
    assert {row["args"]["operation"] for row in events if "operation" in row.get("args", {})} == wanted
    ktrace.convert(STEP, tmp_path / "o.perfetto", classify=True)
    assert set(ktrace.read(tmp_path / "o.perfetto").events["operation"].dropna()) == wanted


def test_on_the_command_line(tmp_path: Path) -> None:
    rules = written(tmp_path / "rules.json", {"name": "nccl", "operation": "talk"})
    seen = {}
    for number, option in enumerate((["--classify"], ["--rules", rules], ["--rules", rules, "--classify"], [])):
        out = tmp_path / f"{number}.csv"
        done = convert(STEP, "-o", out, *option)
        assert done.returncode == 0, done.stderr
        rows = csv.DictReader(out.open(newline="", encoding="utf-8"))
        seen[number] = {row["operation"] for row in rows if "nccl" in row["name"] and row["kind"] == "kernel"}
    assert seen == {0: {"collective"}, 1: {"talk"}, 2: {"talk"}, 3: {""}}


def test_rules_are_named_alike_everywhere(tmp_path: Path) -> None:
    rules = written(tmp_path / "rules.json", {"name": "nccl", "operation": "talk"})
    for out in ("c.parquet", "m.parquet"):
        (ktrace.convert if out[0] == "c" else ktrace.merge)([STEP], tmp_path / out, rules=rules)
        assert "talk" in set(ktrace.read(tmp_path / out).events["operation"])
    ktrace.batch(STEP, tmp_path / "b.parquet", rules=rules, jobs=1)
    assert "talk" in set(ktrace.read(tmp_path / "b.parquet").events["operation"])
    assert "talk" in {group.key for group in ktrace.summary(STEP, rules=rules).groups["operation"]}
    assert "talk" in {change.key for change in ktrace.diff(STEP, STEP, rules=rules).rows["operation"]}
    for command in ("view", "convert", "merge", "summary"):
        out = ["-o", tmp_path / "o.csv"] if command in ("convert", "merge") else []
        done = convert(STEP, "--rules", tmp_path / "none.json", *out, command=command)
        assert (done.returncode, "none.json" in done.stderr) == (1, True)
    with pytest.raises(ktrace.UsageError, match="classify is True or False") as error:
        ktrace.convert(STEP, tmp_path / "o.csv", classify=str(rules))  # type: ignore[arg-type]
    assert "rules=" in str(error.value)


def test_classify_leaves_the_next_word_to_the_inputs(tmp_path: Path) -> None:
    assert convert("--classify", STEP, "-o", tmp_path / "o.csv").returncode == 0


def test_a_trace_is_classified_whole_and_comes_back_equal(tmp_path: Path) -> None:
    trace = ktrace.read(STEP)
    named = trace.classify()
    assert trace.events["operation"].isna().all()
    assert {"gemm", "attention", "collective"} <= set(named.events["operation"].dropna())
    assert len(named.events) == len(trace.events)
    assert len(named.links) == len(trace.links)
    named.write(tmp_path / "o.parquet")
    again = ktrace.read(tmp_path / "o.parquet")
    assert again.equals(named)
    assert again.classify().equals(named)


def test_every_pattern_of_the_rules_is_a_regular_expression() -> None:
    """They are compiled when a name is first looked at, which must not fail then. Values use groups that are there."""
    for rule in builtin_rules():
        for pattern in rule.names:
            pattern.find("", "")
            empty = re.compile(f"(?:{pattern.text})|").search("")
            assert empty is not None
            for value in filter(None, rule.values.values()):
                empty.expand(value)


def test_the_page_names_every_operation_and_library() -> None:
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    operations = {rule.values["operation"] for rule in builtin_rules() if rule.values.get("operation")}
    table = page[page.index("## Operations") : page.index("**Limits.**")]
    named = {word.strip() for row in re.findall(r"^\| ([\w, -]+) \|", table, re.M) for word in row.split(",")}
    assert named - {"operation"} == operations
    libraries = {str(rule.values["library"]) for rule in builtin_rules() if rule.values.get("library")}
    paragraph = page[page.index("## Libraries") : page.index("## Short names")].partition("\n")[2]
    assert {word.strip() for word in paragraph.strip().rstrip(".").split(",")} == libraries


def test_the_rules_of_the_page_work(tmp_path: Path) -> None:
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    block = re.search(r"```json\n(.*?)```", page, re.S)
    assert block
    path = tmp_path / "rules.json"
    path.write_text(block.group(1))
    assert ktrace.classify("acme_mha_layer7", rules=path)[:4] == ("attention", "Acme", "fp8", "layers.7")
    assert ktrace.classify("acme_gemm", rules=path)[:2] == ("gemm", "Acme")
    for name, short in re.findall(r"^\| `(\w[^`]*)` \| `([^`]+)` \|$", page, re.M):
        whole = name.replace(", ...>(int, ...)", ", char>(int)").replace("...", "")
        assert ktrace.classify(whole).short_name == short


def test_slices_in_halves_and_patterns_for_short_names(tmp_path: Path) -> None:
    """A filter sees what was classified; the end of a slice has no name of its own."""
    place = {"cat": "kernel", "pid": 0, "tid": 7}
    events = [
        {"ph": "B", "name": "ampere_sgemm_128x64_nn", "ts": 1, "args": {"device": 0, "stream": 7}, **place},
        {"ph": "E", "ts": 5, **place},
        {"ph": "X", "name": "void a::copy_kernel<1>(int)", "ts": 6, "dur": 1, "args": {"device": 0}, **place},
    ]
    path = tmp_path / "halves.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    for pattern, wanted in (("copy_kernel", [("copy", 1000)]), ("*", [("copy", 1000), ("gemm", 4000)])):
        out = tmp_path / f"{len(wanted)}.parquet"
        report = ktrace.convert(path, out, from_="kineto", classify=True, filter=ktrace.Filter(names=[pattern]))
        assert report.balanced()
        assert sorted(ktrace.read(out).events[["operation", "dur"]].itertuples(index=False, name=None)) == wanted


EVERY_SAMPLE = [path for folder in MADE_FOLDERS for path in golden.samples_of(folder)]


@pytest.mark.parametrize("path", few(EVERY_SAMPLE, 1, by=lambda path: path.parent), ids=lambda path: path.name)
def test_samples_of_every_format_keep_what_they_say(path: Path) -> None:
    """No row more or less, no value but in the five columns, and there only where none was; twice is as once."""
    plain = ktrace.read(path)
    named = plain.classify()
    again = named.classify().to_arrow()
    for record, before in plain.to_arrow().items():
        after = named.to_arrow()[record]
        rest = [name for name in before.column_names if name not in COLUMNS]
        assert repr(after.select(rest).to_pylist()) == repr(before.select(rest).to_pylist())  # NaN isn't itself
        for name in set(COLUMNS) & set(before.column_names):
            pairs = zip(before[name].to_pylist(), after[name].to_pylist(), strict=True)
            assert all(was in (None, now) for was, now in pairs), name
        for name in set(COLUMNS) & set(before.column_names):
            assert again[record][name].to_pylist() == after[name].to_pylist()
