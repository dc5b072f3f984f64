"""Flight recorders after a hang: who waits in which collective, and who never entered it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.analysis.answers.summary.summary import Summary

START = 1_770_000_000_000_000_000


def entry(number: int, name: str = "all_reduce", group: str = "0", *, state: str = "completed", **more: Any) -> Any:
    """A collective; one that isn't completed has no end."""
    times = {"time_created_ns": START + 1_000_000 * number, "time_discovered_started_ns": START + 1_000_000 * number}
    times["time_discovered_completed_ns"] = START + 1_000_000 * number + 500_000 if state == "completed" else None  # type: ignore[assignment]
    what = {"profiling_name": f"nccl:{name}", "process_group": (group, "default_pg" if group == "0" else "tp")}
    what |= {"pg_id": int(group), "collective_seq_id": number, "is_p2p": False}
    return what | times | {"state": state, "retired": state == "completed"} | more


def summary(folder: Path, *ranks: list[Any], groups: dict[str, str] | None = None, **status: Any) -> Summary:
    """The summary of a dump for each rank."""
    groups = {"0": str([*range(len(ranks))])} if groups is None else groups
    config = {
        key: {"name": key, "desc": "default_pg" if key == "0" else "tp", "ranks": ranks}
        for key, ranks in groups.items()
    }
    paths = [folder / f"dump_rank_{rank}" for rank in range(len(ranks))]
    for path, entries in zip(paths, ranks, strict=True):
        dump = {"version": "2.10", "pg_config": config, "pg_status": status.get(path.name, {}), "entries": entries}
        path.write_bytes(pickle.dumps(dump, 2))
    return ktrace.summary(
        [path for path, entries in zip(paths, ranks, strict=True) if entries is not None], by=["operation"]
    )


DONE = [entry(1), entry(2), entry(3)]
WAITS = "Rank 0 waits in all_reduce 4 of process group 0 default_pg"


def first(found: Summary) -> str:
    return found.verdict[0]


def test_the_first_sentence_says_who_waits_and_who_never_entered(tmp_path: Path) -> None:
    found = summary(tmp_path, [*DONE, entry(4, state="started")], DONE)
    assert first(found) == f"{WAITS}, which rank 1 never entered (its last there: 3)."
    hang = found.findings[0]
    assert (hang.code, hang.value, hang.whole, hang.unit) == ("hang", 1, 2, "count")
    assert hang.subject == {"operation": "all_reduce", "number": 4, "group": "0 default_pg"}
    assert hang.details == {"waiting": "0", "never_entered": "1", "last_entered": "3"}
    assert [row.source for row in hang.evidence] == ["dump_rank_0"]


@pytest.mark.parametrize("state", ["completed", "scheduled"])
def test_what_has_ended_or_what_nobody_observes_is_no_hang(tmp_path: Path, state: str) -> None:
    """gloo retires what it never saw start."""
    found = summary(tmp_path, [*DONE, entry(4, state=state, retired=True)], DONE)
    assert not any(one.code == "hang" for one in found.findings)
    assert "waits" not in first(found)


def test_a_collective_that_timed_out_is_one(tmp_path: Path) -> None:
    found = summary(tmp_path, [*DONE, entry(4, state="started", retired=True)], DONE)
    assert first(found) == f"{WAITS}, which rank 1 never entered (its last there: 3)."


def test_all_entered_and_none_ended(tmp_path: Path) -> None:
    waiting = [*DONE, entry(4, state="started")]
    assert first(summary(tmp_path, waiting, waiting)) == (
        "Ranks 0, 1 wait in all_reduce 4 of process group 0 default_pg, which all its ranks entered and none ended."
    )


def test_another_operation_in_its_place(tmp_path: Path) -> None:
    found = summary(tmp_path, [*DONE, entry(4, state="started")], [*DONE, entry(4, "broadcast", state="started")])
    assert first(found) == f"{WAITS}, where rank 1 entered broadcast."


def test_ranks_without_a_dump_are_told(tmp_path: Path) -> None:
    found = summary(tmp_path, [*DONE, entry(4, state="started")], groups={"0": "[0, 1, 2]"})
    assert first(found) == f"{WAITS}; the dumps of ranks 1, 2 aren't here, so that whether they entered isn't known."


def test_only_members_of_the_group_are_missing(tmp_path: Path) -> None:
    waiting, other = [*DONE, entry(7, group="5", state="started")], [*DONE, entry(6, group="5")]
    found = summary(tmp_path, waiting, other, DONE, groups={"0": "[0, 1, 2]", "5": "[0, 1]"})
    assert (
        first(found)
        == "Rank 0 waits in all_reduce 7 of process group 5 tp, which rank 1 never entered (its last there: 6)."
    )


def test_the_rank_that_waits_for_nothing_comes_first(tmp_path: Path) -> None:
    """Rank 1 never entered 4 of the default group, since it waits for rank 2 in another one."""
    found = summary(
        tmp_path,
        [*DONE, entry(4, state="started")],
        [*DONE, entry(9, "broadcast", "5", state="started")],
        [*DONE, entry(4, state="started"), entry(8, group="5")],
        groups={"0": "[0, 1, 2]", "5": "[1, 2, 3]"},
    )
    assert "never entered" in first(found)
    found = summary(
        tmp_path,
        [*DONE, entry(4, state="started")],
        [*DONE, entry(9, "broadcast", "5", state="started")],
        [*DONE, entry(8, group="5")],
        groups={"0": "[0, 1]", "5": "[1, 2]"},
    )
    assert (
        first(found)
        == "Rank 1 waits in broadcast 9 of process group 5 tp, which rank 2 never entered (its last there: 8)."
    )
    assert [one.subject["number"] for one in found.findings if one.code == "hang"] == [9, 4]


def test_dumps_of_what_is_active_alone(tmp_path: Path) -> None:
    """The status says which collective a rank entered last."""
    found = summary(tmp_path, [entry(4, state="started")], [], dump_rank_1={"0": {"last_enqueued_collective": 3}})
    assert first(found) == f"{WAITS}, which rank 1 never entered (its last there: 3)."


def test_a_sample_that_hung() -> None:
    path = SAMPLES / "nccl-flight-recorder" / "hung-all-gather_trace_rank_1"
    assert first(ktrace.summary(path, by=["operation"])).startswith("Rank 1 waits in all_gather 19 of process group 0 ")


def transfer(name: str, *, state: str = "started") -> Any:
    return entry(7, name, state=state, is_p2p=True, collective_seq_id=3, p2p_seq_id=1)


def test_a_receive_without_its_send(tmp_path: Path) -> None:
    """A stage of a pipeline waits for the one before it, which is in no call for that."""
    of_group = "process group 0 default_pg"
    found = summary(tmp_path, DONE, [*DONE, transfer("recv 1<-0")])
    assert first(found) == f"Rank 1 waits in recv from rank 0 of {of_group}; rank 0 has no open send for it."
    (hang,) = [one for one in found.findings if one.code == "hang"]
    assert (hang.value, hang.whole, hang.subject["number"]) == (1, 2, None)
    assert hang.details == {"waiting": "1", "without_counterpart": "0"}
    both = summary(tmp_path, [*DONE, transfer("send 0->1")], [*DONE, transfer("recv 1<-0")])
    assert first(both) == f"Ranks 0, 1 wait in send to rank 1 of {of_group}, which both entered and neither ended."
    alone = summary(tmp_path, [*DONE, transfer("send 0->2")], groups={"0": "[0, 1, 2]"})
    assert first(alone) == (
        f"Rank 0 waits in send to rank 2 of {of_group}; the dump of rank 2 isn't here, so that whether it entered "
        "isn't known."
    )


def test_transfers_that_have_ended_are_no_hang(tmp_path: Path) -> None:
    ended = [transfer("send 0->1", state="completed")], [transfer("recv 1<-0", state="completed")]
    assert not any(one.code == "hang" for one in summary(tmp_path, *ended).findings)


def test_a_collective_that_hangs_is_said_before_a_transfer(tmp_path: Path) -> None:
    found = summary(tmp_path, [*DONE, entry(4, state="started")], [*DONE, transfer("recv 1<-0")])
    assert first(found) == f"{WAITS}, which rank 1 never entered (its last there: 3)."
    assert [one.subject["operation"] for one in found.findings if one.code == "hang"] == [
        "all_reduce",
        "recv from rank 0",
    ]
