"""The public surface: what `import ktrace` offers, lazily, and what the README's Python says."""

from __future__ import annotations

import subprocess
import sys

import ktrace


def test_every_public_name_is_there() -> None:
    for name in ktrace.__all__:
        assert getattr(ktrace, name) is not None
    assert set(ktrace.__all__) <= set(dir(ktrace))


def test_importing_ktrace_imports_nothing_heavy() -> None:
    code = "import sys, ktrace; print([m for m in ('pyarrow', 'pandas', 'numpy', 'click', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_error_is_a_ktrace_error() -> None:
    errors = [getattr(ktrace, name) for name in ktrace.__all__ if isinstance(getattr(ktrace, name), type)]
    errors = [error for error in errors if issubclass(error, Exception)]
    assert len(errors) == 11
    assert all(issubclass(error, ktrace.KtraceError) for error in errors)
