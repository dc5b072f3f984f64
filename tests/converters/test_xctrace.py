"""xctrace exports: figures computed here with ElementTree, references, odd and hostile XML, folders."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import SHARED

import ktrace
from ktrace.byte_account import ByteAccount
from ktrace.converters.xctrace.recording import process, thread
from ktrace.converters.xctrace.rows import read_rows, scan
from ktrace.converters.xctrace.values import Values
from ktrace.errors import ClosedFormat, DamagedInput, InputError
from ktrace.input.detection import detect
from ktrace.report import Severity
from ktrace.trace.trace import Trace

SAMPLES = Path(__file__).parent.parent.parent / "samples" / "xctrace"
NESTED = SAMPLES / "two-processes-a-nested-row-and-blits.xml"
TABLES = SAMPLES / "tables-that-name-each-other.xml"
DAMAGED = SAMPLES / "rows-that-are-damaged.xml"
HUNT = SHARED / "hunt"

SCHEMA = (
    "<schema name='metal-gpu-intervals'><col><mnemonic>start</mnemonic></col><col><mnemonic>duration</mnemonic></col>"
    "<col><mnemonic>channel-name</mnemonic></col><col><mnemonic>event-label</mnemonic></col></schema>"
)


def resolved(path: Path, schema: str) -> list[dict[str, str | None]]:
    """The rows of a table, each cell as the text of its element or of the one that it refers to, else its `fmt`."""
    root = ET.parse(path).getroot()
    by_id = {element.get("id"): element for element in root.iter() if element.get("id")}
    columns: list[str] = []
    rows = []
    for node in root.iter("node"):
        found = node.find("schema")
        name = found.get("name") if found is not None else name  # noqa: F821 (the node before has it)
        columns = [column.text or "" for column in node.iter("mnemonic")] or columns
        for row in node.iter("row") if name == schema else ():
            cells = [by_id[cell.get("ref")] if cell.get("ref") else cell for cell in row]
            rows.append(
                {column: (cell.text or cell.get("fmt")) for column, cell in zip(columns, cells, strict=True)}
                | {f"{column} fmt": cell.get("fmt") for column, cell in zip(columns, cells, strict=True)}
            )
    return rows


def read(path: Path) -> Trace:
    return ktrace.read(path, from_="xctrace")


def made(folder: Path, rows: str, *, head: str = "", schema: str = SCHEMA, name: str = "made.xml") -> Path:
    path = folder / name
    path.write_text(
        f"{head}<trace-query-result>\n<node xpath='/t/run[1]/x'>{schema}{rows}</node></trace-query-result>\n"
    )
    return path


def issues(trace: Trace) -> dict[str, int]:
    return {kind: issue.rows for kind, issue in trace.report.issues.items()}


def test_every_row_is_an_event_with_the_times_that_its_cells_refer_to() -> None:
    rows, events = resolved(NESTED, "metal-gpu-intervals"), read(NESTED).events
    assert events["ts"].tolist() == [int(row["start"] or 0) for row in rows]
    assert events["dur"].tolist() == [int(row["duration"] or 0) for row in rows]
    assert events["pid"].tolist()[:2] == [4711, 4711]
    owners = [row["process fmt"] for row in rows]
    pids = [int(owner.rpartition("(")[2].strip(")")) if owner else None for owner in owners]
    assert [None if np.isnan(pid) else int(pid) for pid in events["pid"].astype(float)] == pids


def test_nested_and_idle_rows_are_ranges_and_blits_are_copies() -> None:
    rows, events = resolved(NESTED, "metal-gpu-intervals"), read(NESTED).events
    expected = []
    for row in rows:
        blit = row["channel-name"] == "Blit" or "Blit Command" in (row["event-label fmt"] or "")
        expected.append(
            "range" if row["event-depth"] != "0" or row["state"] == "Idle" else "memcpy" if blit else "kernel"
        )
    assert events["kind"].tolist() == expected
    assert {"range", "memcpy", "kernel"} == set(expected)
    assert events[events["kind"] == "memcpy"]["bytes"].tolist() == [4096, 65536]


def test_a_label_is_the_name_without_process_and_address() -> None:
    trace = read(NESTED)
    assert trace.events["name"].tolist()[:5] == [
        "Prefill:gemm<f16, 64> & bias",
        "Prefill:gemm<f16, 64> & bias",
        "Prefill:Coelasced 3 Encoders",
        "Decode:attention",
        "Decode:Blit Command 0",
    ]
    assert trace.events["name"].tolist()[-2:] == ["GPU Execution", "Decode:attention"]
    names = dict(trace.catalog[trace.catalog["entity"] == "process"][["pid", "name"]].astype({"pid": int}).to_numpy())
    assert names == {4711: "loom", 388: "WindowServer", 4712: "looom helper (GPU)"}


def test_all_ones_and_zero_are_no_command_buffers() -> None:
    events = read(NESTED).events
    vertex = events[events["name"] == "Compositor:Render Command 0"].iloc[0]
    assert pd.isna(vertex["correlation"])
    assert pd.isna(vertex["external_id"])
    assert events["correlation"].tolist()[0] == 0x1101


def test_tables_name_and_connect_each_others_rows() -> None:
    trace = read(TABLES)
    events = trace.events
    kernels = events[events["kind"] == "kernel"]
    assert kernels["name"].tolist() == ["Step:rms_norm", "Step:qkv_gemm", "Step:rope", "Step:out_proj", "GPU Execution"]
    calls = events[events["kind"] == "api"]
    assert calls["correlation"].tolist() == kernels["correlation"].tolist()[:4]
    encodings = events[events["kind"] == "op"]
    assert encodings["external_id"].tolist() == kernels["external_id"].tolist()[:4]
    assert encodings["tid"].tolist() == [0x2A5B7] * 3 + [0x2A600]
    counters = events[events["kind"] == "counter"]
    assert counters[["name", "value"]].to_numpy().tolist() == [
        ["ALU Utilization", 57.25],
        ["Last Level Cache Bandwidth", 81920.0],
        ["ALU Utilization", 12.5],
        ["counter 9", 1.5],
    ]
    assert len(events[events["name"] == "CommandBufferCompleted"]) == 4


def test_rows_of_a_second_node_that_repeat_the_first_are_counted_once() -> None:
    trace = read(TABLES)
    rows = resolved(TABLES, "metal-gpu-intervals")
    keys = {(row["start"], row["duration"], row["encoder-id"]) for row in rows}
    assert len(rows) == 7 and len(keys) == 5
    kernels = trace.events[trace.events["kind"] == "kernel"]
    assert kernels["dur"].sum() == sum(int(duration or 0) for _, duration, _ in keys)
    assert issues(trace) == {"folded": 2}


def test_damaged_rows_are_reported_and_the_others_read() -> None:
    trace = read(DAMAGED)
    assert trace.events[["ts", "dur", "name"]].to_numpy().tolist() == [
        [5000, 1501, "softmax <1> && max"],
        [8000, 1501, "softmax <1> && max"],
        [9300, 77, "α&B"],
    ]
    assert trace.events["correlation"].tolist()[0] == 0x1F
    assert issues(trace) == {"bad-record": 3, "negative-duration": 1, "cut": 0}


@pytest.mark.parametrize(
    "head",
    [
        "<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;&a;'>]>\n",
        "<!DOCTYPE x SYSTEM 'file:///etc/passwd'>",
        "<?xml version='1.0'?><!ENTITY x 'y'>",
        "<?xml version='1.0' encoding='ISO-8859-1'?>",
    ],
)
def test_declarations_and_other_encodings_are_refused(tmp_path: Path, head: str) -> None:
    path = made(tmp_path, "<row><s>1</s><d>2</d><c>&b;</c><l/></row>", head=head)
    with pytest.raises(DamagedInput, match=r"declares a document type|has the encoding"):
        read(path)


def test_a_declaration_between_rows_is_refused(tmp_path: Path) -> None:
    row = "<row><s>1</s><d>2</d><c/><l/></row>"
    with pytest.raises(DamagedInput, match="declares a document type"):
        read(made(tmp_path, f"{row}<!DOCTYPE x [<!ENTITY a 'b'>]>{row}"))


def test_an_unknown_entity_is_a_damaged_row(tmp_path: Path) -> None:
    good = "<row><s>1</s><d>2</d><c>Compute</c><l>&lt;a&#x3e;</l></row>"
    trace = read(made(tmp_path, f"{good}<row><s>3</s><d>4</d><c>Compute</c><l>&x;</l></row>{good}"))
    assert trace.events["name"].tolist() == ["<a>", "<a>"]
    assert trace.report.issues["bad-record"].places == [("metal-gpu-intervals row 2", "isn't XML: undefined entity")]


def test_a_table_of_contents_is_answered_with_the_export_command(tmp_path: Path) -> None:
    path = tmp_path / "toc.xml"
    path.write_text(
        '<?xml version="1.0"?>\n<trace-toc><run number="1"><data><table schema="x"/></data></run></trace-toc>'
    )
    assert detect(path)[0].format == "xctrace"
    with pytest.raises(ClosedFormat) as error:
        ktrace.read(path)
    assert "xcrun xctrace export --input" in str(error.value)


@pytest.mark.parametrize("text", ["<trace-query-result/>", "<trace-query-result>\n</trace-query-result>\n"])
def test_an_export_without_tables_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong-path.xml"
    path.write_text(text)
    with pytest.raises(DamagedInput, match="contains no table"):
        ktrace.read(path)


def test_ids_belong_to_their_document(tmp_path: Path) -> None:
    one = made(tmp_path, '<row><s id="1">5</s><d id="2">6</d><c/><l id="3" fmt="a"/></row>', name="1.xml").read_text()
    two = made(tmp_path, '<row><s id="1">7</s><d ref="1"/><c/><l ref="3"/></row>', name="2.xml").read_text()
    both = tmp_path / "both.xml"
    both.write_text(one + two)
    assert read(both).events[["ts", "dur", "name"]].to_numpy().tolist() == [[5, 6, "a"], [7, 7, "GPU Execution"]]


def test_only_the_first_run_is_read(tmp_path: Path) -> None:
    row = "<row><s>1</s><d>2</d><c>Compute</c><l>a</l></row>"
    path = made(tmp_path, f"{row}</node><node xpath='/trace-toc/run[2]/data'>{SCHEMA}{row}{row}")
    trace = read(path)
    assert len(trace.events) == 1
    assert trace.report.issues["unrecognised"].places[0][0] == "metal-gpu-intervals of another run"


def test_a_folder_of_exports_is_one_trace(tmp_path: Path) -> None:
    root = ET.parse(TABLES).getroot()
    encoders, intervals = (root.findall("node")[index] for index in (0, 2))
    # Each export has ids of its own; the intervals refer to elements of the encoders in the sample, so write these out.
    by_id = {element.get("id"): element for element in root.iter() if element.get("id")}
    for cell in intervals.iter():
        if (ref := cell.get("ref")) is not None:
            cell.text, cell.attrib = by_id[ref].text, {"fmt": by_id[ref].get("fmt") or ""}
            cell.extend(ET.fromstring(ET.tostring(child)) for child in by_id[ref])
    folder = tmp_path / "run.trace.exports"
    folder.mkdir()
    for name, node in (("a-metal-gpu-intervals", intervals), ("metal-application-encoders-list", encoders)):
        text = ET.tostring(node, encoding="unicode")
        (folder / f"{name}.xml").write_text(f"<trace-query-result>{text}</trace-query-result>")
    (folder / "toc.xml").write_text('<trace-toc><run number="1"/></trace-toc>')
    (folder / "notes.txt").write_text("warm run")
    assert detect(folder)[0].format == "xctrace"
    trace = ktrace.read(folder)
    kernels = trace.events[trace.events["kind"] == "kernel"]
    assert kernels["name"].tolist() == ["Step:rms_norm", "Step:qkv_gemm", "Step:rope", "Step:out_proj"]
    assert kernels["dur"].sum() == 13_833 * 4 + 11 * (1 + 2 + 3)
    assert issues(trace) == {"unrecognised": 1}


REGULAR = [
    '<row><a id="1" fmt="µ">5000</a><b id="2" fmt="x &amp; y">x &amp; y</b></row>\n<row><a ref="1"/><sentinel/></row>',
    '<row><a id="1" fmt="p"><b id="2" fmt="7">7</b><c ref="2"/></a><b ref="2"/></row><row><a/><b ref="9"/></row>',
    '<row><a fmt="only">007</a><b>18446744073709551615</b></row><row><a>9223372036854775806</a><b></b></row>',
    '<row><a fmt="only"/><b>12345678901234567890</b></row><row><a> 12 </a><b>-5</b></row>',
    '<row><a id="70">a "quoted" = \'text\'</a><b fmt="&#x3b1;&#945;">&lt;&gt;</b></row>',
]
IRREGULAR = [
    "<row><a id='1'>5</a><b ref='1'/></row>",
    '<row><a fmt="x" id="1">5</a><b ref="1"/></row>',
    '<row><a id="1" other="x">5</a><b ref="1" /></row>',
    '<row><a id="1" fmt=\'x\'/><b ref="1"/></row>',
    '<row><a id="one">5</a><b ref="one"/></row>',
    '<row><a id="1" fmt="a > b"/><b ref="1"/></row>',
    "<row><a><![CDATA[<x>]]></a><b><!-- c -->7</b></row>",
    '<row><a><pid>5</pid></a><b id = "1">7</b></row>',
]


def uncounted(size: int) -> None:
    """What references give is counted by tests of limits."""


def texts(codes: np.ndarray, values: Values) -> list[list[str]]:
    return [[values.text(code) for code in row] for row in codes.tolist()]


@pytest.mark.parametrize("rows", REGULAR)
def test_the_fast_scan_gives_what_expat_gives(rows: str) -> None:
    one, other = Values(uncounted), Values(uncounted)
    codes = scan(rows.encode(), 2, one)
    assert codes is not None
    expected, damage, _ = read_rows(rows.encode(), 2, other)
    assert not damage
    assert texts(codes, one) == texts(expected, other)
    assert ((codes > 0) == (expected > 0)).all()


@pytest.mark.parametrize("rows", IRREGULAR)
def test_what_is_not_regular_is_left_to_expat(rows: str) -> None:
    assert scan(rows.encode(), 2, Values(uncounted)) is None
    values = Values(uncounted)
    codes, damage, _ = read_rows(rows.encode(), 2, values)
    assert not damage
    first, second = texts(codes, values)[0]
    assert (first, second) in {("5", "5"), ("x", "x"), ("a > b", "a > b"), ("<x>", "7"), ("5", "7")}


@pytest.mark.parametrize("path", [NESTED, TABLES], ids=lambda path: path.stem)
def test_cutting_into_pieces_makes_no_difference(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(path)
    for size in (64, 777):
        monkeypatch.setattr("ktrace.converters.xctrace.document._CHUNK", size)
        assert read(path).equals(whole)


def test_texts_that_were_written_to_the_file_are_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.converters.xctrace.values._REMEMBERED", 3)
    values = Values(uncounted)
    codes = [values.text_code(f"label {number % 7}".encode()) for number in range(50)]
    assert [values.text(code) for code in codes] == [f"label {number % 7}" for number in range(50)]


def test_an_id_beyond_the_document_makes_no_table_of_its_size(tmp_path: Path) -> None:
    cells = "<d>2</d><c/><l/></row>"
    rows = [f"<row><s id='{10**17 + number}'>{number}</s>{cells}" for number in range(1, 4)]
    again = f"<row><s ref='{10**17 + 2}'/>{cells}<row><s ref='{10**17 + 5}'/>{cells}"
    trace = read(made(tmp_path, ("".join(rows) + again).replace("'", '"')))
    assert trace.events["ts"].tolist() == [1, 2, 3, 2]
    assert issues(trace) == {"bad-record": 1}


def test_processes_and_threads_in_their_spellings() -> None:
    assert process("python (99926)") == ("python", 99926)
    assert process("Helper (GPU) (12)") == ("Helper (GPU)", 12)
    assert process("no number") == ("no number", None)
    assert thread("Main Thread (0x11ab5b7) (python, pid: 99926)") == 0x11AB5B7
    assert thread("Main Thread 0x1 (ProbeFixture, pid: 111)") == 1


def test_channels_are_streams_of_a_gpu_and_other_columns_arguments() -> None:
    rows, events = resolved(NESTED, "metal-gpu-intervals"), read(NESTED).events
    channels = list(dict.fromkeys(row["channel-name"] for row in rows))
    assert events["stream"].tolist() == [channels.index(row["channel-name"]) for row in rows]
    assert set(events["device"]) == {0} and len(channels) == 4
    for name in ("frame-number", "start-latency", "event-depth", "gpu-submission-id"):
        stated = [json.loads(args).get(name) for args in events["args"].fillna("{}")]
        assert stated == [None if row[name] is None else int(row[name] or 0) for row in rows]
    completed = read(TABLES).events
    times = [int(row["timestamp"] or 0) for row in resolved(TABLES, "metal-command-buffer-completed")]
    assert completed[completed["name"] == "CommandBufferCompleted"]["ts"].tolist() == times and len(times) == 4


@pytest.mark.parametrize("irregular", [False, True])
def test_every_byte_of_an_export_has_an_owner(tmp_path: Path, irregular: bool) -> None:
    text = NESTED.read_text()
    if irregular:  # expat reads the rows
        text = text.replace("</row>", "<!-- c --></row>")
    sound = _account(tmp_path, text)
    assert (sound.size, sound.skipped) == (len(text.encode()), 0)
    assert sound.structure > 0 and sound.read > 0.5 * sound.size
    row = text.index("<row>", text.index("</row>"))
    for place, lost in ((row, "lost &amp; "), (text.index("<row>"), "<lost/>"), (text.index("<schema"), "lost ")):
        changed = text[:place] + lost + text[place:]
        damaged = _account(tmp_path, changed)
        assert damaged.size == sound.size + len(lost)
        [skipped] = damaged.ranges
        assert changed.encode()[skipped.start : skipped.end].strip() == lost.strip().encode()
        assert damaged.skipped == skipped.end - skipped.start
    cut = _account(tmp_path, text[: row + 9])
    assert (cut.skipped, cut.ranges[0].start) == (9, len(text[:row].encode()))


def _account(folder: Path, text: str) -> ByteAccount:
    path = folder / "export.xml"
    path.write_text(text)
    report = ktrace.read(path, from_="xctrace").report
    assert report.balanced() and report.bytes.balanced()
    return report.bytes


def test_tables_that_are_not_read_or_have_no_rows_are_named_where_nothing_is_written(tmp_path: Path) -> None:
    """Every conversion that writes something is quiet about a table with rows."""
    head, rows, end = "<trace-query-result><node>", "<row><t id='1'>5</t></row>", "</node></trace-query-result>"
    schema = '<schema name="%s"><col><mnemonic>timestamp</mnemonic></col></schema>'
    for name, body, said in (
        ("names", rows * 3, r"3 x unrecognised \(names: 3 rows of a table without a time\)"),
        ("names", "", r"0 rows \(names: has no rows\)"),
        ("metal-command-buffer-completed", "", r"0 rows \(metal-command-buffer-completed: has no rows\)"),
    ):
        path = tmp_path / "run.xml"
        column = "label" if name == "names" else "timestamp"
        path.write_text(head + (schema % name).replace("timestamp", column) + body + end)
        with pytest.raises(InputError, match=said):
            ktrace.convert(path, tmp_path / "out.perfetto")
    path.write_text(head + schema % "metal-command-buffer-completed" + rows + end)
    assert "empty-table" not in ktrace.convert(path, tmp_path / "out.jsonl").issues


@pytest.mark.skipif(not (HUNT / "xctrace").is_dir(), reason="the real exports aren't here")
def test_each_real_export_of_other_tables_is_read_as_a_whole() -> None:
    seen = 0
    for path in sorted((HUNT / "xctrace").glob("*.xml")):
        text = path.read_text("utf-8")
        if "<schema" not in text:
            continue
        seen += 1
        report = ktrace.read(path).report
        assert report.rows_read + report.total(Severity.SKIP) == report.read == text.count("<row>"), path.name
        root = ET.fromstring(text)
        table = root.find(".//schema")
        assert table is not None
        types = [column.findtext("engineering-type") for column in table.iter("col")]
        lasts = [
            place
            for place, column in enumerate(table.iter("col"))
            if types[place] == "duration" and "duration" in (column.findtext("mnemonic") or "")
        ]
        by_id = {element.get("id"): element for element in root.iter() if element.get("id")}
        rows = [[by_id.get(cell.get("ref"), cell) for cell in row] for row in root.iter("row")]
        events = ktrace.read(path).events
        time = next(place for place, kind in enumerate(types) if kind in ("start-time", "event-time", "sample-time"))
        assert len(events) == len(rows), path.name
        assert events["ts"].sum() == sum(int(row[time].text or 0) for row in rows), path.name
        durations = [int(row[min(lasts)].text or 0) for row in rows] if lasts else []
        assert int(events["dur"].sum()) == sum(durations), path.name
        assert set(events["kind"]) <= {"range" if lasts else "instant"}
    assert seen == 31


HOST = SAMPLES / "tables-of-the-host-hangs-signposts-samples.xml"


def test_tables_of_the_host_are_ranges_samples_and_instants() -> None:
    trace = read(HOST)
    events = trace.events
    assert events.groupby("kind").size().to_dict() == {"instant": 1, "range": 2, "sample": 3}
    samples = events[events["kind"] == "sample"]
    assert samples["name"].tolist() == ["quantised_matmul(Block const&, int)", "softmax", "time-profile"]
    stacks = trace.catalog[trace.catalog["entity"] == "stack"]
    frames = {name: json.loads(facts)["frames"] for name, facts in zip(stacks["name"], stacks["facts"], strict=True)}
    assert [frames.get(json.loads(args).get("stack")) for args in samples["args"]] == [
        ["main", "step", "quantised_matmul(Block const&, int)"],
        ["main", "step", "softmax"],
        None,
    ]
    assert sum(json.loads(args)["weight"] for args in samples["args"]) == 3_000_000
    ranges = events[events["kind"] == "range"]
    assert ranges[["name", "ts", "dur", "pid", "track"]].to_numpy().tolist() == [
        ["Brief Unresponsiveness", 60_000_125, 251_000_375, 812, "potential-hangs"],
        ["relationship-fault", 80_000_000, 2_500, 812, "relationship-fault"],
    ]
    assert json.loads(events[events["kind"] == "instant"]["args"].iloc[0]) == {
        "message": "token 1 of 8",
        "thread": "Main Thread",
    }
    assert issues(trace) == {"unrecognised": 1}, "a table without a time"
