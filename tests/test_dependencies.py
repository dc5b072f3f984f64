"""What ktrace depends on: lowest versions, extras and how a missing one is reported, docs/install.md."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from ktrace.errors import InputError, UsageError, import_extra

#: Extras for working on ktrace, not for using it.
OF_DEVELOPERS = {"dev", "docs"}

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
sys.argv = {arguments!r}
from ktrace.cli import main
main()
"""


def bounds(text: str) -> dict[str, str]:
    """Package -> lower bound, of the lines of a list of requirements."""
    return dict(re.findall(r"^([\w.-]+)(?:\[\w+\])?[>=]=([\w.]+)(?:;.*)?$", text.replace(" ", ""), re.M))


def requirements() -> dict[str, dict[str, str]]:
    """Extra -> package -> lower bound; "" for what is always installed."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    extras = {extra: bounds(text) for extra, text in config["options.extras_require"].items()}
    return {"": bounds(config["options"]["install_requires"]), **extras}


def of_users() -> dict[str, str]:
    return {
        name: bound
        for extra, packages in requirements().items()
        if extra not in OF_DEVELOPERS
        for name, bound in packages.items()
    }


def numbers(version: str) -> list[int]:
    found = [int(number) for number in version.split(".")]
    return found + [0] * (4 - len(found))


def ktrace(*arguments: str | Path, blocked: set[str]) -> subprocess.CompletedProcess[str]:
    code = BLOCKED.format(blocked=blocked, arguments=["ktrace", *map(str, arguments)])
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_lowest_versions_are_those_of_setup_cfg() -> None:
    pinned = bounds((ROOT / "requirements-lowest.txt").read_text("utf-8"))
    assert len(pinned) > 10
    del pinned["distributed"]  # of dask's extra: what is pinned is a list of constraints, which have no extras
    assert pinned.keys() == of_users().keys()
    assert {name: numbers(version) for name, version in pinned.items()} == {
        name: numbers(bound) for name, bound in of_users().items()
    }


def test_developers_get_all_extras_of_the_same_versions() -> None:
    found = requirements()
    dev = found["dev"]
    extras = {
        name: bound for extra, packages in found.items() if extra not in {"", "dev"} for name, bound in packages.items()
    }
    del extras["fsspec"]  # comes with s3fs, in the version that it needs
    assert extras.items() <= dev.items()


def test_the_page_on_installing_lists_every_dependency_with_its_bound() -> None:
    page = (ROOT / "docs/install.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([\w.-]+) \|.*\| ([\d.]+):? ?[^|]*\|$", page, re.M))
    assert rows == of_users()


def test_extras_that_the_code_asks_for_exist() -> None:
    calls = set()
    for folder in ("ktrace", "converters"):
        for path in (ROOT / folder).rglob("*.py"):
            calls |= set(re.findall(r'import_extra\(\s*"(\w+)", "(\w+)"', path.read_text("utf-8")))
    assert {("h5py", "hdf5"), ("distributed", "dask"), ("fsspec", "remote")} <= calls
    assert {extra for _, extra in calls} <= requirements().keys()


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(InputError) as caught:
        import_extra("no_such_package", "hdf5", "reading HDF5", path="run.h5")
    assert str(caught.value) == 'run.h5: reading HDF5 needs no_such_package\n  hint: pip install "ktrace[hdf5]"'
    with pytest.raises(UsageError, match="--dask needs no_such_package"):
        import_extra("no_such_package", "dask", "--dask", error=UsageError)
    assert import_extra("json", "hdf5", "reading").loads("1") == 1


def test_validate_finds_the_same_without_its_extra(tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    assert (
        ktrace("convert", "samples/mlc/two-dialects-and-a-peak-that-disagrees.md", "-o", good, blocked=set()).returncode
        == 0
    )
    bad = tmp_path / "bad.jsonl"
    bad.write_text(re.sub(r'"id":(\d+)', r'"id":"\1"', good.read_text("utf-8"), count=1), "utf-8")
    for path, code in ((good, 0), (bad, 1)):
        fast, slow = (ktrace("validate", path, blocked=blocked) for blocked in (set(), {"jsonschema_rs"}))
        assert (fast.returncode, slow.returncode) == (code, code)
        assert fast.stdout == slow.stdout


def test_tables_are_the_same_without_rich(tmp_path: Path) -> None:
    log = tmp_path / "行列.md"
    log.write_text(
        "| kernel | time (us) | calls |\n|---|---|---|\n| 行列の積 | 5.0 | 2 |\n| norm | 1.0 | 2 |\n", "utf-8"
    )
    arguments = ("summary", log, "--by", "kernel", "--from", "table")
    with_rich, without = (ktrace(*arguments, blocked=blocked) for blocked in (set(), {"rich"}))
    assert "行列の積" in with_rich.stdout
    assert with_rich.stdout == without.stdout
