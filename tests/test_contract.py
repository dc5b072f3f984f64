"""What every format promises (docs/plugins.md), checked on every sample of every format.

One test is about one format, and reads each of its samples once. A failure names the check and the sample.
"""

from __future__ import annotations

import gzip
import itertools
import re
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from pathlib import Path

import golden
import nightly
import pytest
from conftest import SAMPLES
from nightly import few
from wire import repeats

import ktrace.input.detection
from ktrace.converters.formats import listed
from ktrace.errors import InputError, KtraceError
from ktrace.input.format import FUNCTIONS, Detected, Format, builtin_formats
from ktrace.input.source import Sample, Source
from ktrace.pipeline.convert import convert
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.trace import contract
from ktrace.trace.trace import Trace

READERS = [fmt.name for fmt in builtin_formats() if fmt.reads and not fmt.closed]

#: A check of a sample of a format: raises AssertionError, BrokenPromise, or what the reader raises.
Check = Callable[[Path, str], None]


def run_checks(name: str, paths: Iterable[Path], checks: Iterable[Check]) -> None:
    """Runs all checks on all samples. Raises AssertionError that names each check and sample that failed, and how."""
    failed: list[tuple[str, Exception]] = []
    for path, check in itertools.product(paths, checks):
        try:
            check(path, name)
        except Exception as error:
            failed.append((f"{check.__name__}: {path.name}: {error or type(error).__name__}", error))
    if failed:
        raise AssertionError("\n".join(line for line, _ in failed)) from failed[0][1]


def samples_tried(name: str, most: int) -> list[Path]:
    """The first samples of a format; in the nightly run all of them."""
    return golden.samples_of(name)[: None if nightly.selected else most]


TABLES = [fmt for fmt in builtin_formats() if fmt.writes and not fmt.timeline]
TIMELINES = [fmt for fmt in builtin_formats() if fmt.timeline]

#: By default these outputs of every format, and all outputs of these formats; at night all of all.
OUTPUTS, INPUTS = {"jsonl", "parquet", "perfetto", "chrome"}, {"kineto", "nsys", "doppler", "csv", "rocpd"}


def is_tried(output: str, name: str) -> bool:
    return nightly.selected or output in OUTPUTS or name in INPUTS


#: Timelines without a place for some events -> the phases of Chrome traces that they show. Of a sample without any of
#: these there is nothing to write.
_POINTS = ('"ph":"X"', '"ph":"i"')
SHOWN = {"folded": ('"ph":"X"',), "speedscope": _POINTS, "otlp": _POINTS}

#: Outputs of device work alone -> the kinds that they show. Of a sample without any of these there is nothing to write.
OF_KINDS = {"nsys-csv": {"kernel", "memcpy", "memset"}}

#: Outputs whose file names mean something -> the name.
NAMED = {"nsys-csv": "out_cuda_gpu_trace.csv"}

#: Formats by their names, for what they declare.
DECLARED = {fmt.name: fmt for fmt in builtin_formats()}

#: Formats whose memory is tested with a grown sample, the same text many times over: those that hold none of it.
GROWN = [name for name in READERS if not (DECLARED[name].holds or DECLARED[name].database or DECLARED[name].binary)]

#: Samples that are no texts, of formats of which others are.
BINARY_SAMPLES = (
    "dumped-as-tables.sqlite",
    "two-devices-earlier-allocations-oom.pickle",
    "hung-all-gather_trace_rank_1",
    "collector-messages-after-their-lengths.pb",
)

#: What comes between the bytes of a sample: no record of any format.
GARBAGE = (b'\n@@ \x07 no record }] "\xff\n', b"{[" * 40, b"\n" + b"lost block of a disk \0" * 50 + b"\n")


def text_of(path: Path) -> bytes:
    """The text of a sample as the account of bytes counts it: without its compression, UTF-16 as UTF-8."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    return data.decode("utf-16").encode() if data.startswith((b"\xff\xfe", b"\xfe\xff")) else data


def _has_account(name: str, path: Path) -> bool:
    fmt = DECLARED[name]
    is_another = bool(fmt.via) or name == "trace2html"  # a text or page that is read as the trace in it
    return path.is_file() and not (fmt.binary or fmt.database or is_another or path.name in BINARY_SAMPLES)


def every_byte_of_a_text_has_an_owner(path: Path, name: str) -> None:
    if not _has_account(name, path):
        return
    account = whole(path, name).report.bytes
    assert account.size == len(text_of(path))
    assert account.read + account.structure + account.skipped == account.size
    assert account.skipped < account.size


def bytes_in_the_middle_of_a_text_are_accounted_for(path: Path, name: str) -> None:
    """Refused, or counted: the sum of the account is the size of the damaged file. By default of the first text."""
    texts = [sample for sample in golden.samples_of(name) if _has_account(name, sample)]
    if path not in (texts if nightly.selected else texts[:1]):
        return
    text = text_of(path)
    middle = len(text) // 2
    with tempfile.TemporaryDirectory() as folder:
        damaged = contract.with_mapping(path, Path(folder) / path.name.removesuffix(".gz"))
        for place in (middle, text.find(b"\n", middle) + 1):
            for garbage in GARBAGE:
                damaged.write_bytes(text[:place] + garbage + text[place:])
                report = Report()
                try:
                    for _ in read_batches([str(damaged)], report, format=name):
                        pass
                except KtraceError as error:
                    assert error.path == str(damaged), error
                    continue
                assert report.balanced()
                assert report.bytes.size == len(text) + len(garbage)


@lru_cache(maxsize=1)
def whole(path: Path, name: str) -> Trace:
    """The sample as its reader gives it: read once for all checks that only look at it."""
    return golden.read(path, name)


@pytest.fixture(autouse=True)
def _probes_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that raises is left out for users. Here it fails the test."""

    def probed(fmt: Format, sample: Sample) -> Detected | None:
        match = fmt.recognised(sample)
        return Detected(fmt.name, match.score, match.reason, match.remedy) if match else None

    monkeypatch.setattr(ktrace.input.detection, "_probed", probed)


@pytest.mark.parametrize("name", READERS)
def test_a_format_has_samples_golden_rows_and_a_docs_page(name: str) -> None:
    samples = golden.samples_of(name)
    assert samples, f"no sample in samples/{name}/"
    assert (SAMPLES.parent / "docs" / "formats" / f"{name}.md").exists(), f"no page docs/formats/{name}.md"
    assert set(golden.load(name)) == {path.name for path in samples}
    if name in GROWN and not all(path.is_dir() for path in samples):
        assert any(map(_can_grow, samples)), "no sample that can be grown, and neither binary nor holds in its FORMAT"


#: Of a greater sample, batches of one row take long.
MOST_BYTES = 5_000


def is_the_same_in_any_batches(path: Path, name: str) -> None:
    """By default of small samples."""
    if nightly.selected or path.is_dir() or path.stat().st_size < MOST_BYTES:
        contract.is_the_same_in_any_batches(path, name)


def survives_cuts(path: Path, name: str) -> None:
    """By default of the first sample of a format."""
    if path in samples_tried(name, 1):
        contract.survives_cuts(path, name)


def every_record_is_accounted_for_and_skips_are_declared(path: Path, name: str) -> None:
    """`used()` left out would leave good rows as records that are skipped: unrecognised."""
    report = whole(path, name).report
    assert report.reader.balanced()
    declared = golden.load(name).get(path.name)
    assert declared, f"no figures of this sample: python -m tests.golden --format {name}"
    assert golden.skips(report) == declared["skips"]
    assert golden.golden(whole(path, name))["records"] == declared["records"]


def the_rows_are_the_golden_ones(path: Path, name: str) -> None:
    """How many by kind, their names, first and last time, sums: tests/golden_rows/<format>.json."""
    declared, read = golden.load(name)[path.name], golden.golden(whole(path, name))
    assert read["rows"].keys() == declared["rows"].keys()
    for kind, figures in read["rows"].items():
        assert figures == declared["rows"][kind], kind
    assert read["notes"] == declared["notes"]


def reports_name_the_headings_of_the_file(path: Path, name: str) -> None:
    """Not `<ts>`, which is a reader's name for its column."""
    places = [place for issue in whole(path, name).report.issues.values() for place in issue.places]
    assert [detail for _, detail in places if re.match(r"<\w+>", detail)] == []


#: Those of `contract` that a part of the samples is enough for are replaced by ours of the same name.
PARTLY: dict[str, Check] = {check.__name__: check for check in (is_the_same_in_any_batches, survives_cuts)}
CHECKS: tuple[Check, ...] = (
    *(PARTLY.get(check.__name__, check) for check in contract.CHECKS),
    every_byte_of_a_text_has_an_owner,
    every_record_is_accounted_for_and_skips_are_declared,
    the_rows_are_the_golden_ones,
    reports_name_the_headings_of_the_file,
    bytes_in_the_middle_of_a_text_are_accounted_for,
)


@pytest.mark.parametrize("name", READERS)
def test_samples_keep_what_every_format_promises(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "CUTS", contract.CUTS if nightly.selected else contract.CUTS // 2)
    monkeypatch.setattr(contract, "whole", partial(_whole_or_in_batches, contract.whole))
    run_checks(name, golden.samples_of(name), CHECKS)


def test_a_failure_names_the_check_and_the_sample() -> None:
    def has_no_rows(path: Path, name: str) -> None:
        assert not whole(path, name).report.rows

    (sample, *_) = golden.samples_of("doppler")
    with pytest.raises(AssertionError, match=f"^has_no_rows: {sample.name}: "):
        run_checks("doppler", [sample], [every_byte_of_a_text_has_an_owner, has_no_rows])


def _whole_or_in_batches(read: Callable[..., Trace], path: Path, name: str, batch_rows: int = 65_536) -> Trace:
    """The sample, read once for all checks that only look at it."""
    return whole(path, name) if batch_rows == 65_536 else read(path, name, batch_rows)


def test_no_probe_raises_on_a_sample_of_any_format() -> None:
    """Nor on a file without anything, and on bytes that are no text."""
    samples = [Source(str(path)).sample() for name in READERS for path in golden.samples_of(name)]
    for fmt in builtin_formats():
        for sample in (*samples, *contract.ODD) if fmt.reads else ():
            try:
                fmt.recognised(sample)
            except Exception as error:
                pytest.fail(f"the probe of {fmt.name} raises {error!r} on {sample.name}")


@pytest.mark.parametrize("name", READERS)
def test_accounts_add_up_in_every_output(name: str) -> None:
    run_checks(name, samples_tried(name, 1), [accounts_add_up_in_every_output])


def accounts_add_up_in_every_output(path: Path, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _accounts_add_up(path, name, Path(folder))


def _accounts_add_up(path: Path, name: str, tmp_path: Path) -> None:
    rows = sum(whole(path, name).report.rows[record] for record in ("events", "summaries", "links"))
    for fmt in (fmt for fmt in TABLES if is_tried(fmt.name, name)):
        report = convert(path, tmp_path / f"out.{fmt.name}", from_=name, to=fmt.name)
        assert report.balanced()
        assert report.written + sum(ledger.removed.total() for ledger in report.stages) == rows
    for fmt in (fmt for fmt in TIMELINES if is_tried(fmt.name, name)):
        out = tmp_path / NAMED.get(fmt.name, f"out.{fmt.name}")
        if not _shows(fmt.name, whole(path, name), tmp_path / "out.chrome"):
            with pytest.raises(InputError, match="there is nothing to write"):
                convert(path, out, from_=name, to=fmt.name)
            continue
        report = convert(path, out, from_=name, to=fmt.name)
        assert report.balanced()
        drawn, removed = report.written, sum(ledger.removed.total() for ledger in report.stages)
        assert drawn + removed == rows
        assert drawn > 0
        if fmt.name == "perfetto":
            assert repeats((tmp_path / "out.perfetto").read_bytes()) == []


def _shows(output: str, trace: Trace, chrome: Path) -> bool:
    """Whether an output has a place for anything of a trace; `chrome` is the trace as Chrome JSON."""
    if output in OF_KINDS:
        events = trace.to_arrow()["events"]
        rows = zip(events["kind"].to_pylist(), events["timing"].to_pylist(), strict=True)
        return any(kind in OF_KINDS[output] and timing != "synthetic" for kind, timing in rows)
    return output not in SHOWN or any(phase in chrome.read_text() for phase in SHOWN[output])


def test_the_list_of_formats_is_what_each_folder_declares() -> None:
    """After a change: python -m ktrace.converters.formats"""
    assert (SAMPLES.parent / "converters/listed.py").read_text("utf-8") == listed()


def test_the_functions_that_a_format_declares_are_there() -> None:
    for fmt in builtin_formats():
        assert all(callable(fmt.function(field)) for field in FUNCTIONS if getattr(fmt, field) is not None), fmt.name


def test_no_two_formats_have_one_name() -> None:
    names = [fmt.name for fmt in builtin_formats()]
    assert sorted(names) == sorted(set(names))


def _can_grow(path: Path) -> bool:
    """Whether a sample is text that can be written many times over: a file, neither compressed nor a database."""
    return path.is_file() and path.read_bytes()[:2] not in (b"\x1f\x8b", b"\x28\xb5", b"\xff\xfe", b"SQ")


#: Formats with many small tables in a sample, which takes ten seconds when it is grown: they are nightly.
SLOW_TO_GROW = ("nvprof", "rocprof")


@pytest.mark.parametrize("name", few(GROWN, lambda n: n not in SLOW_TO_GROW))
def test_memory_does_not_grow_with_the_file(name: str) -> None:
    grown = [path for path in golden.samples_of(name) if _can_grow(path)]
    run_checks(name, grown[: 2 if nightly.selected else 1], [memory_does_not_grow_with_the_file])


def memory_does_not_grow_with_the_file(path: Path, name: str) -> None:
    data = path.read_bytes()
    data = data if data.endswith(b"\n") else data + b"\n"
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for times in (4, 20, 100):  # the first time imports and fills caches
            long = contract.with_mapping(path, Path(folder) / f"{times}{path.suffix}")
            long.write_bytes(data * (1 + times * 2000 // max(2000, len(data))))
            tracemalloc.start()
            for _ in read_batches([str(long)], Report(), format=name, batch_rows=64):
                pass
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[2] < peaks[1] * 1.5 + 400_000, peaks
