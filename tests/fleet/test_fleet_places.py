"""What paths say of run, host and rank, and the folders made of it."""

from __future__ import annotations

import pytest

from ktrace.input.dataset_manifest import DatasetPlace, place_of


@pytest.mark.parametrize(
    ("inside", "place"),
    [
        ("rank3.json.gz", DatasetPlace(rank=3)),
        ("rank_3.json", DatasetPlace(rank=3)),
        ("trace-r12.json", DatasetPlace(rank=12)),
        ("rank007_step5.json", DatasetPlace(rank=7)),
        ("2026-11-20/rank3.json.gz", DatasetPlace("2026-11-20", rank=3)),
        ("llama/a/Rank-3.sqlite", DatasetPlace("llama/a", rank=3)),
        ("rank3/trace.json", DatasetPlace(rank=3)),
        ("a/rank3/rank4.json", DatasetPlace("a", rank=4)),
        ("run=x y/host=n7/rank=2/t.json", DatasetPlace("x y", "n7", 2)),
        ("host_name=n7/x/t.json", DatasetPlace("x", "n7")),
        ("n7_4711.1724000000000.pt.trace.json.gz", DatasetPlace(host="n7")),
        ("rank5_4711.1724000000000.pt.trace.json", DatasetPlace(rank=5)),
        ("worker3.json", DatasetPlace()),
        ("sr3.json", DatasetPlace()),
        ("r3d-18.json", DatasetPlace()),
        ("trace.json", DatasetPlace()),
    ],
)
def test_a_path_says_run_host_and_rank(inside: str, place: DatasetPlace) -> None:
    assert place_of(inside) == place


def test_folders_are_percent_encoded_and_unknown_values_are_hives() -> None:
    unknown = "__HIVE_DEFAULT_PARTITION__"
    assert DatasetPlace("a/b c=ü", None, 0).folder() == f"run_name=a%2Fb%20c%3D%C3%BC/host_name={unknown}/rank=0"
