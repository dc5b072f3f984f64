"""Odd arguments of the tools of `ktrace mcp`: every parameter of every tool gets every value of a list."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

from ktrace.analysis.answers.mcp.access import Access
from ktrace.analysis.answers.mcp.session import Session

pytest.importorskip("mcp", reason="the extra mcp isn't installed")
pytest.importorskip("duckdb", reason="duckdb isn't installed")

from ktrace.analysis.answers.mcp.answers import as_text
from ktrace.analysis.answers.mcp.server import answered
from ktrace.analysis.answers.mcp.tools import TOOLS

TEXTS = [
    *("", " ", "\0", "a\0b", "\n", "\r\n", "\x1b[2J", "\ud800", "a\udfff", "\U0010ffff", "e\u0301", "\u202e"),
    *("x" * 256, "x" * 5_000, "é" * 200, "a/" * 3_000, "/" + "x" * 300, "x" * 200_000, "." * 300 + ".parquet"),
    *("-", "-x.parquet", "--help", "--from=x", ".", "..", "~", "~root", "*", "**", "[", "[!", "?" * 300, "a**/b"),
    *("/", "//", "/dev/null", "/dev/stdin", "/proc/self/fd/0", "file:///etc/passwd", "http://[", "s3://", "a!b", "!"),
    *("%s", "{}", "$HOME", "t1 ", "T1", "NULL", "nan", "1e999", "q1:0", "q1:-1", "kernel:-1", "kernel:9e9", ":", "x:"),
    *("kernel:" + "9" * 5_000, "9999-12-31", "12026-01-01", "infinity", "con", "nul.csv", "a.parquet/", "\\\\host\\a"),
]
NUMBERS = [
    *(0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**19, 10**39, -(10**39), 10**400),
    *(1.0, 1.5, -0.0, 1e19, 1e308, math.nan, math.inf, -math.inf, 5e-324),
]


def nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


OTHERS = [True, False, None, [], [""], ["\ud800"], ["kernel"] * 2, ["kernel"] * 10_000, [None], [1], [[]], {}, {"a": 1}]
VALUES = [*TEXTS, *NUMBERS, *OTHERS, nested(300)]

#: What the other arguments are.
USUAL: dict[str, dict[str, Any]] = {
    **{name: {"handle": "t1"} for name in TOOLS},
    "open": {"path": "one.json"},
    "kernel": {"handle": "t1", "name": "gemm"},
    "window": {"handle": "t1", "begin_ns": 0, "end_ns": 10**15},
    "compare": {"a": "t1", "b": "t1"},
    "query": {"handle": "t1", "sql": "select 1 as one"},
    "export": {"handle": "t1", "name": "out.parquet"},
}

#: Values of a parameter in SQL, and SQL.
PARAMS = [
    *({"n": value} for value in VALUES),
    *({name: 1} for name in ("", " ", "\0", "\ud800", "n" * 5_000, "n n", "1", "$n")),
]
STATEMENTS = [*TEXTS, *(f"select '{text}'" for text in TEXTS), *(f"select {text}" for text in TEXTS)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("odd")
    for name in ("data", "out"):
        (folder / name).mkdir()
    sample = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
    (folder / "data/one.json").write_bytes(sample.read_bytes())
    with closing(Session(Access([folder / "data"], folder / "out"), 256 << 20)) as made:
        assert answered(made, "open", {"path": "one.json"})["handle"] == "t1"
        yield made


def odd(tool: str, name: str) -> list[Any]:
    if (tool, name) == ("query", "params"):
        return [*VALUES, *PARAMS]
    return [*VALUES, *STATEMENTS] if (tool, name) == ("query", "sql") else VALUES


@pytest.mark.parametrize(("tool", "name"), [(tool, name) for tool in TOOLS for name in TOOLS[tool].takes["properties"]])
def test_no_value_of_an_argument_is_an_internal_error(session: Session, tool: str, name: str) -> None:
    wrong = []
    for value in odd(tool, name):
        arguments = USUAL[tool] | {name: value}
        if name == "params":
            arguments["sql"] = "select $n as n"
        answer = answered(session, tool, arguments)
        text = as_text(answer).encode("utf-8")  # what is sent
        fault = json.loads(text).get("error")
        if fault and fault["kind"] not in ("usage", "input", "refused", "output", "unknown_format", "memory", "system"):
            wrong.append((str(value)[:60], fault))
    assert not wrong, json.dumps(wrong)[:2_000]
    assert answered(session, "query", {"handle": "t1", "sql": "select 1 as one"})["tables"][0]["rows"] == [[1]]
    assert [path.name for path in Path(session.access.export_to or "").iterdir() if path.name.startswith("-")] == []
