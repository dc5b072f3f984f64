"""What references in an input may give is bounded: frames of stacks, texts by their numbers (limit `references`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bombs import BOMBS
from nightly import few

import ktrace
from ktrace.input.limits import References, in_force

#: Bombs whose texts are left out as arguments: they are never small.
LEFT_OUT = ("torch-memory-lists-of-lists",)
#: Those of which the tables alone would have been large.
TABLES = ("perfetto-numbers-far-apart",)
LIMITED = [name for name in BOMBS if name not in (*LEFT_OUT, *TABLES)]

MEASURE = """
import re, sys, ktrace
try:
    ktrace.convert(sys.argv[1], sys.argv[2], jobs=1)
except ktrace.DamagedInput as error:
    print(str(error).splitlines()[1])
print(int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) >> 10)
"""


@pytest.fixture(autouse=True)
def the_library(request: pytest.FixtureRequest) -> None:
    if "otf2" in request.node.name:
        pytest.importorskip("otf2", reason="otf2 isn't installed")
    if "perfetto" in request.node.name:
        pytest.importorskip("perfetto", reason="the package perfetto isn't installed")


@pytest.mark.parametrize("name", LIMITED)
def test_references_are_refused_at_the_limit_and_followed_above_it(tmp_path: Path, name: str) -> None:
    path, out = BOMBS[name](tmp_path, 6_000_000), tmp_path / "out.jsonl"
    with pytest.raises(ktrace.DamagedInput) as raised:
        ktrace.convert(path, out, limits="references=1MiB,ratio=1")
    said = str(raised.value)
    assert said.startswith(f"{path}: references in ") or f"{path}: " in said
    assert "(the limit 'references')" in said
    assert "--limits references=4MiB" in said
    assert not out.exists()
    assert ktrace.convert(path, out, limits="references=none").written


@pytest.mark.parametrize("name", LEFT_OUT + TABLES)
def test_what_is_no_argument_and_tables_by_numbers_stay_small(tmp_path: Path, name: str) -> None:
    path = BOMBS[name](tmp_path, 2_000_000_000)
    assert ktrace.convert(path, tmp_path / "out.jsonl").written
    assert (tmp_path / "out.jsonl").stat().st_size < 1_000_000


@pytest.mark.parametrize("ratio", [1, 3])
def test_a_large_input_may_give_more(ratio: int) -> None:
    with in_force(f"references=1KB,ratio={ratio}"):
        References("a", lambda: 1_000).give(ratio * 1_000)
        with pytest.raises(ktrace.DamagedInput, match="references in 1,000 bytes give"):
            References("a", lambda: 1_000).give(ratio * 1_000 + 1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("to", few(["jsonl", "perfetto", "parquet"], 1))
@pytest.mark.parametrize(
    "name", few(BOMBS, lambda name: name in ("xctrace-frames-of-frames", "chrome-long-frame", "parquet-dictionary"))
)
def test_memory_is_bounded_whatever_references_give(tmp_path: Path, name: str, to: str) -> None:
    """At the default limits, by inputs of up to 6 MB that would give 3 GB."""
    maker = f"import sys; sys.path[:0] = {sys.path!r}\nfrom pathlib import Path\nfrom bombs import BOMBS\n"
    maker += f"print(BOMBS[{name!r}](Path({str(tmp_path)!r}), 3_000_000_000))"
    path = subprocess.run([sys.executable, "-c", maker], capture_output=True, text=True, check=True).stdout.strip()
    arguments = [sys.executable, "-c", MEASURE, path, str(tmp_path / f"out.{to}")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) < 900, done.stdout
