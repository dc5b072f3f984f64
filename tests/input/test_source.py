"""Input: compression is seen through by what is in the file, damage is told, what can't be opened is explained."""

from __future__ import annotations

import gc
import gzip
import io
import os
import random
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from ktrace.errors import DamagedInput, InputError
from ktrace.input.compression import text_encoding
from ktrace.input.source import HEAD, TAIL, Source, stem

TEXT = b"".join(b"line %d\n" % number for number in range(5000))


def zstd(data: bytes) -> bytes:
    compressed: bytes = pa.compress(data, "zstd", asbytes=True)
    # pyarrow's one-shot frame is read back as a stream.
    return compressed


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w:") -> bytes:
    """A tar archive with a folder, a link and these files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, kind in (("run", tarfile.DIRTYPE), ("run/link.log", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("a.log", TEXT),
        ("a.tar", tarred({"run/a.log": TEXT, "run/._a.log": b"x"})),
        ("a.tar.gz", tarred({"run/a.log": TEXT}, "w:gz")),
        ("a.tgz", gzip.compress(tarred({"a.log": TEXT}))),
        ("a.tar.zst", zstd(tarred({"a.log": TEXT}))),
        ("a.log", tarred({"a.log": TEXT})),
        ("a.log.gz", gzip.compress(TEXT)),
        ("a.gz", gzip.compress(TEXT[:999]) + b"\0\0" + gzip.compress(b"") + gzip.compress(TEXT[999:]) + b"\0" * 512),
        ("a.zip", zipped({"folder/": b"", "folder/a.log": TEXT, "__MACOSX/a": b"x"})),
        ("a.log", zipped({"a.log": TEXT}, zipfile.ZIP_STORED)),
        ("a.log", gzip.compress(TEXT)),
        ("a.gz", TEXT),
        ("a.zst", zstd(TEXT)),
    ],
    ids=[
        "plain",
        "tar",
        "tar and gzip",
        "tar and gzip, tgz",
        "tar and zstd",
        "tar without the suffix",
        "gzip",
        "gzip in parts",
        "zip",
        "zip without the suffix",
        "gzip without the suffix",
        "suffix without gzip",
        "zstd",
    ],
)
def test_the_bytes_are_those_that_were_stored(tmp_path: Path, name: str, stored: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(stored)
    source = Source(str(path))
    with source.open() as stream:
        assert stream.read() == TEXT
    assert source.sample().head == TEXT
    assert source.sample().whole


def test_a_file_of_several_in_a_tar_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.tar.gz"
    path.write_bytes(gzip.compress(tarred({"run/a.log": b"a", "run/b.log": TEXT})))
    with Source(f"{path}!run/b.log").open() as stream:
        assert stream.read() == TEXT
    for named in (str(path), f"{path}!run/c.log"):
        with pytest.raises(InputError, match=r"run/a\.log, run/b\.log") as raised:
            Source(named).open()
        assert "runs.tar.gz!run/a.log" in raised.value.remedy


def test_a_cut_tar_archive_is_read_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tarred({"a.log": b"line\n" * 20_000})[:60_000])
    cuts: list[str] = []
    with Source(str(path), on_cut=lambda place, _: cuts.append(place)).open() as stream:
        data = stream.read()
    assert len(data) > 40_000
    assert data == (b"line\n" * 20_000)[: len(data)]
    assert cuts


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_what_is_no_file_in_a_tar_archive_is_never_opened(tmp_path: Path, kind: bytes) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:") as archive:
        info = tarfile.TarInfo("a.log")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    (tmp_path / "a.tar").write_bytes(made.getvalue())
    with pytest.raises(InputError, match="is an empty archive"):
        Source(str(tmp_path / "a.tar")).open()


def test_a_sample_of_a_long_file_has_a_head_and_a_tail(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"h" * HEAD + b"m" * 100 + b"t" * TAIL)
    sample = Source(str(path)).sample()
    assert (sample.head, sample.tail, sample.whole) == (b"h" * HEAD, b"t" * TAIL, False)


def test_the_last_line_of_a_cut_sample_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_bytes(b"first\n" + b"x" * HEAD)
    assert Source(str(path)).sample().lines == ["first"]


@pytest.mark.parametrize("keep", [20, 2000, 8000])
def test_compressed_data_that_breaks_off_ends_there_and_is_told(tmp_path: Path, keep: int) -> None:
    stored = gzip.compress(os.urandom(50_000))
    path = tmp_path / "cut.gz"
    path.write_bytes(stored[:keep])
    told: list[str] = []
    source = Source(str(path), on_cut=lambda where, why: told.append(where))
    with source.open() as stream:
        data = stream.read()
    assert gzip.decompress(stored).startswith(data)
    assert told == [f"byte {len(data)} of the decompressed data"]


@pytest.mark.parametrize("keep", [1000, 20_000, 100_000, -4])
def test_nearly_all_of_a_cut_gzip_is_read(tmp_path: Path, keep: int) -> None:
    chance = random.Random(keep)
    text = b"".join(b"line %d\n" % chance.randrange(10**9) for _ in range(50_000))
    stored = gzip.compress(text)[:keep]
    (tmp_path / "cut.gz").write_bytes(stored)
    told: list[str] = []
    with Source(str(tmp_path / "cut.gz"), on_cut=lambda where, why: told.append(why)).open() as stream:
        data = stream.read()
    there = zlib.decompressobj(31).decompress(stored)
    assert text.startswith(data)
    assert len(there) - len(data) <= 1, "one byte at most stays behind in ISA-L"
    assert told == ["Compressed file ended before the end-of-stream marker was reached"]


def test_gzip_that_is_damaged_in_the_middle_is_told(tmp_path: Path) -> None:
    stored = bytearray(gzip.compress(random.Random(1).randbytes(400_000)))
    stored[300_000] ^= 255
    (tmp_path / "bad.gz").write_bytes(bytes(stored) + b"and what is no gzip")
    told: list[str] = []
    with Source(str(tmp_path / "bad.gz"), on_cut=lambda where, why: told.append(where)).open() as stream:
        data = stream.read()
    assert len(data) > 250_000
    assert told == [f"byte {len(data)} of the decompressed data"]


def test_an_archive_of_several_files_names_them(tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    path.write_bytes(zipped({"r0/a.json": b"{}", "r1/b.json": b"[1]"}))
    with pytest.raises(InputError, match=r"contains 2 files: r0/a.json, r1/b.json") as caught:
        Source(str(path)).sample()
    assert f"{path}!r0/a.json" in (caught.value.remedy or "")
    source = Source(f"{path}!r1/b.json")
    sample = source.sample()
    assert (source.label, source.name, sample.name, sample.head) == ("b", "b.json", "b.json", b"[1]")
    with source.local_path() as copy:
        assert (copy.name, copy.read_bytes()) == ("b.json", b"[1]")
    with pytest.raises(InputError, match=r"there is no c.json in it"):
        Source(f"{path}!c.json").open()
    (tmp_path / "none.zip").write_bytes(b"PK\x03\x04" + b"\0" * 100)
    with pytest.raises(DamagedInput, match="zip archive is damaged"):
        Source(str(tmp_path / "none.zip")).open()


def test_the_name_in_an_archive_is_what_probes_see(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped({"in/trace.json": b"{}"}))
    source = Source(str(tmp_path / "x.zip"))
    assert (source.sample().name, source.label) == ("trace.json", "x")


def test_a_zip_that_is_damaged_inside_is_told(tmp_path: Path) -> None:
    stored = bytearray(zipped({"a": random.Random(2).randbytes(300_000)}, zipfile.ZIP_STORED))
    stored[200_000] ^= 255
    (tmp_path / "a.zip").write_bytes(stored)
    told: list[str] = []
    with Source(str(tmp_path / "a.zip"), on_cut=lambda where, why: told.append(why)).open() as stream:
        stream.read()
    assert told == ["Bad CRC-32 for file 'a'"]


def test_compressed_data_that_is_damaged_from_the_start_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "bad.gz"
    path.write_bytes(b"\x1f\x8b" + b"\xff" * 100)
    with pytest.raises(DamagedInput, match="compressed data is damaged"), Source(str(path)).open() as stream:
        stream.read()


def test_a_copy_goes_away_with_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, temporary = tmp_path / "run.rpd.gz", tmp_path / "temporary"
    stored.write_bytes(gzip.compress(b"SQLite format 3"))
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    source = Source(str(stored))
    with source.local_path() as path, source.local_path() as again:
        assert path == again
        assert path.name == "run.rpd"
        assert path.read_bytes() == b"SQLite format 3"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        del source
        gc.collect()
    assert not [one for one in said if str(temporary) in str(one.message)]
    assert not list(temporary.iterdir())


def test_progress_counts_the_stored_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT))
    taken: list[int] = []
    with Source(str(path), progress=taken.append).open() as stream:
        stream.read()
    # The head is looked at before it is read.
    assert path.stat().st_size <= sum(taken) <= 2 * path.stat().st_size


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "is a folder"),
    ],
    ids=["missing", "folder"],
)
def test_what_cannot_be_opened_is_explained(tmp_path: Path, make: object, message: str) -> None:
    path = tmp_path / "in"
    make(path)  # type: ignore[operator]
    with pytest.raises(InputError, match=message) as caught:
        Source(str(path)).open()
    assert caught.value.path == str(path)
    assert caught.value.remedy


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(InputError, match="no permission"):
        Source(str(path)).open()


@pytest.mark.parametrize(
    ("path", "label"),
    [("a/run.log", "run"), ("run.trace.json.gz", "run.trace"), ("-", "stdin"), ("dir/", "dir"), (".hidden", ".hidden")],
)
def test_a_label_is_the_stem(path: str, label: str) -> None:
    assert stem(path) == label


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("grüße\n".encode(), "utf-8"),
        ("grüße\n".encode("utf-16"), "utf-16"),
        (b"\xef\xbb\xbfwith a mark", "utf-8"),
        (b"SQLite format 3\0", None),
        (bytes(range(1, 32)) * 9, None),
    ],
)
def test_text_is_told_from_binary(head: bytes, encoding: str | None) -> None:
    assert text_encoding(head) == encoding
