"""A row of megabytes in a format of lines: time in proportion to its length, memory at most a few times that."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from nightly import few

import ktrace
from tests.helpers.timing import lasting

SAMPLES = Path(__file__).parents[2] / "samples"

#: Formats of lines and rows.
LINED = (
    *("clintercept", "console", "doppler", "llama", "metallic", "mlc", "nsys-stats", "rocprof", "rocprofv3", "table"),
    *("torch-table", "unitrace", "webllm", "csv", "jsonl"),
)

#: What makes a row long: a text, figures, blanks, cells and quotes, cells of a table.
FILLINGS = ("a", "1", " ", 'ab 12, "', "| x ")


def sample_of(name: str) -> Path:
    """The first text of the format that has lines."""
    for path in sorted((SAMPLES / name).rglob("*")):
        if path.is_file() and path.suffix not in (".gz", ".zip", ".db", ".json") and path.read_bytes().count(b"\n") > 3:
            return path
    raise AssertionError(name)


def lengthened(path: Path, out: Path, filling: str, size: int) -> Path:
    """The file with a row in its middle that has so many bytes more, in its middle or at its end."""
    lines = path.read_text("utf-8", "replace").splitlines(keepends=True)
    number = len(lines) // 2
    row = lines[number].rstrip("\r\n")
    cut = len(row) // 2 if filling != " " else len(row)
    lines[number] = row[:cut] + filling * (size // len(filling)) + row[cut:] + "\n"
    out.write_text("".join(lines), "utf-8")
    return out


def cost(path: Path, name: str) -> float:
    """CPU seconds of reading it."""
    begun = time.process_time()
    try:
        with ktrace.open_batches(path, from_=name, jobs=1) as batches:
            for _ in batches:
                pass
    except ktrace.InputError:
        pass  # the row was all that the sample had
    return time.process_time() - begun


#: CPU seconds of the longer row that need no proportion.
ENOUGH = 0.1


@pytest.mark.parametrize("name", LINED)
def test_a_row_of_eight_times_the_length_takes_about_eight_times_the_time(tmp_path: Path, name: str) -> None:
    """At most 24 times, since machines are busy; in the square of the length it would take 64 times."""
    sample = sample_of(name)
    cost(sample, name)  # the first reading imports the reader
    for filling in FILLINGS:
        short, long = (
            lengthened(sample, tmp_path / f"{size}{sample.suffix}", filling, size) for size in (50_000, 400_000)
        )

        def too_slow(short: Path = short, long: Path = long) -> tuple[float, float] | None:
            seconds = cost(long, name)
            if seconds < ENOUGH:
                return None
            fewer = cost(short, name)
            return (fewer, seconds) if seconds >= 24 * fewer + ENOUGH else None

        slow = lasting(too_slow)
        assert not slow, (sample.name, filling, slow)


#: Times its own length, at most, that a row takes in memory: bytes, text, cells, columns, arguments.
MOST_TIMES = 14

PEAK = """
import resource, sys, ktrace
with ktrace.open_batches(sys.argv[1], from_=sys.argv[2], jobs=1) as batches:
    for _ in batches:
        pass
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) >> 10)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the peak of memory of Linux")
@pytest.mark.parametrize("name", few(["table", "csv", "doppler", "jsonl", "rocprofv3"], 2))
def test_a_row_takes_at_most_a_few_times_its_length_of_memory(tmp_path: Path, name: str) -> None:
    sample = sample_of(name)
    # A command that ran in this process has left Arrow another allocator, whose peak varies.
    environment = {key: value for key, value in os.environ.items() if key != "ARROW_DEFAULT_MEMORY_POOL"}

    def peak(size: int) -> int:
        path = lengthened(sample, tmp_path / sample.name, "ab", size)
        arguments = [sys.executable, "-c", PEAK, str(path), name]
        return int(subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment).stdout)

    assert peak(12 << 20) - peak(0) < 12 * MOST_TIMES
