"""What ktrace is built from: packages locked with their hashes, their licences, and what SECURITY.md promises."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from test_dependencies import requirements

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
SECURITY = (ROOT / "SECURITY.md").read_text("utf-8")

#: Licences of packages that users or developers install. ktrace copies no code of theirs; MPL-2.0 binds changes of the
#: package itself.
ALLOWED = {
    *("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MIT-0", "MPL-2.0"),
    *("PSF-2.0", "Zlib"),
}

#: Names of licences in metadata of before SPDX expressions -> SPDX.
SPELT = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "BSD License": "BSD",
    "BSD-3": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


def locked(path: Path) -> dict[str, list[tuple[str, list[str]]]]:
    """Package -> the versions in a lock file, each with its hashes."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for entry in re.split(r"\n(?=[\w.-]+(?:\[[\w,-]+\])?==)", path.read_text("utf-8"))[1:]:
        name, version = re.match(r"([\w.-]+)(?:\[[\w,-]+\])?==([^ \\;]+)", entry).groups()  # type: ignore[union-attr]
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})(?= |$)", entry, re.M)
        found.setdefault(canonicalize_name(name), []).append((version, hashes))
    return found


def test_all_that_setup_cfg_names_is_locked_in_a_version_that_it_allows() -> None:
    lock = locked(ROOT / "requirements/ci.txt")
    for extra in ("", "dev"):
        for name, bound in requirements()[extra].items():
            versions = [Version(version) for version, _ in lock[canonicalize_name(name)]]
            assert min(versions) >= Version(bound), name


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_locked_version_has_its_hashes(path: Path) -> None:
    lock = locked(path)
    assert len(lock) > 10
    assert len(re.findall(r"^[\w.-]+(?:\[[\w,-]+\])?==", path.read_text("utf-8"), re.M)) == sum(map(len, lock.values()))
    assert [name for name, several in lock.items() for _, hashes in several if not hashes] == []


def test_workflows_install_by_hashes_alone() -> None:
    script = (ROOT / ".ci/packages").read_text("utf-8")
    assert "--require-hashes" in script
    assert "PIP_NO_INDEX=1" in script
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        text = path.read_text("utf-8")
        installs = re.findall(r"pip install.*", text)
        assert [line for line in installs if "--require-hashes" not in line] == [], path.name
        if ".ci/run" in text:
            assert text.index(".ci/packages") < text.index("- run: .ci/run"), path.name


def closure(name: str, extras: frozenset[str], known: dict[str, importlib.metadata.Distribution]) -> None:
    """Adds a package and what it needs to the known ones, as far as it is installed."""
    key = canonicalize_name(name)
    if key in known:
        return
    try:
        known[key] = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:  # of another platform, or an extra that isn't installed
        return
    for line in known[key].requires or []:
        need = Requirement(line)
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            closure(need.name, frozenset(need.extras), known)


def licences(distribution: importlib.metadata.Distribution) -> set[str]:
    """The licences in the metadata of a package: of its SPDX expression, its classifiers, or its own words."""
    about = distribution.metadata
    if expression := about.get("License-Expression"):
        return set(re.split(r" AND | OR |[()]", expression)) - {""}
    words = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if line.startswith("License ::")]
    words = words or [(about.get("License") or "no licence").strip().split("\n")[0]]
    return {SPELT.get(word, word) for word in words}


@cache
def installed() -> dict[str, importlib.metadata.Distribution]:
    known: dict[str, importlib.metadata.Distribution] = {}
    closure("ktrace", frozenset(requirements()) - {""}, known)
    return known


def test_the_licences_of_all_dependencies_are_allowed() -> None:
    assert len(installed()) > 40
    other = {name: found for name, it in installed().items() if (found := licences(it)) - ALLOWED}
    assert other == {}


def test_a_licence_that_is_not_allowed_is_noticed(tmp_path: Path) -> None:
    for number, (lines, found) in enumerate(
        {
            "License-Expression: GPL-3.0-only OR MIT": {"GPL-3.0-only", "MIT"},
            "Classifier: License :: OSI Approved :: GNU Affero General Public License v3": {
                "GNU Affero General Public License v3"
            },
            "License: own words\n": {"own words"},
            "Summary: nothing said": {"no licence"},
        }.items()
    ):
        folder = tmp_path / f"p{number}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: p{number}\nVersion: 1\n{lines}\n")
        assert licences(importlib.metadata.PathDistribution(folder)) == found
        assert found - ALLOWED


def audit(tmp_path: Path, answer: str, error: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the audit with a pip-audit that gives this answer to each lock file."""
    package = tmp_path / "pip_audit"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(f"import sys\nprint({answer!r})\nprint({error!r}, file=sys.stderr)\n")
    command = [sys.executable, str(ROOT / ".ci/audit")]
    env = {"PYTHONPATH": str(tmp_path)}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("package", "code", "words"),
    [
        ({"vulns": []}, 0, "ci.txt: checked, 0 vulnerable"),
        ({"vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}, 1, "ci.txt: a 1: CVE-1, mended in 2"),
        ({"skip_reason": "not found"}, 2, "ci.txt: NOT CHECKED: 1, among them a"),
        (None, 2, "ci.txt: NOT CHECKED: 1, among them all: no network"),
    ],
)
def test_an_audit_without_an_answer_is_no_success(
    package: dict[str, object] | None, code: int, words: str, tmp_path: Path
) -> None:
    answer = json.dumps({"dependencies": [{"name": "a", "version": "1", **package}]}) if package else ""
    done = audit(tmp_path, answer, "no network")
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout


def promised() -> list[tuple[str, str]]:
    """(promise, test) of each row of the tables of SECURITY.md."""
    rows = re.findall(r"^\| (?!what is promised|---)(.+?) \| (.+) \|$", SECURITY, re.M)
    return [(promise, test) for promise, cell in rows for test in re.findall(r"`(tests/[^`]+)`", cell) or [""]]


def test_every_promise_names_a_test_that_there_is() -> None:
    assert len(promised()) > 20
    missing = []
    for promise, test in promised():
        file, _, name = test.partition("::")
        path = ROOT / file
        names = (
            {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)}
            if test and path.is_file()
            else set()
        )
        if name not in names:
            missing.append((promise, test))
    assert missing == []
