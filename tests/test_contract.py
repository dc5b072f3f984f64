"""What every format promises (docs/plugins.md), checked on every sample of every format."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

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

READERS = [fmt for fmt in builtin_formats() if fmt.reads and not fmt.closed]
SAMPLE_FILES = [
    pytest.param(fmt.name, path, id=f"{fmt.name}/{path.name}")
    for fmt in READERS
    for path in golden.samples_of(fmt.name)
]


def each_format(most: int, params: list[Any]) -> list[Any]:
    """So many samples of each format; the others are nightly."""
    return few(params, most, by=lambda values: values[0])


def is_first(name: str, path: Path) -> bool:
    """Whether this is the first sample of its format that is a text."""
    return next(one.values for one in TEXTS if one.values[0] == name)[1] == path


TABLES = [fmt for fmt in builtin_formats() if fmt.writes and not fmt.timeline]
TIMELINES = [fmt for fmt in builtin_formats() if fmt.timeline]

#: By default these outputs of every format, and all outputs of these formats; at night all of all.
OUTPUTS, INPUTS = {"jsonl", "parquet", "perfetto", "chrome"}, {"kineto", "nsys", "doppler", "csv", "rocpd"}


def is_tried(output: str, name: str) -> bool:
    return nightly.selected or output in OUTPUTS or name in INPUTS


_BLOCKS = "reads blocks of several MB and keeps one: a grown sample is smaller; benchmarks/run.py measures its peak"
#: The formats whose FORMAT says that they are databases.
DATABASES = [fmt.name for fmt in builtin_formats() if fmt.database]

_DATABASE = "a file of tables, which SQLite keeps on disk; a grown sample is a database that its own tests make"
_LIMITED = "a document that is decoded whole, whose size is limited; its own tests check the limit"
_WHOLE = "a binary file with an index, which can't be written twice over; its own tests measure a big one"

_PAGE = "a page around a trace, which is read as its own format"

_TREE = "a tree is read whole, up to a limit; a trace is Trace Event JSON, of which a block is kept"
#: Timelines without a place for some events -> the phases of Chrome traces that they show. Of a sample without any of
#: these there is nothing to write.
_POINTS = ('"ph":"X"', '"ph":"i"')
SHOWN = {"folded": ('"ph":"X"',), "speedscope": _POINTS, "otlp": _POINTS}

#: Outputs of device work alone -> the kinds that they show. Of a sample without any of these there is nothing to write.
OF_KINDS = {"nsys-csv": {"kernel", "memcpy", "memset"}}

#: Outputs whose file names mean something -> the name.
NAMED = {"nsys-csv": "out_cuda_gpu_trace.csv"}

#: Formats whose memory isn't tested with a grown sample, the same text many times over -> why not. All others are.
NOT_GROWN = {
    **dict.fromkeys(DATABASES, _DATABASE),
    **dict.fromkeys(("jsonl", "json", "chrome", "kineto", "xprof-json", "onnxruntime", "mapped"), _BLOCKS),
    **dict.fromkeys(("rocprofv3", "rocprof-json", "rocprofv3-json", "rpd2tracing", "xctrace"), _BLOCKS),
    **dict.fromkeys(("ascend-json", "ascend-csv", "unitrace-json", "onetrace-json", "clintercept-json"), _BLOCKS),
    **dict.fromkeys(
        ("torch-memory", "nccl-flight-recorder", "ascend-communication", "speedscope", "cpuprofile", "pprof"), _LIMITED
    ),
    **dict.fromkeys(("perfetto", "parquet", "arrow", "nsys-tables", "ncu-rep", "xplane"), _WHOLE),
    "proton": _TREE,
    "neuron": _LIMITED,
    "otf2": "a folder of files of a binary format; its own tests measure a long one",
    "hpctoolkit": "a folder of files of a binary format; its own tests measure a long one",
    "legion-prof": "a binary log that begins with its description, once; its own tests measure a long one",
    "projections": "a folder of logs and their names; its own tests measure a long one",
    "perfetto-text": _LIMITED,
    "trace2html": _PAGE,
    "otlp": "spans at the same time get a track each, as those of a grown sample; its own tests measure a big one",
}


#: Formats whose bytes aren't divided among records, structure and what is skipped -> why not.
_BINARY = "not a text: its records have lengths or pages, and a byte more makes another file of it"
NO_BYTES = {
    **dict.fromkeys(DATABASES, _BINARY),
    **dict.fromkeys(("perfetto", "parquet", "arrow", "nsys-tables", "ncu-rep", "xplane", "pprof"), _BINARY),
    **dict.fromkeys(("legion-prof", "chakra"), _BINARY),
    "trace2html": _PAGE,
    "perfetto-text": "its text becomes a trace in protobuf, which has no such account",
}

#: The same for samples of other formats.
NO_BYTES_OF = {
    "two-devices-earlier-allocations-oom.pickle": _BINARY,
    "hung-all-gather_trace_rank_1": _BINARY,
    "collector-messages-after-their-lengths.pb": _BINARY,
}

#: What comes between the bytes of a sample: no record of any format.
GARBAGE = (b'\n@@ \x07 no record }] "\xff\n', b"{[" * 40, b"\n" + b"lost block of a disk \0" * 50 + b"\n")


def text_of(path: Path) -> bytes:
    """The text of a sample as the account of bytes counts it: without its compression, UTF-16 as UTF-8."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    return data.decode("utf-16").encode() if data.startswith((b"\xff\xfe", b"\xfe\xff")) else data


def _has_account(name: str, path: Path) -> bool:
    if name in NO_BYTES or path.name in NO_BYTES_OF or not path.is_file():
        return False
    return not path.read_bytes().startswith(b"SQLite format 3\0")  # a format that ktrace new-format has just laid out


TEXTS = [param for param in SAMPLE_FILES if _has_account(*param.values)]


@pytest.mark.parametrize(("name", "path"), TEXTS)
def test_every_byte_of_a_text_has_an_owner(name: str, path: Path) -> None:
    account = whole(path, name).report.bytes
    assert account.size == len(text_of(path))
    assert account.read + account.structure + account.skipped == account.size
    assert account.skipped < account.size


@pytest.mark.parametrize(("name", "path"), few(TEXTS, lambda values: is_first(*values)))
def test_bytes_in_the_middle_of_a_text_are_accounted_for(name: str, path: Path, tmp_path: Path) -> None:
    """Refused, or counted: the sum of the account is the size of the damaged file."""
    text = text_of(path)
    middle = len(text) // 2
    damaged = contract.with_mapping(path, tmp_path / path.name.removesuffix(".gz"))
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


@cache
def whole(path: Path, name: str) -> Trace:
    """The sample as its reader gives it: read once for all tests that only look at it."""
    return golden.read(path, name)


@pytest.fixture(autouse=True)
def _probes_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that raises is left out for users. Here it fails the test."""

    def probed(fmt: Format, sample: Sample) -> Detected | None:
        match = fmt.recognised(sample)
        return Detected(fmt.name, match.score, match.reason, match.remedy) if match else None

    monkeypatch.setattr(ktrace.input.detection, "_probed", probed)


@pytest.mark.parametrize("fmt", READERS, ids=lambda fmt: fmt.name)
def test_a_format_has_samples_and_a_docs_page(fmt: object) -> None:
    name = fmt.name  # type: ignore[attr-defined]
    assert list((SAMPLES / name).glob("*")), f"no sample in samples/{name}/"
    assert (SAMPLES.parent / "docs" / "formats" / f"{name}.md").exists(), f"no page docs/formats/{name}.md"


#: Of a greater sample, batches of one row take long.
MOST_BYTES = 5_000


def is_quick(name: str, path: Path, check: Callable[[Path, str], None]) -> bool:
    """Whether a check of a sample is in the default run: cuts of the first one of a format, batches of small ones."""
    if check is contract.survives_cuts:
        return path == golden.samples_of(name)[0]
    return check is not contract.is_the_same_in_any_batches or path.is_dir() or path.stat().st_size < MOST_BYTES


CHECKED = [
    pytest.param(*param.values, check, id=f"{param.id}-{check.__name__}")
    for param in SAMPLE_FILES
    for check in contract.CHECKS
]


@pytest.mark.parametrize(("name", "path", "check"), few(CHECKED, lambda values: is_quick(*values)))
def test_a_sample_keeps_what_every_format_promises(
    name: str, path: Path, check: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "CUTS", contract.CUTS if nightly.selected else contract.CUTS // 2)
    monkeypatch.setattr(contract, "whole", partial(_whole_or_in_batches, contract.whole))
    check(path, name)


def _whole_or_in_batches(read: Callable[..., Trace], path: Path, name: str, batch_rows: int = 65_536) -> Trace:
    """The sample, read once for all checks that only look at it."""
    return whole(path, name) if batch_rows == 65_536 else read(path, name, batch_rows)


@pytest.mark.parametrize("fmt", [fmt for fmt in builtin_formats() if fmt.reads], ids=lambda fmt: fmt.name)
def test_a_probe_raises_on_no_sample_of_any_format(fmt: Format) -> None:
    for sample in all_samples():
        try:
            fmt.recognised(sample)
        except Exception as error:
            pytest.fail(f"the probe of {fmt.name} raises {error!r} on {sample.name}")


@cache
def all_samples() -> tuple[Sample, ...]:
    """What a probe sees of every sample, of a file without anything, and of bytes that are no text."""
    return (*(Source(str(param.values[1])).sample() for param in SAMPLE_FILES), *contract.ODD)


@pytest.mark.parametrize(("name", "path"), SAMPLE_FILES)
def test_every_record_is_accounted_for_and_skips_are_declared(name: str, path: Path) -> None:
    """`used()` left out would leave good rows as records that are skipped: unrecognised."""
    report = whole(path, name).report
    assert report.reader.balanced()
    declared = golden.load(name).get(path.name)
    assert declared, f"no figures of this sample: python -m tests.golden --format {name}"
    assert golden.skips(report) == declared["skips"]
    assert golden.golden(whole(path, name))["records"] == declared["records"]


@pytest.mark.parametrize(("name", "path"), SAMPLE_FILES)
def test_the_rows_are_the_golden_ones(name: str, path: Path) -> None:
    """How many by kind, their names, first and last time, sums: tests/golden_rows/<format>.json."""
    written, found = golden.load(name)[path.name], golden.golden(whole(path, name))
    assert found["rows"].keys() == written["rows"].keys()
    for kind, figures in found["rows"].items():
        assert figures == written["rows"][kind], kind
    assert found["notes"] == written["notes"]


@pytest.mark.parametrize("name", dict.fromkeys(fmt.name for fmt in READERS))
def test_there_are_golden_rows_of_the_samples_that_there_are(name: str) -> None:
    assert set(golden.load(name)) == {path.name for path in golden.samples_of(name)}


@pytest.mark.parametrize(("name", "path"), each_format(1, SAMPLE_FILES))
def test_accounts_add_up_in_every_output(name: str, path: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", dict.fromkeys(fmt.name for fmt in READERS))
def test_a_format_whose_memory_is_not_tested_says_why(name: str) -> None:
    grown = [path.name for path in golden.samples_of(name) if _can_grow(path)]
    if name in NOT_GROWN:
        assert len(NOT_GROWN[name].split()) > 5
    else:
        assert grown, "no sample that can be grown, and no reason in NOT_GROWN"


def test_the_list_of_formats_is_what_each_folder_declares() -> None:
    """After a change: python -m ktrace.converters.formats"""
    assert (SAMPLES.parent / "converters/listed.py").read_text("utf-8") == listed()


@pytest.mark.parametrize("fmt", builtin_formats(), ids=lambda fmt: fmt.name)
def test_the_functions_that_a_format_declares_are_there(fmt: Format) -> None:
    assert all(callable(fmt.function(field)) for field in FUNCTIONS if getattr(fmt, field) is not None)


def test_no_two_formats_have_one_name() -> None:
    names = [fmt.name for fmt in builtin_formats()]
    assert sorted(names) == sorted(set(names))


def test_formats_whose_memory_is_not_tested_exist() -> None:
    assert set(NOT_GROWN) <= {fmt.name for fmt in READERS}


def _can_grow(path: Path) -> bool:
    """Whether a sample is text that can be written many times over: a file, neither compressed nor a database."""
    return path.is_file() and path.read_bytes()[:2] not in (b"\x1f\x8b", b"\x28\xb5", b"\xff\xfe", b"SQ")


#: Two of each format.
GROWN = [
    pytest.param(name, path, id=f"{name}/{path.name}")
    for name in dict.fromkeys(fmt.name for fmt in READERS)
    for path in [path for path in golden.samples_of(name) if _can_grow(path)][:2]
    if name not in NOT_GROWN
]


#: Those with many small tables take ten seconds each: they are nightly.
QUICK = [one for one in GROWN if one.values[0] not in {"nvprof", "rocprof"}]


@pytest.mark.parametrize(("name", "path"), each_format(1, QUICK) + few([one for one in GROWN if one not in QUICK], 0))
def test_memory_does_not_grow_with_the_file(name: str, path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    data = data if data.endswith(b"\n") else data + b"\n"
    peaks = []
    for times in (4, 20, 100):  # the first time imports and fills caches
        long = contract.with_mapping(path, tmp_path / f"{times}{path.suffix}")
        long.write_bytes(data * (1 + times * 2000 // max(2000, len(data))))
        tracemalloc.start()
        for _ in read_batches([str(long)], Report(), format=name, batch_rows=64):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] * 1.5 + 400_000, peaks
