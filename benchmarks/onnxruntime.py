"""Measures the conversion of an ONNX Runtime profile: nodes on two threads with operator, provider, shapes and sizes.

    python benchmarks/onnxruntime.py [--events 500000] [--json onnxruntime.json]

The file is generated, in the spelling of ONNX Runtime 1.31. --keep FOLDER keeps it.
"""

from __future__ import annotations

from pathlib import Path

from process import Figures, ktrace, run_script

OPERATORS = ("MatMul", "Add", "Softmax", "LayerNormalization", "Gelu", "Transpose", "Reshape")

NODE = (
    '{{"cat" : "Node","pid" :{pid},"tid" :{tid},"dur" :{dur},"ts" :{ts},"ph" : "X",'
    '"name" :"/layer.{layer}/{op}_kernel_time","args" : {{"op_name" : "{op}",'
    '"provider" : "CPUExecutionProvider","node_index" : "{index}",'
    '"input_type_shape" : [{{"float":[1,{width},768]}},{{"float":[768,768]}}],'
    '"output_type_shape" : [{{"float":[1,{width},768]}}],"output_size" : "{size}",'
    '"activation_size" : "{size}",'
    '"parameter_size" : "2359296","mem_bytes_in_use" : "{size}","mem_bytes_requested_in_use" : "{size}"}}}},\n'
)


def make_input(folder: Path, events: int) -> Path:
    """Returns the input with that many events; generates it unless the file exists."""
    path = folder / f"onnxruntime{events}.json"
    if path.exists():
        return path
    with path.open("w") as file:
        file.write("[\n")
        for number in range(events - 1):
            op = OPERATORS[number % len(OPERATORS)]
            place = {"pid": 1538, "tid": 1563 + number % 2, "ts": 61_000 + number * 40, "dur": 10 + number % 60}
            file.write(
                NODE.format(
                    **place,
                    op=op,
                    layer=number % 24,
                    index=number % 300,
                    width=number % 64 + 1,
                    size=number % 4096 * 512,
                )
            )
        file.write(
            '{"cat" : "Session","pid" :1538,"tid" :1563,"dur" :9,"ts" :1,"ph" : "X","name" :"model_run","args" : {}}'
        )
        file.write("\n]\n")
    return path


def measure(folder: Path, events: int, times: int) -> dict[str, Figures]:
    """Returns name -> seconds, events/s, MB/s, memory."""
    path = make_input(folder, events)
    results: dict[str, Figures] = {}
    for suffix in ("perfetto", "parquet"):
        out = folder / f"onnxruntime.{suffix}"
        figures = ktrace("convert", path, "-o", out, "--overwrite", "--jobs", 1, times=times)
        rates = {"M events/s": events / 1e6, "MB/s": path.stat().st_size / 1e6}
        results[f"ONNX Runtime -> .{suffix}"] = figures | {unit: n / figures["wall s"] for unit, n in rates.items()}
        out.unlink()
    return results


if __name__ == "__main__":
    run_script(measure, "--events", 500_000, __file__, __doc__)
