"""How commands say that kernels in a table have no labels yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.cli._console import tell

if TYPE_CHECKING:
    from ktrace.report import Report


def tell_labels(account: Report, output: str) -> None:
    """Prints how to get operation, library and precision, if the output is a Parquet file with kernels that lack them.

    It looks at the first row group.
    """
    path = Path(output)
    if not path.is_file() or any(ledger.stage == "classify" for ledger in account.stages):
        return
    with path.open("rb") as stream:
        if stream.read(4) != b"PAR1":
            return
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    if not {"kind", "operation"} <= set(file.schema_arrow.names) or not file.num_row_groups:
        return
    rows = file.read_row_group(0, columns=["kind", "operation"])
    kernels = rows.filter(pc.equal(rows["kind"], "kernel"))
    if kernels.num_rows and kernels["operation"].null_count == kernels.num_rows:
        tell(f"{output}: kernels have no operation, library and precision; --classify adds them", err=True)
