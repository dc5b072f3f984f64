"""The contents of a dataset, for `ktrace info`: its runs with hosts and ranks, and where these come from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ktrace.input.dataset_manifest import Shard
from ktrace.input.source import Source

from .dataset import dataset_of


def about(source: Source) -> dict[str, list[str]]:
    """For a dataset of `ktrace batch`, one line per run; for other Parquet, nothing."""
    dataset = dataset_of(source)
    if dataset is None:
        return {}
    runs: dict[str, list[Shard]] = defaultdict(list)
    for shard in dataset.shards():
        runs[shard.place.run or "unknown run"].append(shard)
    lines = [_line(run, shards) for run, shards in sorted(runs.items())]
    origins = Counter(f"{what} by {who}" for manifest in dataset.inputs for what, who in manifest.said.items() if who)
    lines.append(", ".join(f"{what} of {count:,}" for what, count in sorted(origins.items())))
    return {f"dataset of {len(dataset.inputs):,} inputs": lines}


def _line(run: str, shards: list[Shard]) -> str:
    hosts = sorted({shard.place.host or "unknown host" for shard in shards})
    ranks = sorted({shard.place.rank for shard in shards if shard.place.rank is not None})
    of_ranks = f", {len(ranks):,} ranks ({_first(ranks)})" if ranks else ""
    rows, size = sum(shard.rows for shard in shards), sum(shard.size for shard in shards)
    return f"{run}: {rows:,} rows in {len(shards):,} files of {size:,} bytes, {_first(hosts)}{of_ranks}"


def _first(values: Sequence[object]) -> str:
    return ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
