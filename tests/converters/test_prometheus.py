"""Metrics of Prometheus: every sample is a counter, whatever form the server gave it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from canonical_rows import known_rows
from conftest import SAMPLES

import ktrace
from ktrace.errors import KtraceError
from ktrace.trace import read

FOLDER = SAMPLES / "prometheus"
ANSWER = FOLDER / "query-range-of-two-gpus.json"


def written(tmp_path: Path, text: str, name: str = "metrics.txt") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def counters(path: Path) -> list[tuple[str, int, float]]:
    rows = read(path).events
    rows = rows[rows.kind == "counter"]
    return sorted(zip(rows.name, map(int, rows.ts), rows.value, strict=True))


def factor(name: str) -> float:
    """Of the unit in the file: MiB become B, s become ns."""
    return 1 << 20 if "FB_USED" in name else 1e9 if name.endswith("_seconds") else 1


def test_each_sample_of_an_answer_is_a_counter() -> None:
    expected = [
        (name := one["metric"]["__name__"], int(ts) * 10**9, float(value) * factor(name))
        for one in json.loads(ANSWER.read_text())["data"]["result"]
        for ts, value in one["values"]
    ]
    assert len(expected) > 100
    assert counters(ANSWER) == sorted(expected)
    report = read(ANSWER).report
    assert (report.read, report.balanced(), report.issues) == (len(expected), True, {})


@pytest.mark.parametrize("name", ["federate-with-times.prom", "promtool-tsdb-dump.txt"])
def test_each_line_of_text_is_a_counter(name: str) -> None:
    text = (FOLDER / name).read_text()
    expected = []
    for line in text.splitlines():
        if not line.startswith("#"):
            series, value, ts = line.rsplit(" ", 2)
            metric = re.search(r"__name__=\"(\w+)\"", series)
            known = metric[1] if metric else series.partition("{")[0]
            expected.append((known, int(ts) * 10**6, float(value) * factor(known)))
    assert expected
    assert counters(FOLDER / name) == sorted(expected)


def test_a_result_alone_is_read_as_its_answer_is(tmp_path: Path) -> None:
    result = json.loads(ANSWER.read_text())["data"]["result"]
    assert counters(written(tmp_path, json.dumps(result), "result.json")) == counters(ANSWER)


def test_labels_say_device_host_and_unit() -> None:
    (power,) = {
        (row["name"], row["device"], row["host"], row["unit"], row["cat"])
        for row in known_rows(ANSWER, "events")
        if row["name"] == "DCGM_FI_DEV_POWER_USAGE" and row["device"] == 1
    }
    assert power == ("DCGM_FI_DEV_POWER_USAGE", 1, "node-a", "W", "dcgm")
    assert not any("track" in row for row in known_rows(ANSWER, "events") if row["kind"] == "counter"), (
        "nothing else tells them apart"
    )
    devices = {row["device"]: row for row in read(ANSWER).catalog.to_dict("records") if row["entity"] == "device"}
    assert devices[1]["name"] == "NVIDIA A100-SXM4-80GB"
    assert json.loads(devices[1]["facts"])["uuid"] == "GPU-11aa"


def test_times_units_and_labels_in_text() -> None:
    rows = known_rows(FOLDER / "openmetrics-in-seconds.txt", "events")
    found = [(row["name"], row["ts"], row["value"], row.get("unit"), row.get("track")) for row in rows]
    assert found == [
        ("gpu_power_draw", 1714566896_500_000_000, 312.5, "W", 'pod="train-1"'),
        ("gpu_power_draw", 1714566897_500_000_000, 700, "W", 'pod="train-1"'),
        ("host_memory_free_bytes", 1714566897_000_000_000, 1.5e10, "B", r'note="a \"quoted\" {text}, with \\"'),
        ("latency_seconds_bucket", 1714566897_250_000_000, 3, None, 'le="+Inf"'),
    ]
    report = read(FOLDER / "openmetrics-in-seconds.txt").report
    assert [place for place, _ in report.issues["bad-record"].places] == ["line 10", "line 11", "line 12"]


def test_blanks_before_a_line_are_no_part_of_its_series(tmp_path: Path) -> None:
    lines = [f'{" " * 12}up{{gpu="{device}"}} {device} 1714566896000' for device in (1, 2)]
    rows = known_rows(written(tmp_path, "# TYPE up gauge\nup 0 1714566896000\n" + "\n".join(lines)), "events")[1:]
    assert {(row["device"], row["value"]) for row in rows} == {(1, 1.0), (2, 2.0)}


def test_lines_of_victoriametrics() -> None:
    path = FOLDER / "victoriametrics-export.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    expected = sorted(
        (one["metric"]["__name__"], ts * 10**6, value)
        for one in lines
        for ts, value in zip(one["timestamps"], one["values"], strict=True)
        if value is not None
    )
    assert counters(path) == expected
    assert not read(path).report.issues, "null is no value"


def test_reasons_of_low_clocks_last_from_sample_to_sample(tmp_path: Path) -> None:
    name = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
    lines = [
        f'{name}{{gpu="3"}} {mask} {1714566896000 + 1000 * place}' for place, mask in enumerate((0, 4, 0x24, 0x20, 0))
    ]
    rows = [
        row
        for row in known_rows(written(tmp_path, f"# TYPE {name} gauge\n" + "\n".join(lines)), "events")
        if row["kind"] == "range"
    ]
    zero = 1714566896 * 10**9
    found = {(row["name"], row["device"], row["track"], row["ts"] - zero, row["dur"], row["timing"]) for row in rows}
    assert found == {
        ("sw_power_cap", 3, "clock event reasons", 10**9, 2 * 10**9, "derived"),
        ("sw_thermal_slowdown", 3, "clock event reasons", 2 * 10**9, 2 * 10**9, "derived"),
    }
    other = written(
        tmp_path, '# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nDCGM_FI_DEV_GPU_TEMP{gpu="3"} 4 1714566896000\n', "t.txt"
    )
    assert {row["kind"] for row in known_rows(other, "events")} == {"counter"}


def test_what_an_exporter_prints_has_no_times_which_is_said(tmp_path: Path) -> None:
    with pytest.raises(KtraceError, match="no times") as caught:
        read(written(tmp_path, '# HELP up Whether.\n# TYPE up gauge\nup{job="a"} 1\n'))
    assert "query_range" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('{"status":"success","data":{"resultType":"matrix","result":{"metric":1}}}', "has no data.result"),
        ('{"status":"success","data":{"resultType":"matrix","result":[{"metric":{}', "can't be read|cut"),
    ],
)
def test_a_document_of_another_form_is_refused(tmp_path: Path, text: str, wrong: str) -> None:
    path = written(tmp_path, text, "answer.json")
    with pytest.raises(KtraceError, match=wrong):
        read(path, from_="prometheus")


@pytest.mark.parametrize(
    "pair", ["[1]", '["x", "1"]', '[1, "one"]', '[1e300, "1"]', "7", '[1, "+Inf"]', "[null, null]"]
)
def test_a_sample_that_is_none_is_reported_alone(tmp_path: Path, pair: str) -> None:
    result = f'{{"metric":{{"__name__":"a"}},"values":[[5,"2"],{pair}]}}'
    text = f'{{"status":"success","data":{{"resultType":"matrix","result":[{result}]}}}}'
    path = written(tmp_path, text, "answer.json")
    trace = read(path)
    assert counters(path) == [("a", 5 * 10**9, 2.0)]
    assert trace.report.issues["bad-record"].places[0][0] == "data.result[0].values[1]"
    assert trace.report.balanced()


def test_nan_is_no_value_and_no_fault(tmp_path: Path) -> None:
    text = (
        '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"a"},"value":[5,"NaN"]}]}}'
    )
    for path in (written(tmp_path, text, "answer.json"), written(tmp_path, "# TYPE a gauge\na NaN 5\na 1 6\n")):
        trace = read(path)
        assert not trace.report.issues
        assert trace.report.balanced()
    assert counters(path) == [("a", 6 * 10**9, 1.0)]


def test_beside_kernels(tmp_path: Path) -> None:
    out = tmp_path / "both.parquet"
    report = ktrace.merge([SAMPLES / "kineto" / "one-step-of-training.pt.trace.json", ANSWER], out)
    assert report.balanced()
    kinds = {row["kind"] for row in read(out).to_arrow()["events"].to_pylist()}
    assert {"kernel", "counter"} <= kinds
