"""Whatever a reader raises is told as an error of its input, with the place; what isn't of the input stays apart."""

from __future__ import annotations

import errno
import os
import pickle
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
import ktrace.converters.doppler.reader as doppler
import ktrace.converters.rpd.reader as rpd
from ktrace.conversion import Conversion
from ktrace.converters.execution_trace import reader as execution_trace
from ktrace.errors import DamagedInput, InputError, InternalError, OutputError
from ktrace.input.source import Source
from ktrace.kit.sqlite import opened
from ktrace.kit.text.lines import Lines
from ktrace.report import Report

LOG = SAMPLES / "doppler/prefill-and-three-decodes.log"


def raising(error: BaseException) -> Callable[..., Iterator[Any]]:
    """A reader that raises the error once it has read seven lines."""

    def read(source: Source, conversion: Conversion) -> Iterator[Any]:
        for line in Lines(source, conversion):
            if line.number == 7:
                raise error
        yield

    return read


@pytest.mark.parametrize(
    "error",
    [ValueError("no digits"), KeyError("dur"), RecursionError("too deep"), OverflowError("int too big"), SystemExit(3)],
    ids=lambda error: type(error).__name__,
)
def test_what_a_reader_raises_is_told_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(doppler, "read", raising(error))
    out = tmp_path / "out.jsonl"
    with pytest.raises(DamagedInput) as caught:
        ktrace.convert(LOG, out)
    assert str(caught.value).startswith(f"{LOG}: line 7: can't be read as doppler: {type(error).__name__}: ")
    assert "expected: " in str(caught.value)
    assert "hint: " in str(caught.value)
    assert caught.value.__cause__ is error
    assert list(tmp_path.iterdir()) == []
    for other in (ktrace.inspect, ktrace.read, ktrace.summary):
        with pytest.raises(DamagedInput, match="line 7: can't be read as doppler"):
            other(LOG)


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_what_says_nothing_of_the_input_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(doppler, "read", raising(error))
    with pytest.raises(type(error)):
        ktrace.convert(LOG, tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_ours_passes_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = DamagedInput("has no kernels", path="x", where="line 3")
    monkeypatch.setattr(doppler, "read", raising(mine))
    with pytest.raises(DamagedInput) as caught:
        ktrace.convert(LOG, tmp_path / "out.jsonl")
    assert caught.value is mine


def test_a_broken_invariant_of_a_reader_is_an_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doppler, "read", raising(AssertionError("a kernel without a layer")))
    with pytest.raises(
        InternalError, match="line 7: an invariant of the reader of doppler is broken: Assert"
    ) as caught:
        ktrace.convert(LOG, tmp_path / "out.jsonl")
    assert not isinstance(caught.value, InputError)


def test_an_account_that_does_not_add_up_is_an_internal_error_with_its_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = doppler.read

    def miscounting(source: Source, conversion: Conversion) -> Iterator[Any]:
        conversion.report.record(3)
        yield from real(source, conversion)

    monkeypatch.setattr(doppler, "read", miscounting)
    with pytest.raises(
        InternalError, match=r"doesn't add up: reader [\d,]+ = [\d,]+ \+ [\d,]+, [\d,]+ rows; "
    ) as caught:
        ktrace.convert(LOG, tmp_path / "out.perfetto")
    assert caught.value.path == str(LOG)
    assert list(tmp_path.iterdir()) == []


def test_the_place_is_the_row_of_a_table_in_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "run.rpd"
    with sqlite3.connect(database) as made:
        made.execute("CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, start INTEGER)")
        made.executemany("INSERT INTO rocpd_op VALUES (?, 5)", [(number,) for number in range(1, 11)])

    def read(source: Source, conversion: Conversion) -> Iterator[Any]:
        with opened(source, conversion) as tables:
            for block in tables.blocks("rocpd_op", 4):
                if block.numbers[0].as_py() > 4:
                    raise ValueError("odd")
        yield

    monkeypatch.setattr(rpd, "read", read)
    with pytest.raises(DamagedInput, match=r"run\.rpd: rocpd_op after row \d+: can't be read as rpd: ValueError: odd"):
        ktrace.convert(database, tmp_path / "out.jsonl", from_="rpd")


def test_without_lines_the_place_is_the_number_of_records_of_this_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(source: Source, conversion: Conversion) -> Iterator[Any]:
        conversion.report.record(1234)
        conversion.report.used(1234)
        if source.path.endswith("second.log"):
            raise ValueError("odd")
        yield from ()

    monkeypatch.setattr(doppler, "read", read)
    second = tmp_path / "second.log"
    second.write_bytes(LOG.read_bytes())
    with pytest.raises(DamagedInput, match=r"second\.log: within the first 1,234 records: "):
        ktrace.convert([LOG, second], tmp_path / "out.jsonl")


def test_a_disk_that_fails_below_the_input_is_not_told_as_one_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doppler, "read", raising(OSError(errno.EIO, os.strerror(errno.EIO))))
    with pytest.raises(InputError, match="can't be read: Input/output error") as caught:
        ktrace.convert(LOG, tmp_path / "out.jsonl")
    assert not isinstance(caught.value, (DamagedInput, OutputError))
    assert caught.value.path == str(LOG)
    monkeypatch.setattr(doppler, "read", raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(InputError, match=r"temporary folder: No space left on device\n  hint: set TMPDIR"):
        ktrace.convert(LOG, tmp_path / "out.jsonl")
    monkeypatch.setattr(doppler, "read", raising(OSError("the footer is odd")))  # as Arrow says it: the data
    with pytest.raises(DamagedInput, match="the footer is odd"):
        ktrace.convert(LOG, tmp_path / "out.jsonl")


def test_a_full_disk_below_the_output_is_told_as_one_of_the_output(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    done = command("convert", LOG, "-o", "/dev/full", "--to", "jsonl")
    assert done.returncode == 1
    assert "/dev/full: can't be written: No space left on device" in done.stderr
    assert str(LOG) not in done.stderr


def test_an_input_that_fails_while_its_format_is_found_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise zipfile.LargeZipFile("odd")

    packed = tmp_path / "run.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("run.log", LOG.read_bytes())
    monkeypatch.setattr(zipfile.ZipFile, "open", broken)
    for call in (ktrace.detect, ktrace.inspect):
        with pytest.raises(DamagedInput, match=r"run\.zip: .*odd"):
            call(packed)


def test_an_execution_trace_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_trace, "read_nodes", raising(ValueError("odd")))
    trace = next((SAMPLES / "execution-trace").glob("*.json"))
    timeline = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
    with pytest.raises(DamagedInput, match="can't be read as execution-trace: ValueError: odd") as caught:
        ktrace.convert(timeline, tmp_path / "out.jsonl", execution_trace=trace)
    assert caught.value.path == str(trace)


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs ktrace, whose reader of doppler raises."""
    return subprocess.run(
        [sys.executable, "-m", "ktrace", *map(str, arguments)], capture_output=True, text=True, check=False
    )


BROKEN = """
import sys
import ktrace.converters.doppler.reader as module
from ktrace.cli import main

def read(source, conversion):
    raise ValueError("no digits")
    yield

module.read = read
main()
"""


def test_debug_shows_the_original_exception() -> None:
    def run(*options: str) -> str:
        arguments = [sys.executable, "-c", BROKEN, "info", str(LOG), *options]
        return subprocess.run(arguments, capture_output=True, text=True, check=False).stderr

    assert run().startswith(f"ktrace: {LOG}: can't be read as doppler: ValueError: no digits\n")
    assert "Traceback" not in run()
    shown = run("--debug")
    assert 'raise ValueError("no digits")' in shown or "ValueError: no digits" in shown
    assert "in read" in shown
    assert "DamagedInput" in shown


def test_a_report_is_sent_to_another_process_without_the_place_of_its_reader() -> None:
    report = Report()
    report.record(2)
    report.at = lambda: "line 2"  # can't be pickled
    sent = pickle.loads(pickle.dumps(report))
    assert (sent.reader.taken, sent.at) == (2, None)
