"""Paths to what the tests read: our samples, and the real files beside the project where they are there."""

from __future__ import annotations

import gc
import getpass
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import nightly
import pytest
from browser import chromium
from hypothesis import settings

# A busy machine makes one example take a second; what an example may cost is tested where it is the point.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")

# A thousand commands that tests run would each compile ktrace again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# What tests view isn't kept among what the user has viewed.
os.environ.setdefault("KTRACE_CACHE", str(Path(tempfile.gettempdir()) / f"ktrace-tests-{getpass.getuser()}"))
sys.dont_write_bytecode = False

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "samples"
#: The samples of formats, made for them; those in samples/real are `SHARED`.
MADE_SAMPLES = sorted(path for path in SAMPLES.glob("*/*") if path.parent.name != "real")
MADE_FOLDERS = sorted({path.parent.name for path in MADE_SAMPLES})
#: Real files: all that are at hand, else those of the repository.
SHARED = folder if (folder := ROOT.parent / "shared").is_dir() else SAMPLES / "real"


def pytest_configure(config: pytest.Config) -> None:
    nightly.selected = config.option.markexpr in ("", "nightly")
    native = ROOT / "ktrace/native"
    built = [path.stat().st_mtime for path in native.glob("compiled*.so")]
    if built and max(built) < max(path.stat().st_mtime for path in native.glob("*.[ch]")):
        pytest.exit("ktrace/native has changed since it was compiled: pip install -e '.[dev]'", returncode=4)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """One process more than there are cores: a quarter of the time of tests is waiting, for browsers and commands."""
    found = yield
    return found if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else found + 1


#: The file that is there while the first of several processes compiles what the others will read.
_COMPILING = pytest.StashKey[Path]()

#: Seconds that the others wait for it, at most.
_PATIENCE = 120


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Where no test is compiled yet, as in a fresh clone, the first process collects alone: else each compiles all."""
    if _COMPILING in node.config.stash:
        node.workerinput["compiling"] = str(node.config.stash[_COMPILING])
    elif not any((ROOT / "tests").rglob("test_*.pyc")):
        handle, name = tempfile.mkstemp(prefix="ktrace-compiling-")
        os.close(handle)
        node.config.stash[_COMPILING] = Path(name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    pytest_unconfigure(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    pytest_unconfigure(node.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if compiling := config.stash.get(_COMPILING, None):
        compiling.unlink(missing_ok=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    compiling, until = getattr(session.config, "workerinput", {}).get("compiling"), time.monotonic() + _PATIENCE
    while compiling and Path(compiling).exists() and time.monotonic() < until:
        time.sleep(0.05)


def seed_path(number: int) -> Path | None:
    """The real seed log of that number, None where it isn't at hand."""
    return next(iter(sorted((SHARED / "seeds").glob(f"{number:03}_*.txt"))), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of readers that fork come first: they fork no more once a test has left a thread in the process."""
    items.sort(key=lambda item: item.get_closest_marker("forks") is None)
    if importlib.util.find_spec("otf2") is None:
        reason = "otf2 isn't installed: it has wheels for Linux on x86 and Python up to 3.11"
        for item in items:
            if "otf2" in map(_format_of, getattr(item, "callspec", _NoCall).params.values()):
                item.add_marker(pytest.mark.skip(reason=reason))


class _NoCall:
    """What stands for the parameters of a test without any."""

    params: ClassVar[dict[str, Any]] = {}


def _format_of(value: object) -> object:
    """The format that a parameter of a test is about: its name, that of a sample's folder."""
    return value.parent.name if isinstance(value, Path) else value


def pytest_sessionstart() -> None:
    """Ten thousand tests aren't looked through for garbage again and again, neither while they are collected."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for the tests of a module."""
    with chromium() as found:
        yield found


@pytest.fixture
def seed() -> object:
    """`seed(0)` is the path of the real seed 000; the test is skipped where the seeds are not at hand."""

    def find(number: int) -> Path:
        path = seed_path(number)
        if path is None:
            pytest.skip("the real seed logs are not at hand (../shared/seeds)")
        return path

    return find
