"""The public surface: what `import ktrace` offers, lazily, and what the README's Python says."""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SAMPLES

import ktrace

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def test_every_public_name_is_there() -> None:
    for name in ktrace.__all__:
        assert getattr(ktrace, name) is not None
    assert set(ktrace.__all__) <= set(dir(ktrace))


def test_dir_is_the_interface_alone() -> None:
    assert dir(ktrace) == sorted([*ktrace.__all__, "__version__"])


def test_a_public_name_has_one_home_for_readers_and_for_type_checkers() -> None:
    block = next(
        node
        for node in ast.parse(Path(ktrace.__file__).read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    homes = {(name.asname or name.name): (node.module, name.name) for node in imports for name in node.names}
    assert len(homes) == len(ktrace.__all__)
    for name, place in ktrace._HOME.items():
        module, _, attribute = place.partition(":")
        assert homes[name] == (module, attribute or name)


def test_reprs_are_one_line() -> None:
    assert repr(ktrace.inspect(STEP)) == f"<Info {STEP}: kineto; 27 op, 16 api, 14 kernel, 6 range, 1.005 ms>"
    report = ktrace.read(STEP).report
    assert repr(report).startswith("<Report: read 113 records, gave 75 rows")


def test_a_cell_of_a_notebook_runs_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "step.csv"
    ktrace.convert(STEP, out)
    with pytest.raises(ktrace.OutputError, match="overwrite=True"):
        ktrace.convert(STEP, out)
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    ktrace.convert(STEP, out)
    ktrace.read(STEP).write(out)
    with pytest.raises(ktrace.OutputError):
        ktrace.convert(STEP, out, overwrite=False)


def test_importing_ktrace_imports_nothing_heavy() -> None:
    code = "import sys, ktrace; print([m for m in ('pyarrow', 'pandas', 'numpy', 'click', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_error_is_a_ktrace_error() -> None:
    errors = [getattr(ktrace, name) for name in ktrace.__all__ if isinstance(getattr(ktrace, name), type)]
    errors = [error for error in errors if issubclass(error, Exception)]
    assert len(errors) == 11
    assert all(issubclass(error, ktrace.KtraceError) for error in errors)
