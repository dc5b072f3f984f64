"""What paths say of run, host and rank, and the folders made of it."""

from __future__ import annotations

import pytest

from ktrace.input.dataset_manifest import Place, place_of


@pytest.mark.parametrize(
    ("inside", "place"),
    [
        ("rank3.json.gz", Place(rank=3)),
        ("rank_3.json", Place(rank=3)),
        ("trace-r12.json", Place(rank=12)),
        ("rank007_step5.json", Place(rank=7)),
        ("2026-11-20/rank3.json.gz", Place("2026-11-20", rank=3)),
        ("llama/a/Rank-3.sqlite", Place("llama/a", rank=3)),
        ("rank3/trace.json", Place(rank=3)),
        ("a/rank3/rank4.json", Place("a", rank=4)),
        ("run=x y/host=n7/rank=2/t.json", Place("x y", "n7", 2)),
        ("host_name=n7/x/t.json", Place("x", "n7")),
        ("n7_4711.1724000000000.pt.trace.json.gz", Place(host="n7")),
        ("rank5_4711.1724000000000.pt.trace.json", Place(rank=5)),
        ("worker3.json", Place()),
        ("sr3.json", Place()),
        ("r3d-18.json", Place()),
        ("trace.json", Place()),
    ],
)
def test_a_path_says_run_host_and_rank(inside: str, place: Place) -> None:
    assert place_of(inside) == place


def test_folders_are_percent_encoded_and_unknown_values_are_hives() -> None:
    unknown = "__HIVE_DEFAULT_PARTITION__"
    assert Place("a/b c=ü", None, 0).folder() == f"run_name=a%2Fb%20c%3D%C3%BC/host_name={unknown}/rank=0"
