"""The public functions: NumPy-style docstrings, whose examples run."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import SAMPLES

import ktrace

#: The methods of `Trace` that do what a command does.
METHODS = ("write", "crop", "filter", "merge", "summary", "diff", "query", "classify")


def functions() -> Iterator[tuple[str, object]]:
    """The public functions, and the methods of `Trace` that do what a command does."""
    for name in ktrace.__all__:
        value = getattr(ktrace, name)
        if inspect.isfunction(value):
            yield name, value
    for name, method in vars(ktrace.Trace).items():
        if inspect.isfunction(method) and name in METHODS:
            yield f"Trace.{name}", method


FUNCTIONS = dict(functions())
EXAMPLES = FUNCTIONS | {name: getattr(ktrace, name) for name in ("Align", "Crop", "Filter", "Selection", "Trace")}


def test_the_functions_are_found() -> None:
    assert {"convert", "merge", "batch", "summary", "diff", "Trace.write"} <= FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_has_all_sections(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    sections = {line for line, rule in pairwise(text.splitlines()) if set(rule) == {"-"}}
    assert {"Raises", "Examples"} <= sections
    assert sections & {"Returns", "Yields"}
    parameters = [one for one in inspect.signature(FUNCTIONS[name]).parameters if one != "self"]  # type: ignore[arg-type]
    assert [one for one in parameters if one not in text] == []
    assert not parameters or "Parameters" in sections


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_a_docstring_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "samples").symlink_to(SAMPLES)
    monkeypatch.chdir(tmp_path)
    tests = doctest.DocTestFinder(recurse=False).find(EXAMPLES[name], name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    tried = sum(runner.run(test, out=said.append).attempted for test in tests)
    assert tried, f"{name} has no example"
    assert not said, "".join(said)
