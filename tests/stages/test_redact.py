"""What a redaction replaces and what it leaves; that no planted secret stays; that answers stay the same."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import SAMPLES
from nightly import few

import ktrace
from ktrace.conversion import Conversion
from ktrace.input.detection import by_name
from ktrace.model.batch import Batch
from ktrace.naming.taxonomy import taxonomy
from ktrace.pipeline.convert import writing_to
from ktrace.pipeline.read import read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Report
from ktrace.stages.redact import Redaction, redacted
from ktrace.viewer.share import share

KEY = b"k" * 32


@pytest.mark.parametrize(
    "text",
    [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
        *("cudaStreamSynchronize", "hipModuleLaunchKernel", "aten::item", "nn.Module: Linear_0", "ProfilerStep#12"),
        *("[[4096, 131072], [1, 2]]", "Memcpy HtoD (Pinned -> Device)", "stream 7", "NVIDIA A100-SXM4-80GB", "B/s"),
        *("torch/optim/adam.py(3): step", "threading.py(1): run", "execute_context_0(sq0sk0sqsq0sqsk0)_generation_8"),
    ],
)
def test_what_vendors_and_frameworks_say_stays(text: str) -> None:
    assert Redaction(KEY).text(text) == text


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("void acme::FalconAttention<128>(float*)", ["acme", "Falcon"]),
        ("/home/jo/falcon/train.py(12): step", ["jo", "home", "falcon", "train", "step"]),
        ("train.py(42): forward", ["train", "forward"]),
        ("$model.py:42 forward", ["model", "forward"]),
        ("/opt/site-packages/acme/gemm.py(3): run", ["opt", "acme"]),
        (r"C:\Users\bob\run.json", ["Users", "bob", "run"]),
        ("model/weights/run.safetensors", ["model", "weights", "run"]),
        ("10.1.2.3:8080", ["10.1.2.3"]),
        ("jo@falcon-labs.io on gpu17", ["jo", "falcon", "labs"]),
        ("aB3xY7kQ", ["aB3xY7kQ"]),
        ("straße_gemm", ["straße"]),
        ("order 123456789012", ["123456789012"]),
    ],
)
def test_what_is_private_does_not(text: str, secrets: list[str]) -> None:
    shown = Redaction(KEY).text(text)
    assert not [secret for secret in secrets if re.search(rf"(?<![a-z]){re.escape(secret)}(?![a-z])", shown)]


def test_tokens_depend_on_the_key_and_lead_back() -> None:
    first, again, other = Redaction(KEY), Redaction(KEY), Redaction(b"o" * 32)
    shown = first.text("acme_gemm_kernel, acme::norm")
    token = shown.partition("_")[0]
    assert shown == f"{token}_gemm_kernel, {token}::norm"
    assert first.originals == {token: "acme"}
    assert again.text("norm of acme") == f"norm of {token}"
    assert token not in other.text("acme")


def test_addresses_of_objects_stay_addresses() -> None:
    shown = Redaction(KEY).text("<built-in method of Tensor object at 0x7f48ddbbbf90>")
    assert re.fullmatch(r"<built-in method of Tensor object at 0x[0-9a-f]{12}>", shown)
    assert "7f48ddbbbf90" not in shown


def test_json_keeps_its_numbers_and_replaces_its_texts_and_keys() -> None:
    redaction = Redaction(KEY)
    text = r'{"Input Dims":[[9007199254740993,1.50]],"falcon":"a \"falcon\" gemm","hostname":"gemm","n":1e400}'
    shown = redaction.json(text)
    token, host = redaction.text("falcon"), redaction.private("gemm")
    assert shown == text.replace("falcon", token).replace(':"gemm"', f':"{host}"')


def test_doubts_about_a_recording_stay() -> None:
    facts = json.dumps({"doubts": {"issues": {"negative": 3}, "warnings": ["Not all CUDA events were collected."]}})
    assert Redaction(KEY).json(facts) == facts


#: Words that stay are no secrets: these are of letters that no public word has in this order.
def _secret(numbers: random.Random) -> str:
    word = "".join(numbers.choice("bcdfghklmnprstvz") + numbers.choice("aeiou") for _ in range(4)) + numbers.choice(
        "qxz"
    )
    return numbers.choice(
        (word, word.title(), f"{word}{numbers.randrange(100)}", "".join(numbers.sample(string.ascii_letters, 12)))
    )


#: Beyond so many secrets none is a key of arguments or a counter of its own: a trace with as many columns is none.
_KEYED = 4_000


def _planted(count: int) -> tuple[dict[str, object], list[str]]:
    """A trace of Kineto with this many secrets in names, arguments, keys, paths, hosts, threads, and facts."""
    numbers = random.Random(7)
    secrets = list(dict.fromkeys(_secret(numbers) for _ in range(count)))
    left = iter(secrets)

    def event(at: int, **its: object) -> dict[str, object]:
        return {"ph": "X", "pid": 0, "tid": 7, "ts": 10 * at, "dur": 5, **its}

    def events() -> Iterator[dict[str, object]]:
        yield {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": f"python {next(left)}"}}
        for at, one in enumerate(left):
            match at % 8:
                case 0:
                    yield event(
                        at, cat="kernel", name=f"void {one}::gemm_kernel<float>()", args={"device": 0, "stream": 7}
                    )
                case 1:
                    key = one if at < _KEYED else "note"
                    yield event(
                        at, cat="kernel", name=f"triton_{one}_fused_add", args={"device": 0, "stream": 7, key: one}
                    )
                case 2:
                    yield event(at, cat="python_function", name=f"/home/{one}/train.py(12): step", pid=1, tid=1)
                case 3:
                    yield event(
                        at, cat="cpu_op", name="aten::mm", pid=1, tid=1, args={"Call stack": f"{one}.py(3): {one}"}
                    )
                case 4:
                    yield event(at, cat="user_annotation", name=f"epoch {one}/layer_3", pid=1, tid=1)
                case 5:
                    yield event(at, cat="cpu_op", name=f"{one}::op", pid=1, tid=1, args={"note": [{"deep": one}]})
                case 6:
                    yield event(at, cat="cuda_runtime", name="cudaLaunchKernel", pid=1, tid=1, args={"host": one})
                case 7 if at >= _KEYED:
                    yield event(at, cat="user_annotation", name=f"memory of {one}", pid=1, tid=1)
                case 7:
                    yield {"ph": "C", "name": f"memory of {one}", "pid": 1, "ts": 10 * at, "args": {one: 1}}

    document = {"schemaVersion": 1, "hostname": next(left), "traceName": f"/tmp/{next(left)}.json"}
    return {**document, "traceEvents": list(events())}, secrets


def _opened(page: str) -> str:
    """A page and what is packed in it."""
    packed = re.findall(r'<script id="(?:data|trace)" type="application/octet-stream">([^<]+)<', page)
    assert len(packed) == 2
    return page + "".join(gzip.decompress(base64.b64decode(text)).decode("latin-1") for text in packed)


@pytest.mark.parametrize("count", few([2_000, 100_000], 1))
def test_no_planted_secret_is_in_the_page(tmp_path: Path, count: int) -> None:
    trace, secrets = _planted(count)
    path = tmp_path / "prometheus-unbound.json"
    path.write_text(json.dumps(trace))
    shared = share(path, tmp_path / "page.html", redact=True)
    assert shared.part == (0, shared.length) or count > 10_000, "all of it is in the page"
    page = _opened((tmp_path / "page.html").read_text())
    words = set(re.findall(r"[A-Za-z0-9]+", page))
    pieces = {piece for word in words for piece in (word, *re.findall(r"[A-Z]?[a-z]+", word))}
    assert not [secret for secret in (*secrets, "unbound") if secret in pieces]
    kept = {*json.loads((tmp_path / "page.key.json").read_text())["tokens"].values()}
    assert {secret for secret in secrets if secret in kept} > {*secrets[:1_000]} - {*secrets[:20]}
    assert share(path, tmp_path / "plain.html").replaced == {}
    plain = _opened((tmp_path / "plain.html").read_text())
    middle = len(secrets) // 2  # which the trace in the page has in any case
    assert sum(secret in plain for secret in secrets[middle : middle + 50]) > 40, "the check sees them"


SAME = (
    "kineto/one-step-of-training.pt.trace.json",
    "kineto/shapes-of-products-attention-copies.json",
    "kineto/phases-of-inference.pt.trace.json",
    "rpd/two-calls-a-kernel-never-run-and-nulls.rpd",
    "xplane/tpu-loop-sums-lines-backwards-since-1970.xplane.pb",
    "nsys/schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite",
    "doppler/prefill-and-three-decodes.log",
)


@pytest.mark.parametrize("name", SAME)
def test_figures_are_those_of_the_input(tmp_path: Path, name: str) -> None:
    """Every number of every table; text differs by the tokens alone."""

    def figures(redaction: Redaction | None) -> dict[str, list[str]]:
        batches = read_selected([str(SAMPLES / name)], Report(), Selection())
        if redaction:
            batches = redacted(batches, redaction, taxonomy(None))
        path = str(tmp_path / f"{redaction is None}.parquet")
        with writing_to(path, by_name("parquet", writes=True), None) as write:
            write(batches, Conversion(Report()))
        tables = ktrace.summary(path).tables(None, None)
        return {
            table.name: sorted(str([cell for cell in row if isinstance(cell, (int, float))]) for row in table.rows)
            for table in tables
        }

    plain = figures(None)
    assert len(plain) > 3
    assert figures(Redaction(KEY)) == plain


def test_rows_and_their_types_stay(tmp_path: Path) -> None:
    read = [*read_selected([str(SAMPLES / SAME[0])], Report(), Selection())]
    given = [*redacted(iter(read), Redaction(KEY), taxonomy(None))]
    assert [(batch.record, len(batch)) for batch in given] == [(batch.record, len(batch)) for batch in read]
    for before, after in zip(read, given, strict=True):
        for column in ("ts", "dur", "kind", "id"):
            if before.has(column):
                assert after.column(column).equals(before.column(column))
    scoped = pa.RecordBatch.from_pylist([{"source": "acme", "id": 0, "scope": ["falcon", "gemm"]}])
    (batch,) = redacted(
        [Batch("summaries", scoped.append_column("kind", pa.array(["op"])).append_column("name", pa.array(["x"])))],
        Redaction(KEY),
        taxonomy(None),
    )
    assert batch.column("scope").to_pylist()[0][1] == "gemm"
    assert "falcon" not in str(batch.columns.to_pylist())
