"""AWS Neuron (Trainium, Inferentia): profiles that Neuron Explorer makes of a NEFF and its NTFF, and summaries.

    neuron-explorer view -n kernel.neff -s profile.ntff --data-path DIR --ingest-only
        DIR/profiles/global/NAME@latest/    Instruction.parquet  DmaPacket.parquet  Summary.parquet ...
    neuron-explorer view -n kernel.neff -s profile.ntff --output-format summary-json
        {"n_1a2b_i_0": {"total_time": 0.000123, "tensor_engine_active_time_percent": 0.45, ...}}

The tables and their fields are those of AWS' Profile Parquet Schema Reference (schema 7.4.0, Neuron SDK 2.31); a large
table is in numbered files (BirInstruction_0.parquet). neuron-profile prints the same summary.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from ktrace.kit import Format, Match, Sample, Score

#: Tables with a time, of which one is in every profile; beside them there is Metadata.
TIMED = ("Instruction", "DmaPacket", "CcOp", "SystemProfileEvents")

_SUMMARY = ('"total_active_time"', '"tensor_engine_active_time')


def table_of(path: str) -> str:
    """The table that a file of a profile has: BirInstruction of BirInstruction_0.parquet; "" if it isn't one."""
    parts = PurePosixPath(path)
    name, _, number = parts.stem.rpartition("_")
    if len(parts.parts) > 1 or parts.suffix != ".parquet":
        return ""
    return name if number.isdigit() else parts.stem


def probe(sample: Sample) -> Match | None:
    """MAGIC for a folder with the tables of a profile, and for a summary; with a remedy for one table alone."""
    if sample.listing is not None:
        tables = {table_of(name) for name in sample.listing}
        timed = next((name for name in TIMED if name in tables), None)
        if timed and tables & {"Metadata", "SystemProfileMetadata", "Summary"}:
            return Match(Score.MAGIC, f"is a folder with the table {timed}.parquet of Neuron Explorer")
        return None
    if sample.is_json and all(word in (sample.text or "") for word in _SUMMARY):
        return Match(Score.MAGIC, "is JSON with total_active_time and tensor_engine_active_time of AWS Neuron")
    return None


FORMAT = Format(
    "neuron",
    "AWS Neuron Explorer's profile as Parquet, a folder, and its summary as JSON",
    patterns=("*@latest",),
    probe=probe,
    read="ktrace.converters.neuron.reader:read",
    words=('"total_active_time"',),
    reads_folders=True,
    holds="whole",
)
