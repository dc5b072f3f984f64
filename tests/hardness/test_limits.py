"""No small file fills the memory or the disk: each limit is said in the error, and changed by its option."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sqlite3
import subprocess
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from fork_server import program

import ktrace
from ktrace.converters.perfetto.wire import bytes_field, varint
from ktrace.input.limits import DEFAULT, NONE, Limits, current, in_force, limits_of

MIB = 1 << 20
LONG = b"a" * (3 * MIB)

EVENT = b'{"ph":"X","name":"%s","pid":1,"tid":1,"ts":1,"dur":2}'
KINETO = b'{"schemaVersion":1,"traceEvents":[%s]}'

#: Name -> a file with one line of 3 MiB.
LINES = {
    "run.md": b"| name | time (us) |\n|---|---|\n| k | 1 |\n| %s | 2 |\n" % LONG,
    "run.jsonl": b'{"ktrace":"1.0"}\n{"record":"event","source":"a","id":1,"kind":"range",'
    b'"name":"%s","ts":1,"timing":"measured"}\n' % LONG,
    "run.log": b"[browser:info] start\n%s\n" % LONG,
    "utf16.md": f"\ufeff| name | time (us) |\n|---|---|\n| k | 1 |\n| {LONG.decode()} | 2 |\n".encode("utf-16-le"),
}


def run_ktrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program(), *arguments], capture_output=True, text=True, check=False)


def refused(path: Path, limit: str, **options: object) -> str:
    """The error of a conversion, which names the file, the limit and its option, and leaves no output."""
    out = path.with_name("out.csv")
    with pytest.raises(ktrace.DamagedInput) as raised:
        ktrace.convert(path, out, **options)  # type: ignore[arg-type]
    said = str(raised.value)
    assert said.startswith(f"{path}: ")
    assert f"the limit '{limit}'" in said
    assert f"--limits {limit}=" in said
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    return said


def packed(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data))
    return path


@pytest.mark.parametrize("name", LINES)
def test_a_long_line_is_refused_at_the_limit_and_read_above_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(LINES[name])
    from_ = "doppler" if name == "run.log" else None
    said = refused(path, "line", limits="line=2MiB", from_=from_)
    assert re.search(r"line \d: the line has more than 2 MiB", said), said
    if name != "run.log":
        assert ktrace.convert(path, tmp_path / "out.csv", limits="line=8MiB").written >= 1


def test_a_long_row_of_csv_is_refused_at_the_limit_and_read_above_it(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    mapping = "name=Kernel,start=t0:us,dur=dt:us"
    path.write_bytes(b"Kernel,t0,dt\na,1,2\n%s,3,4\n" % (LONG * 2))
    assert "line 3: " in refused(path, "line", limits="line=2MiB", map=mapping)
    assert ktrace.convert(path, tmp_path / "out.csv", limits="line=16MiB", map=mapping).written == 2


def test_a_row_of_a_canonical_csv_may_be_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"record,source,id,kind,name,ts,timing\nevent,a,1,range,%s,1,measured\n" % (LONG * 12))
    refused(path, "line", limits="line=17MiB")
    assert ktrace.convert(path, tmp_path / "out.parquet").written == 1


def test_a_long_text_in_a_json_ends_at_the_limit_of_a_value(tmp_path: Path) -> None:
    path = tmp_path / "run.pt.trace.json"
    path.write_bytes(KINETO % (EVENT % b"a" + b"," + EVENT % (LONG * 2)))
    said = refused(path, "value", limits="value=3MiB")
    assert re.search(r"byte \d+: a value or text that begins here doesn't end within", said), said
    report = ktrace.convert(path, tmp_path / "out.jsonl", limits="value=16MiB")
    assert (report.written, report.issues) == (2, {})


def test_a_text_that_never_ends_in_a_gzip_ends_at_the_ratio(tmp_path: Path) -> None:
    path = packed(tmp_path / "run.pt.trace.json.gz", KINETO % (EVENT % (b"a" * (20 * MIB))))
    said = refused(path, "ratio", limits="unpacked=4MiB")
    assert re.search(r"KiB of compressed data give [4-9][.\d]* MiB and more, \d{3} times as much|times as much", said)
    assert ktrace.convert(path, tmp_path / "out.jsonl", limits="unpacked=32MiB").written == 1
    (tmp_path / "out.jsonl").unlink()
    assert ktrace.convert(path, tmp_path / "out.jsonl", limits="unpacked=4MiB,ratio=none").written == 1


def zstd(path: Path, data: bytes) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(data)


def zipped(path: Path, data: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.pt.trace.json", data)


def gzipped(path: Path, data: bytes) -> None:
    packed(path, data)


@pytest.mark.parametrize(("name", "pack"), [("a.json.gz", gzipped), ("a.json.zst", zstd), ("a.zip", zipped)])
def test_the_ratio_holds_for_every_compression_and_honest_ones_pass(
    tmp_path: Path, name: str, pack: Callable[[Path, bytes], None]
) -> None:
    path = tmp_path / name
    pack(path, KINETO % b",".join([EVENT % b"a"] * 100_000))
    refused(path, "ratio", limits="unpacked=1MiB,ratio=20")
    assert ktrace.convert(path, tmp_path / "out.jsonl", limits="ratio=20").written == 100_000, "below 256 MiB"
    (tmp_path / "out.jsonl").unlink()
    pack(path, KINETO % b",".join(EVENT % str(number * 7919 % 65_537).encode() for number in range(40_000)))
    assert ktrace.convert(path, tmp_path / "out.jsonl", limits="unpacked=1MiB,ratio=60").written == 40_000


def nested(packets: bytes, levels: int = 1) -> bytes:
    """A packet with these packets compressed in it."""
    for _ in range(levels):
        packets = bytes_field(1, bytes_field(50, zlib.compress(packets, 9)))
    return packets


SLICES = bytes_field(1, bytes_field(60, bytes_field(2, b"thread") + b"\x08\x01")) + b"".join(
    bytes_field(1, b"\x40" + varint(ts) + bytes_field(11, b"\x48" + varint(kind) + b"\x58\x01" + bytes_field(23, b"k")))
    for ts, kind in ((10, 1), (20, 2))
)


def test_compressed_packets_of_perfetto_have_a_size_a_ratio_and_a_depth(tmp_path: Path) -> None:
    path = tmp_path / "run.perfetto"
    padding = bytes_field(1, bytes_field(99, b"\0" * (8 * MIB)))
    path.write_bytes(SLICES + nested(padding))
    assert ": compressed packets give more than 4 MiB" in refused(path, "value", limits="value=4MiB")
    refused(path, "ratio", limits="unpacked=4MiB")
    path.write_bytes(
        SLICES + b"".join(nested(nested(bytes_field(1, bytes_field(99, b"\0" * 65536)) * 16) * 20) for _ in "ab")
    )
    assert path.stat().st_size < 2000
    refused(path, "ratio", limits="unpacked=8MiB")
    for levels, limits in ((4, None), (9, "depth=9"), (40, "depth=none")):
        path.write_bytes(nested(SLICES, levels))
        assert ktrace.convert(path, tmp_path / "out.csv", limits=limits, overwrite=True).written == 1
    (tmp_path / "out.csv").unlink()
    path.write_bytes(nested(SLICES, 5))
    assert "nested 5 deep" in refused(path, "depth")
    path.write_bytes(nested(SLICES, 3000))
    refused(path, "depth")


def test_zstd_packets_of_perfetto_have_the_same_limits(tmp_path: Path) -> None:
    path = tmp_path / "run.perfetto"
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(bytes_field(1, bytes_field(99, b"\0" * (8 * MIB))))
    path.write_bytes(SLICES + bytes_field(1, bytes_field(133, sink.getvalue().to_pybytes())))
    refused(path, "value", limits="value=4MiB")
    assert ktrace.convert(path, tmp_path / "out.csv").written == 1


def database(path: Path, rows: int) -> Path:
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        made.execute("CREATE TABLE filler (content BLOB)")
        made.executemany("INSERT INTO filler VALUES (zeroblob(1000000))", [()] * rows)
    made.close()
    return path


def test_a_packed_database_does_not_fill_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, temporary = tmp_path / "in", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = packed(folder / "run.sqlite.gz", database(tmp_path / "run.sqlite", 40).read_bytes())
    refused(path, "ratio", limits="unpacked=8MiB,ratio=50")
    assert not list(temporary.iterdir())
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(total=10**9, free=60 * 10**6))
    with pytest.raises(ktrace.InputError, match=r"is too small for its copy: .* left") as raised:
        ktrace.convert(path, folder / "out.csv")
    assert "TMPDIR" in str(raised.value)
    assert not list(temporary.iterdir())


def test_limits_are_named_once_and_their_values_are_checked() -> None:
    assert limits_of("line=1GiB, value=2GB,ratio=none") == Limits(line=1 << 30, value=2 * 10**9, ratio=NONE)
    assert limits_of({"depth": 9}) == Limits(depth=9)
    assert current() == DEFAULT
    with in_force("line=1MiB"), in_force("value=1MiB"):
        assert (current().line, current().value) == (MIB, MIB)
    assert current() == DEFAULT
    for wrong in ("lines=1", "line", "line=", "line=0", "line=-1", "line=x", "ratio=3MB", "depth=none of"):
        with pytest.raises(ktrace.UsageError, match="limit"):
            limits_of(wrong)


def test_the_option_is_that_of_every_command_that_reads(tmp_path: Path) -> None:
    path = tmp_path / "run.md"
    path.write_bytes(LINES["run.md"])
    for command in (["info"], ["summary"], ["query"], ["validate"], ["batch", "-o", str(tmp_path / "set")]):
        arguments = [command[0], str(path), *command[1:], *(["SELECT 1"] if command == ["query"] else [])]
        result = run_ktrace(*arguments, "--limits", "lines=2")
        assert (result.returncode, "there is no limit 'lines'" in result.stderr) == (2, True), (command, result.stderr)
    result = run_ktrace("info", str(path), "--limits", "line=2MiB")
    assert (result.returncode, "the limit 'line'" in result.stderr) == (1, True)
    assert run_ktrace("info", str(path), "--limits", "line=4MiB").returncode == 0


def test_limits_reach_the_processes_of_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "run.md"
    path.write_bytes(LINES["run.md"])
    report = ktrace.batch(path, tmp_path / "set", jobs=2, limits="line=2MiB")
    assert "the limit 'line'" in json.dumps(report.failed)
    assert not ktrace.batch(path, tmp_path / "set", jobs=2, limits="line=4MiB").failed


def test_other_functions_take_limits_too(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(LINES["run.jsonl"])

    def batches(**limits: str) -> int:
        with ktrace.open_batches(path, **limits) as opened:  # type: ignore[arg-type]
            return sum(len(batch) for batch in opened)

    functions: list[Callable[..., object]] = [
        *(lambda **limits: ktrace.read(path, **limits), lambda **limits: ktrace.inspect(path, **limits), batches),
        *(lambda **limits: ktrace.validate(path, **limits), lambda **limits: ktrace.query(path, "SELECT 1", **limits)),
    ]
    for function in functions[:4]:
        with pytest.raises(ktrace.DamagedInput, match="limit 'line'"):
            function(limits="line=2MiB")
        function(limits={"line": "4MiB"})
