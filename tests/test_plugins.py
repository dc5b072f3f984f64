"""Formats of other packages: found by the entry point group `ktrace.formats`, used like ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import ROOT, SAMPLES
from fork_server import program

import ktrace.converters.kineto as ktrace_kineto_probe
import ktrace.input.format as formats
from ktrace import __version__
from ktrace.errors import KtraceError, StrictFailure
from ktrace.input.detection import detect
from ktrace.input.format import Format, Plugins, may_have_entry_points
from ktrace.pipeline.convert import convert
from ktrace.pipeline.info import inspect

PACKAGE = {
    "__init__.py": """
from ktrace.kit import Format

FORMAT = Format(
    "beeper",
    "Beeper log",
    ("*.beep",),
    probe="beeper_ktrace.probe:probe",
    read="beeper_ktrace.reader:read",
)
""",
    "probe.py": """
from ktrace.kit import Match, Score


def probe(sample):
    return Match(Score.DIALECT, "begins with BEEP") if sample.head.startswith(b"BEEP") else None
""",
    "reader.py": """
from ktrace.kit import RowBuilder


def read(source, conversion):
    rows = RowBuilder(conversion)
    with source.open() as stream:
        for line in stream:
            conversion.report.record()
            name, ts, dur = line.split()[1:]
            rows.event("kernel", name.decode(), ts=int(ts), dur=int(dur), x_beeps=3)
            conversion.report.used()
            yield from rows.ready()
    yield from rows.rest()
""",
}


def install(site: Path, modules: dict[str, str], *, name: str = "beeper", value: str = "") -> Path:
    """A package `<name>_ktrace` with an entry point, laid in the folder as pip lays it."""
    for module, text in modules.items():
        path = site / f"{name}_ktrace" / module
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("beeper", name))
    about = site / f"{name}_ktrace-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-ktrace\nVersion: 1.0\n")
    entry = value or f"{name}_ktrace:FORMAT"
    (about / "entry_points.txt").write_text(f"[ktrace.formats]\n{name} = {entry}\n")
    return site


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with a package that offers a format, as pip would lay it down."""
    return install(tmp_path / "site", PACKAGE)


def ktrace(site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [program(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_format_of_another_package_is_listed_found_and_read(installed: Path, tmp_path: Path) -> None:
    assert "beeper" in ktrace(installed, "formats").stdout
    log, out = tmp_path / "run.log", tmp_path / "run.jsonl"
    log.write_text("BEEP gemm 100 20\nBEEP norm 130 5\n")
    done = ktrace(installed, "convert", log, "-o", out)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    events = [(row["name"], row["ts"], row["dur"], row["x_beeps"]) for row in rows if row["record"] == "event"]
    assert events == [("gemm", 100, 20, 3), ("norm", 130, 5, 3)]
    assert ktrace(installed, "validate", out).returncode == 0
    assert ktrace(installed, "convert", log, "-o", tmp_path / "run.perfetto", "--from", "beeper").returncode == 0


RAISING = """
def probe(sample):
    raise ValueError("no digits here")
"""

#: What is broken -> the modules of the package, its entry point, what a user reads about it.
BROKEN = {
    "import error at load": (
        PACKAGE | {"__init__.py": "import nowhere_to_be_found\n"},
        "",
        "can't be loaded from broken-ktrace 1.0: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
    ),
    "error of another kind at load": (
        PACKAGE | {"__init__.py": "1 / 0\n"},
        "",
        "can't be loaded from broken-ktrace 1.0: ZeroDivisionError: division by zero",
    ),
    "no such object": (PACKAGE, "broken_ktrace:NOTHING", "can't be loaded from broken-ktrace 1.0: AttributeError"),
    "not a format": (
        PACKAGE | {"__init__.py": "FORMAT = {'name': 'broken'}\n"},
        "",
        "can't be loaded from broken-ktrace 1.0: TypeError: it is a dict, not a ktrace.kit.Format",
    ),
    "no such module": (
        PACKAGE | {"__init__.py": PACKAGE["__init__.py"].replace("beeper_ktrace.reader", "broken_elsewhere.reader")},
        "",
        "can't be loaded from broken-ktrace 1.0: ModuleNotFoundError: No module named 'broken_elsewhere'",
    ),
    "no reader": (
        {name: text for name, text in PACKAGE.items() if name != "reader.py"},
        "",
        "from broken-ktrace 1.0: ImportError: its read is broken_ktrace.reader:read, and there is no such module",
    ),
    "no probe": (
        {name: text for name, text in PACKAGE.items() if name != "probe.py"},
        "",
        "from broken-ktrace 1.0: ImportError: its probe is broken_ktrace.probe:probe, and there is no such module",
    ),
    "the name of another format": (
        PACKAGE | {"__init__.py": PACKAGE["__init__.py"].replace('    "beeper",', '    "doppler",')},
        "",
        "can't be loaded from broken-ktrace 1.0: ValueError: the name doppler belongs to another format",
    ),
    "the probe raises": (
        PACKAGE | {"probe.py": RAISING},
        "",
        "its probe, of broken-ktrace 1.0, raised ValueError: no digits",
    ),
    "the probe can't be imported": (
        PACKAGE | {"probe.py": "import nowhere_to_be_found\n"},
        "",
        "of broken-ktrace 1.0, raised KtraceError: broken_ktrace.probe:probe of the format broken can't be imported",
    ),
    "the probe returns something else": (
        PACKAGE | {"probe.py": "def probe(sample):\n    return True\n"},
        "",
        "its probe, of broken-ktrace 1.0, raised TypeError: the probe returned a bool, not a Match or None",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_package_is_named_and_the_others_go_on(installed: Path, tmp_path: Path, fault: str) -> None:
    modules, value, words = BROKEN[fault]
    install(installed, modules, name="broken", value=value)
    log, out, account = tmp_path / "run.log", tmp_path / "run.jsonl", tmp_path / "account.json"
    log.write_text("BEEP gemm 100 20\n")
    done = ktrace(installed, "convert", log, "-o", out, "--report", account)
    assert done.returncode == 0, done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert "broken-format (broken)" in warning
    assert words in warning
    assert '"gemm"' in out.read_text()
    [issue] = [issue for issue in json.loads(account.read_text())["issues"] if issue["kind"] == "broken-format"]
    assert issue["places"][0]["where"] == "broken"
    assert words in issue["places"][0]["detail"]

    info = ktrace(installed, "info", log)
    assert info.returncode == 0, info.stderr
    assert words in info.stderr
    strict = ktrace(installed, "convert", log, "-o", tmp_path / "strict.jsonl", "--strict")
    assert strict.returncode == 1
    assert words in strict.stderr
    assert "--from" in strict.stderr
    named = ktrace(installed, "convert", log, "-o", tmp_path / "strict.jsonl", "--strict", "--from", "beeper")
    assert named.returncode == 0, named.stderr
    assert "warning" not in named.stderr


@pytest.mark.parametrize("fault", ["import error at load", "the probe raises"])
def test_an_unknown_input_names_the_format_that_failed(installed: Path, tmp_path: Path, fault: str) -> None:
    modules, value, words = BROKEN[fault]
    install(installed, modules, name="broken", value=value)
    (tmp_path / "run.log").write_text("what is this\n")
    done = ktrace(installed, "convert", tmp_path / "run.log", "-o", tmp_path / "out.jsonl")
    assert done.returncode == 1
    assert "unrecognised format (a text that begins with 'what is this'); the format broken" in done.stderr
    assert "couldn't be probed: its p" in done.stderr
    assert words in done.stderr


def test_formats_that_cannot_be_loaded_are_left_out_of_the_list_with_a_warning(installed: Path, tmp_path: Path) -> None:
    modules, value, words = BROKEN["not a format"]
    install(installed, modules, name="broken", value=value)
    done = ktrace(installed, "formats")
    assert done.returncode == 0
    assert "beeper" in done.stdout
    assert "broken" not in done.stdout
    assert done.stderr.startswith("warning: the format broken was left out: ")
    assert words in done.stderr
    (tmp_path / "run.log").write_text("BEEP gemm 100 20\n")
    named = ktrace(installed, "convert", tmp_path / "run.log", "-o", tmp_path / "out.csv", "--from", "broken")
    assert named.returncode == 2
    assert words in named.stderr


def test_a_reader_that_cannot_be_imported_is_named_with_its_package(installed: Path, tmp_path: Path) -> None:
    (installed / "beeper_ktrace/reader.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "run.log").write_text("BEEP gemm 100 20\n")
    done = ktrace(installed, "convert", tmp_path / "run.log", "-o", tmp_path / "out.csv")
    assert done.returncode == 1
    assert "beeper_ktrace.reader:read of the format beeper can't be imported: ModuleNotFoundError" in done.stderr
    assert "update or uninstall beeper-ktrace 1.0" in done.stderr
    assert "fault of ktrace" not in done.stderr


def test_a_probe_of_ours_that_raises_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SAMPLES / "doppler/prefill-and-three-decodes.log"

    def probe(sample: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(ktrace_kineto_probe, "probe", probe)
    report = convert(log, tmp_path / "out.jsonl")
    assert report.inputs[0]["format"] == "doppler"
    [(where, detail)] = report.issues["broken-format"].places
    assert where == "kineto"
    assert detail == f"its probe, of ktrace {__version__}, raised IndexError: list index out of range"
    assert report.balanced()
    assert [match.format for match in detect(log) if match.failed] == ["kineto"]
    with pytest.raises(StrictFailure, match="the format kineto couldn't be probed"):
        convert(log, tmp_path / "strict.jsonl", strict=True)
    report = convert(log, tmp_path / "folder.jsonl", strict=True, from_="doppler")
    assert "broken-format" not in report.issues


#: Further faults of packages -> the modules that have them, and what is read about it. One run has all of them at once.
ALSO_BROKEN = {
    "leaving": (PACKAGE | {"__init__.py": "raise SystemExit(3)\n"}, "leaving-ktrace 1.0: SystemExit: 3"),
    "typed": (
        PACKAGE | {"__init__.py": PACKAGE["__init__.py"].replace('("*.beep",)', '"*.beep"')},
        "typed-ktrace 1.0: TypeError: its patterns is a str",
    ),
    "quitter": (
        PACKAGE | {"probe.py": "def probe(sample):\n    raise SystemExit('no')\n"},
        "its probe, of quitter-ktrace 1.0, raised SystemExit: no",
    ),
    "misspelt": (
        PACKAGE | {"__init__.py": PACKAGE["__init__.py"].replace("    read=", "    reed=")},
        "misspelt-ktrace 1.0: TypeError: Format.__init__() got an unexpected keyword argument 'reed'",
    ),
    "halved": (
        PACKAGE | {"__init__.py": PACKAGE["__init__.py"].replace("    probe=", "    about=")},
        "halved-ktrace 1.0: ValueError: it has 'read' without 'probe'",
    ),
    "twin": (
        PACKAGE | {"__init__.py": PACKAGE["__init__.py"].replace('    "beeper",', '    "beep" + "er",')},
        "twin-ktrace 1.0: ValueError: the name beeper belongs to another format",
    ),
}


def test_packages_that_exit_or_declare_nonsense_are_named_too(installed: Path, tmp_path: Path) -> None:
    for name, (modules, _) in ALSO_BROKEN.items():
        install(installed, modules, name=name)
    log, account = tmp_path / "run.log", tmp_path / "account.json"
    log.write_text("BEEP gemm 100 20\n")
    done = ktrace(installed, "convert", log, "-o", tmp_path / "run.jsonl", "--report", account)
    assert done.returncode == 0, done.stderr
    [issue] = [issue for issue in json.loads(account.read_text())["issues"] if issue["kind"] == "broken-format"]
    found = {place["where"]: place["detail"] for place in issue["places"]}
    assert found.keys() == ALSO_BROKEN.keys()
    for name, (_, words) in ALSO_BROKEN.items():
        assert words in found[name]


def test_formats_shows_where_each_comes_from(installed: Path) -> None:
    listed = json.loads(ktrace(installed, "formats", "--format", "json").stdout)["formats"]
    packages = {one["name"]: one["origin"] for one in listed}
    assert re.search(r"^beeper .* beeper-ktrace 1\.0 ", ktrace(installed, "formats").stdout, re.M)
    assert packages.pop("beeper") == "beeper-ktrace 1.0"
    assert len(packages) > 10
    assert set(packages.values()) == {f"ktrace {__version__}"}


#: Fault of a reader -> the module, and what is said about it.
READERS = {
    "raises": ("    raise ValueError('no digits')\n    yield\n", "raised ValueError: no digits"),
    "exits": ("    raise SystemExit(3)\n    yield\n", "raised SystemExit: 3"),
    "yields something else": ("    yield [1]\n", "raised TypeError: it yields a list, not a Batch"),
    "returns nothing": ("    return None\n", "raised TypeError: 'NoneType' object is not iterable"),
    "miscounts": (
        "    conversion.report.record(3)\n    conversion.report.used(1)\n    yield from ()\n",
        "counted 3 records, but accounted for 1",
    ),
}


def test_a_reader_that_fails_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: each fault is a format of its own, in a package that nothing else imports."""
    log = tmp_path / "run.log"
    log.write_text("BEEP gemm 100 20\n")
    for number, (body, words) in enumerate(READERS.values()):
        name = f"faulty{number}"
        install(tmp_path / "site", PACKAGE | {"reader.py": f"def read(source, conversion):\n{body}"}, name=name)
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        found = Format(
            name, name, probe=f"{name}_ktrace.probe:probe", read=f"{name}_ktrace.reader:read", package="p 1.0"
        )
        monkeypatch.setattr(formats, "plugins", lambda found=found: Plugins((found,), ()))
        with pytest.raises(KtraceError) as caught:
            convert(log, tmp_path / "out.jsonl", from_=name)
        assert f"{log}: the reader of the format {name}, of p 1.0, {words}" in str(caught.value)
        assert "report it to the authors" in str(caught.value)
        assert not (tmp_path / "out.jsonl").exists()


def test_info_goes_on_where_a_package_cannot_tell_about_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", PACKAGE | {"about.py": "def about(source):\n    return {}['x']\n"}, name="mute")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    functions = {"probe": "mute_ktrace.probe:probe", "read": "mute_ktrace.reader:read"}
    found = Format("mute", "Mute", about="mute_ktrace.about:about", package="p 1.0", **functions)  # type: ignore[arg-type]
    monkeypatch.setattr(formats, "plugins", lambda: Plugins((found,), ()))
    log = tmp_path / "run.log"
    log.write_text("BEEP gemm 100 20\n")
    info = inspect(log, from_="mute")
    assert info.about == {"about mute": ["its function about, of p 1.0, raised KeyError: 'x'"]}
    assert info.top() == [("gemm", 1, 20)]


#: A file that docs/plugins.md shows: its name in backticks, and the block below the text that begins with it.
SHOWN = re.compile(r"^`([\w./-]+)`[^`]*?:?\n(?:[^`]*\n)?\n?```\w*\n(.*?)^```", re.M | re.S)


def test_the_package_of_the_docs_is_built_installed_and_used(tmp_path: Path) -> None:
    page = (ROOT / "docs/plugins.md").read_text("utf-8")
    files = dict(SHOWN.findall(page))
    assert {Path(name).name for name in files} == {"run.beep", "pyproject.toml", "__init__.py"}
    for name, text in files.items():
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def pip(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path / "package", capture_output=True, text=True, check=False)

    isolation = ["--no-build-isolation", "--no-index"] if _builds_wheels() else []
    built = pip("wheel", "--no-deps", *isolation, "-w", tmp_path / "dist", ".")
    if built.returncode and "Could not find a version" in built.stderr:
        pytest.skip("setuptools is too old to build a wheel, and a newer one can't be fetched here")
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = (tmp_path / "dist").glob("*.whl")
    assert wheel.name in page
    installed = pip("install", "--no-deps", "--no-index", "--target", tmp_path / "site", wheel)
    assert installed.returncode == 0, installed.stderr

    listed = ktrace(tmp_path / "site", "formats")
    assert listed.stderr == ""
    assert re.search(r"^beeper +read +Beeper log +ktrace-beeper 0\.1 +\*\.beep$", listed.stdout, re.M)
    out = tmp_path / "run.jsonl"
    done = ktrace(tmp_path / "site", "convert", tmp_path / "package/run.beep", "-o", out)
    assert done.returncode == 0, done.stderr
    assert "read 4 records, wrote 2 rows, repaired 0, skipped 1" in done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    events = [(row["name"], row["ts"], row["dur"]) for row in rows if row["record"] == "event"]
    assert events == [("gemm_f16", 12500, 3250), ("softmax", 15750, 500)]

    sample = tmp_path / "package/samples/beeper/run.beep"
    sample.parent.mkdir(parents=True)
    sample.write_text(files["run.beep"], "utf-8")
    checked = ktrace(tmp_path / "site", "check-format", tmp_path / "package")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("  ok ") == 7


def test_the_package_of_the_docs_passes_mypy(tmp_path: Path) -> None:
    [(_, text)] = [one for one in SHOWN.findall((ROOT / "docs/plugins.md").read_text("utf-8")) if "__init__" in one[0]]
    for name, source in (("beeper.py", text), ("misspelt.py", text.replace("read=by_line", "reed=by_line"))):
        (tmp_path / name).write_text(source, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "beeper.py", "misspelt.py"]
    environment = os.environ | {"MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    problems = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(problems) == 1, done.stdout + done.stderr
    assert problems[0].startswith("misspelt.py:")
    assert 'Unexpected keyword argument "reed" for "Format"' in problems[0]


def _builds_wheels() -> bool:
    """Whether the installed setuptools builds wheels without a network."""
    try:
        from setuptools.command import bdist_wheel
    except ImportError:
        return find_spec("wheel") is not None
    return bool(bdist_wheel)


@pytest.mark.parametrize(
    ("folder", "text", "there"),
    [
        ("beeper-1.0.dist-info", "[ktrace.formats]\nbeeper = beeper:FORMAT\n", True),
        ("beeper.egg-info", "[console_scripts]\nx = y\n[ktrace.formats]\nbeeper = beeper:FORMAT\n", True),
        ("beeper-1.0.dist-info", "[console_scripts]\nbeeper = beeper:main\n", False),
        ("beeper-1.0-py3.11.egg", "", True),  # `importlib.metadata` knows what is in it
        ("beeper", "[ktrace.formats]\nbeeper = beeper:FORMAT\n", False),
    ],
)
def test_packages_are_searched_only_if_one_names_the_group(
    folder: str, text: str, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "missing")])
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    assert not may_have_entry_points()
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "entry_points.txt").write_text(text)
    assert may_have_entry_points() == there
    (tmp_path / "modules.zip").write_bytes(b"")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "modules.zip")])
    assert may_have_entry_points()
