"""Closed formats: recognised, refused, and the vendor's command named."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import MADE_SAMPLES

from ktrace.converters.closed import probe
from ktrace.errors import ClosedFormat, UnknownFormat
from ktrace.input.detection import choose
from ktrace.input.format import Score
from ktrace.input.source import Sample, Source
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

TEGRA = b"NVIDIA Tegra Profiler Report 1.\x00\x08\x01"


@pytest.mark.parametrize(
    ("name", "head", "command"),
    [
        ("run.nsys-rep", TEGRA, "nsys export --type sqlite --lazy=false -o run.sqlite run.nsys-rep"),
        ("run.qdrep", TEGRA, "nsys export --type sqlite --lazy=false -o run.sqlite run.qdrep"),
        ("renamed.bin", TEGRA, "nsys export --type sqlite --lazy=false -o renamed.sqlite renamed.bin"),
        ("k.ncu-repz", b"\0\1", "ncu --import k.ncu-repz --csv --page raw"),
        ("a.qdstrm", b"\0\1", "QdstrmImporter -i a.qdstrm"),
        ("a.trace", b"\0\1\2", "xcrun xctrace export --input a.trace --output a.xml --xpath"),
        ("a.gputrace", b"\0\1\2", "xcrun xctrace record --template 'Metal System Trace'"),
    ],
)
def test_the_remedy_is_the_vendors_command(
    tmp_path: Path, name: str, head: bytes, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTRACE_NSYS", "")
    path = tmp_path / name
    path.write_bytes(head * 20)
    with pytest.raises(ClosedFormat) as caught:
        list(read_batches([str(path)], Report()))
    assert caught.value.path == str(path)
    assert command in str(caught.value.remedy)


@pytest.mark.parametrize("name", ["run.trace", "run.gputrace"])
def test_bundles_are_folders(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir()
    (path / "form.template").write_bytes(b"bplist00")
    with pytest.raises(ClosedFormat, match="xcrun xctrace"):
        list(read_batches([str(path)], Report()))


@pytest.mark.parametrize(
    "sample",
    [
        Sample("a.trace", b'{"traceEvents": []}'),
        Sample("a.json", b"[]"),
        Sample("a.ncu-rep", b"NVR\0\x01"),
        Sample("notes.txt", b"see the NVIDIA Tegra Profiler Report"),
        Sample("folder", listing=("events.parquet",)),
    ],
)
def test_other_files_are_left_alone(sample: Sample) -> None:
    assert probe(sample) is None


def test_it_is_sure() -> None:
    match = probe(Sample("x.ncu-repz", b"anything"))
    assert match
    assert match.score == Score.MAGIC


def test_who_insists_is_told_the_same(tmp_path: Path) -> None:
    path = tmp_path / "run.ncu-repz"
    path.write_bytes(b"\0\1")
    with pytest.raises(ClosedFormat, match="ncu --import"):
        list(read_batches([str(path)], Report(), format="closed"))
    path = tmp_path / "plain.txt"
    path.write_text("text", "utf-8")
    with pytest.raises(ClosedFormat, match="leave out --from"):
        list(read_batches([str(path)], Report(), format="closed"))


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("vtune: Executing actions 75 %\nFunction;CPU Time\nk;0.5\n", "VTune"),
        ("\x80\x04\x95abcdefgh}", "a pickle of Python"),
        ("B00P\0\0", "Radeon"),
        ("PERFILE2\0", "perf"),
        ("go 1.22 trace\0\0\0", "Go"),
        ("<!DOCTYPE html>\n<title>Dask Performance Report</title>", "Dask"),
        ("\n\x051.0.2\x10\0", "Paddle"),
    ],
)
def test_tools_that_are_not_read_yet_are_known_by_content(tmp_path: Path, text: str, tool: str) -> None:
    path = tmp_path / "some.txt"
    path.write_bytes(text.encode("latin-1"))
    match = probe(Source(str(path)).sample())
    assert match and match.score == Score.NEAR and tool in match.reason and match.remedy
    if tool != "VTune":  # others may claim these
        with pytest.raises(UnknownFormat, match="which ktrace can't read yet") as caught:
            choose(Source(str(path)))
        assert caught.value.remedy == match.remedy and "some.txt" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "head", "command"),
    [
        ("mlp.ntff", b"\0\1\xff", "neuron-explorer view -n kernel.neff"),
        ("run.tracy", b"\0\1\xff", "tracy-csvexport -u"),
        ("perf.data", b"PERFILE2\0\xff", "stackcollapse-perf.pl"),
        ("run.etdp", b"\x1c\0\0\0ED00\xff", "Inspector('run.etdp')"),
    ],
)
def test_what_a_tool_exports_for_a_format_that_is_read_is_named(name: str, head: bytes, command: str) -> None:
    match = probe(Sample(name, head * 20))
    assert match
    assert command in str(match.remedy)


def test_what_is_read_is_none_of_them() -> None:
    for path in MADE_SAMPLES:
        if path.is_file():
            assert probe(Source(str(path)).sample()) is None, path
