"""ncnn's logs: networks, and each execution of a layer, on the host or on a GPU."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import SAMPLES

from ktrace.errors import KtraceError
from ktrace.trace import read
from ktrace.trace.trace import Trace

CPU = SAMPLES / "ncnn" / "layers-of-three-runs-on-the-cpu.log"
GPU = SAMPLES / "ncnn" / "layers-of-a-gpu-in-androids-log-cut.txt"


def found(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    rows = trace.summaries[list(columns)].values.tolist()
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in rows]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.log"
    path.write_text(text, "utf-8")
    return path


def test_each_line_of_a_layer_is_an_execution() -> None:
    expected = []
    for line in CPU.read_text("utf-8").splitlines():
        if "ms    |" in line:
            time = re.search(r"([\d.]+)ms", line)
            assert time
            expected.append((line[:24].strip(), line[25:55].strip(), float(Decimal(time[1]) * 1_000_000), 1, "op"))
    rows = [row for row in found(read(CPU), "name", "layer", "total", "count", "kind") if row[4] == "op"]
    assert rows == expected
    assert len(rows) == 13


def test_networks_have_the_number_of_runs_and_the_settings() -> None:
    trace = read(CPU)
    rows = trace.summaries[trace.summaries.kind == "metric"]
    assert rows[["name", "min", "max", "avg", "count", "table"]].values.tolist() == [
        ["squeezenet", 1_760_000, 1_790_000, 1_780_000, 2, 0],
        ["a_network_of_a_long_name", 27_411_350_000, 27_411_350_000, 27_411_350_000, 2, 1],
    ]
    assert json.loads(rows.args.iloc[0]) == {
        "loop_count": 2,
        "num_threads": 4,
        "powersave": 0,
        "gpu_device": -1,
        "cooling_down": 1,
    }
    assert rows.device.isna().all()


def test_shapes_and_windows_are_arguments() -> None:
    args = [json.loads(text) for text in read(CPU).summaries.args.dropna()]
    assert args[0] == {"in": "227, 227, 3 *1", "out": "113, 113, 16 *4", "kernel": "3 x 3", "stride": "2 x 2"}
    assert args[1] == {"in": "1024 *4", "out": "250 *4"}
    assert {"kernel": "3 x 3 x 3", "stride": "1 x 2 x 2"}.items() <= args[-2].items()


def test_layers_in_us_ran_on_the_gpu_that_was_asked_for() -> None:
    trace = read(GPU)
    assert found(trace, "kind", "name", "layer", "total", "avg", "device") == [
        ("kernel", "Convolution", "conv1", 152_300, None, 0),
        ("kernel", "Softmax", "prob", 7_050, None, 0),
        ("metric", "mobilenet_v2", None, None, 12_480_000, 0),
        ("metric", "mobilenet_v2", None, None, 43_160_000, None),  # gpu_device = -1
    ]
    devices = trace.catalog[trace.catalog.entity == "device"]
    assert set(devices.name) == {"Adreno (TM) 640"}
    assert dict(trace.report.reader.removed) == {"structure": 6, "catalog": 2, "unrecognised": 1}


@pytest.mark.parametrize(
    "line",
    [
        "squeezenet  min =    2.35  max =    2.61",
        "squeezenet  min = fast  max =    2.61  avg =    2.48",
        "Convolution              conv1                              1.25ms",
    ],
)
def test_other_lines_are_none(tmp_path: Path, line: str) -> None:
    sound = "          squeezenet  min =    2.35  max =    2.61  avg =    2.48\n"
    trace = read(written(tmp_path, f"{sound}{line}\n"))
    assert len(trace.summaries) == 1
    assert dict(trace.report.reader.removed) == {"unrecognised": 1}
    with pytest.raises(KtraceError, match="unrecognised format"):
        read(written(tmp_path, f"{line}\n"))


def test_lines_of_mnn_are_none(tmp_path: Path) -> None:
    sound = "          squeezenet  min =    2.35  max =    2.61  avg =    2.48\n"
    path = written(tmp_path, f"{sound}[ - ] resnet.mnn  max =   19.063 ms  min =   19.063 ms  avg =   19.063 ms\n")
    assert read(path, "ncnn").summaries.name.tolist() == ["squeezenet"]
    assert read(path, "mnn").summaries.name.tolist() == ["resnet.mnn"]


def test_a_network_without_a_number_of_runs(tmp_path: Path) -> None:
    trace = read(written(tmp_path, "          squeezenet  min =    2.35  max =    2.61  avg =    2.48\n"))
    assert found(trace, "name", "avg", "count") == [("squeezenet", 2_480_000, None)]
