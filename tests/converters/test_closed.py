"""Closed formats: recognised, refused, and the vendor's command named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrace.converters.closed.probe import probe
from ktrace.errors import ClosedFormat
from ktrace.format import Score
from ktrace.reading import read_batches
from ktrace.report import Report
from ktrace.source import Sample

TEGRA = b"NVIDIA Tegra Profiler Report 1.\x00\x08\x01"


@pytest.mark.parametrize(
    ("name", "head", "command"),
    [
        ("run.nsys-rep", TEGRA, "nsys export --type sqlite --lazy=false -o run.sqlite run.nsys-rep"),
        ("run.qdrep", TEGRA, "nsys export --type sqlite --lazy=false -o run.sqlite run.qdrep"),
        ("renamed.bin", TEGRA, "nsys export --type sqlite --lazy=false -o renamed.sqlite renamed.bin"),
        ("k.ncu-repz", b"\0\1", "ncu --import k.ncu-repz --csv --page raw"),
        ("a.qdstrm", b"\0\1", "QdstrmImporter -i a.qdstrm"),
        ("a.trace", b"\0\1\2", "xcrun xctrace export --input a.trace --xpath"),
        ("a.gputrace", b"\0\1\2", "xcrun xctrace record"),
    ],
)
def test_the_remedy_is_the_vendors_command(tmp_path: Path, name: str, head: bytes, command: str) -> None:
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
    with pytest.raises(ClosedFormat, match="xctrace export"):
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
    match = probe(Sample("x.nsys-rep", b"anything"))
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
