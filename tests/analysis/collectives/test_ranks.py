"""A job whose ranks and clocks are known: figures against plain loops, clocks that differ, what isn't known."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer, CollectiveUse, RankUse
from ktrace.errors import InputError, UsageError
from ktrace.tables.text import as_text

#: Operation as torch names it -> as ktrace does, dtype, elements in and out, factor of the bus bandwidth of 4 ranks.
PLAN = {
    "_allgather_base": ("all_gather", "BFloat16", 1 << 18, 1 << 20, 3 / 4),
    "allreduce": ("all_reduce", "Float", 1 << 20, 1 << 20, 6 / 4),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", "Half", 1 << 20, 1 << 18, 3 / 4),
    "broadcast": ("broadcast", "Float", 1 << 10, 1 << 10, 1.0),
}
BYTES = {"BFloat16": 2, "Half": 2, "Float": 4}

#: begin and duration in ns of an operation, by rank.
Times = tuple[str, dict[int, int], dict[int, int]]


def job(count: int = 30, late: int = 2) -> list[Times]:
    """The collectives of four ranks of which one is late more often; ends differ by less than 1 us."""
    noise = random.Random(3)
    now, found = [1_000_000] * 4, []
    for number in range(count):
        name = list(PLAN)[number % len(PLAN)]
        begin = {r: now[r] + noise.randint(50_000, 150_000) + 40_000 * (r == late) for r in range(4)}
        end = max(begin.values()) + noise.randint(20_000, 60_000)
        ends = {r: end + noise.randint(0, 900) for r in range(4)}
        found.append((name, begin, {r: ends[r] - begin[r] for r in range(4)}))
        now = [ends[r] for r in range(4)]
    return found


def write(folder: Path, times: list[Times], ahead: tuple[int, ...] = (0,) * 4, **left_out: object) -> list[str]:
    """The traces of the four ranks, whose clocks are ahead by some ns; `left_out` are arguments that aren't known."""
    paths = []
    for r in range(4):
        rows = []
        for number, (name, begin, dur) in enumerate(times, 1):
            _, dtype, sent, received, _ = PLAN[name]
            args = {"device": r, "stream": 20, "correlation": number, "Collective name": name, "dtype": dtype}
            args |= {"In msg nelems": sent, "Out msg nelems": received, "Group size": 4, "Seq": number}
            args |= {"Process Group Name": "0", "Process Group Description": "default_pg"} | left_out
            args = {key: value for key, value in args.items() if value is not None}
            place = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_Generic(args)", "pid": r, "tid": 20}
            rows.append(place | {"ts": (begin[r] + ahead[r]) / 1000, "dur": dur[r] / 1000, "args": args})
        about = {"schemaVersion": 1, "distributedInfo": {"rank": r, "world_size": 4}, "traceEvents": rows}
        path = folder / f"rank{r}.json"
        path.write_text(json.dumps(about | {"baseTimeNanoseconds": 1_724_000_000_000_000_000}))
        paths.append(str(path))
    return paths


def answer(paths: list[str], **options: Any) -> CollectivesAnswer:
    found = ktrace.summary(paths, by=["collective"], **options).answers["collective"]
    assert isinstance(found, CollectivesAnswer)
    return found


def each(found: CollectivesAnswer) -> dict[str, CollectiveUse]:
    uses = {use.operation: use for use in found.collectives}
    assert len(uses) == len(found.collectives)
    return uses


def by_operation(times: list[Times]) -> Iterator[tuple[str, tuple[str, str, int, int, float], list[Times]]]:
    for name, about in PLAN.items():
        yield about[0], about, [one for one in times if one[0] == name]


def test_figures_against_plain_loops(tmp_path: Path) -> None:
    times = job()
    found = answer(write(tmp_path, times))
    assert (found.clocks, found.joint, found.alone) == ("unix", 30, 0)
    uses = each(found)
    for operation, (_, dtype, sent, received, factor), mine in by_operation(times):
        use = uses[operation]
        size = max(sent, received) * BYTES[dtype]
        assert (use.smallest, use.largest, use.ranks, use.group) == (size, size, 4, "0 default_pg")
        assert (use.count, use.rows, use.joint) == (len(mine), 4 * len(mine), len(mine))
        assert use.median == median(time for _, _, dur in mine for time in dur.values())
        assert use.total == sum(time for _, _, dur in mine for time in dur.values())
        assert use.skew is not None
        assert use.skew.median == median(max(begin.values()) - min(begin.values()) for _, begin, _ in mine)
        lasts = Counter(max(begin, key=begin.__getitem__) for _, begin, _ in mine)
        assert use.last is not None
        assert lasts[int(use.last)] == max(lasts.values())
        assert use.last_share == pytest.approx(100 * max(lasts.values()) / len(mine))
        if operation == "broadcast":  # a rank that sends waits for no one
            assert use.transfer is None
            shortest = [time for _, _, dur in mine for time in dur.values()]
        else:
            assert use.transfer is not None
            shortest = [min(dur.values()) for _, _, dur in mine]
            assert use.transfer.median == median(shortest)
        assert use.algorithm_bandwidth == pytest.approx(median(size / (time / 1e9) for time in shortest))
        assert use.bus_bandwidth == pytest.approx(factor * median(size / (time / 1e9) for time in shortest))


def test_stragglers_against_plain_loops(tmp_path: Path) -> None:
    times = job()
    found = answer(write(tmp_path, times))
    waited, for_it, last = defaultdict(list), defaultdict(list), Counter[int]()
    waiting = [begin for name, begin, _ in times if name != "broadcast"]
    for begin in waiting:
        late = max(begin, key=begin.__getitem__)
        last[late] += 1
        for r in range(4):
            waited[r].append(begin[late] - begin[r])
            if r != late:
                for_it[late].append(begin[late] - begin[r])
    assert [one.label for one in found.ranks] == ["0", "1", "2", "3"]
    for one in found.ranks:
        r = one.rank
        assert r is not None
        assert (one.joint, one.last) == (len(waiting), last[r])
        assert one.waited is not None
        assert one.waited.total == sum(waited[r])
        assert (one.others_waited.total if one.others_waited else 0) == sum(for_it[r])
        if one.others_waited:
            assert (one.others_waited.median, one.others_waited.max) == (median(for_it[r]), max(for_it[r]))
        assert one.communication == one.busy == sum(dur[r] for _, _, dur in times)
        assert one.compute == 0
    assert found.straggler is not None
    assert found.straggler.label == "2"


def test_a_clock_that_is_ahead_is_corrected_by_the_ends(tmp_path: Path) -> None:
    """Unix time of rank 1 is wrong by 3 ms: its all-reduces would be over before the others begin."""
    times = job()
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.mkdir()
    wrong.mkdir()
    good, bad = answer(write(right, times)), answer(write(wrong, times, ahead=(0, 3_000_000, 0, 0)))
    assert (good.clocks, bad.clocks) == ("unix", "collective")
    assert any("rank1 moves by -3.00 ms" in note for note in bad.notes), bad.notes
    assert bad.ends is not None
    assert bad.ends < 1000
    for operation, use in each(bad).items():
        same = each(good)[operation]
        assert use.skew is not None
        assert same.skew is not None
        assert abs(use.skew.median - same.skew.median) < 1500
        assert (use.last, use.transfer) == (same.last, same.transfer)


def test_some_of_many_collectives_are_enough_for_the_clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.analysis.questions.collectives.found._ENOUGH", 10)
    found = answer(write(tmp_path, job(), ahead=(0, 3_000_000, 0, 0)))
    assert (found.clocks, found.joint) == ("collective", 30)
    assert found.ends is not None
    assert found.ends < 1000


def test_without_sequence_numbers_positions_match(tmp_path: Path) -> None:
    times = job()
    found = answer(write(tmp_path, times, Seq=None))
    assert found.joint == 30
    assert [use.skew for use in found.collectives] == [use.skew for use in answer(write(tmp_path, times)).collectives]
    assert any("matched by their position" in note for note in found.notes)


def test_positions_that_are_counted_from_another_begin_do_not_match(tmp_path: Path) -> None:
    """The profile of rank 1 begins two collectives of each operation later. Unix time is right, positions aren't."""
    paths = write(tmp_path, job(), Seq=None)
    whole = answer(paths)
    trace = json.loads(Path(paths[1]).read_text())
    trace["traceEvents"] = trace["traceEvents"][8:]
    Path(paths[1]).write_text(json.dumps(trace))
    found = answer(paths)
    assert found.joint == 30 and found.straggler and whole.straggler
    assert found.straggler.label == whole.straggler.label == "2"
    longest = [[use.transfer.max for use in one.collectives if use.transfer] for one in (found, whole)]
    assert longest[0] == longest[1] and any("matched by their times" in note for note in found.notes)


def test_positions_from_another_begin_are_not_matched_by_clocks_that_differ(tmp_path: Path) -> None:
    paths = write(tmp_path, job(), (0, 33_000, 0, 0), Seq=None)
    trace = json.loads(Path(paths[1]).read_text())
    trace["traceEvents"] = trace["traceEvents"][8:]
    Path(paths[1]).write_text(json.dumps(trace))
    found = answer(paths)
    assert all(use.skew is None for use in found.collectives)
    assert (found.joint, found.straggler) == (0, None)
    assert any("don't overlap in time with their counterparts" in note for note in found.notes), found.notes


def test_one_rank_alone_has_no_skew(tmp_path: Path) -> None:
    times = job()
    found = answer(write(tmp_path, times)[1:2])
    assert (found.clocks, found.joint, found.straggler) == ("one", 0, None)
    for operation, (_, dtype, sent, received, factor), mine in by_operation(times):
        use = each(found)[operation]
        assert (use.count, use.skew, use.last, use.transfer) == (len(mine), None, None, None)
        rate = median(max(sent, received) * BYTES[dtype] / (dur[1] / 1e9) for _, _, dur in mine)
        assert use.bus_bandwidth == pytest.approx(factor * rate)
    assert "One rank alone: who waits for whom needs the files of the others, too." in found.notes
    assert [table.name for table in found.tables()] == ["collective"]


@pytest.mark.parametrize(
    ("unknown", "sized", "algorithm", "bus"),
    [
        ({"dtype": None}, False, False, False),
        ({"In msg nelems": None, "Out msg nelems": None}, False, False, False),
        ({"Group size": None}, True, True, False),
    ],
)
def test_nothing_is_invented(tmp_path: Path, unknown: dict[str, None], sized: bool, algorithm: bool, bus: bool) -> None:
    use = each(answer(write(tmp_path, job(), **unknown)))["all_reduce"]
    assert (use.smallest is not None, use.algorithm_bandwidth is not None) == (sized, algorithm)
    assert (use.bus_bandwidth is not None) == bus
    assert use.skew is not None


def test_ranks_that_are_not_here_may_come_later(tmp_path: Path) -> None:
    found = answer(write(tmp_path, job())[:3])
    assert "Groups have up to 4 ranks, of which 3 are here: others may come later." in found.notes


def test_a_filter_counts(tmp_path: Path) -> None:
    paths = write(tmp_path, job())
    assert sum(use.rows for use in answer(paths, filter=ktrace.Filter(ranks=[0, 3])).collectives) == 60
    with pytest.raises(InputError, match="no row is on stream 7"):
        ktrace.summary(paths, by=["collective"], filter=ktrace.Filter(streams=[7]))


def changed(path: str, change: Any) -> None:
    trace = json.loads(Path(path).read_text())
    for number, row in enumerate(trace["traceEvents"], 1):
        change(number, row)
    Path(path).write_text(json.dumps(trace))


def test_other_operations_with_the_same_number_are_not_the_same(tmp_path: Path) -> None:
    paths = write(tmp_path, job())

    def exchange(number: int, row: dict[str, Any]) -> None:
        if number == 6:
            row["args"]["Collective name"] = "_allgather_base"  # an all-reduce on the other ranks

    changed(paths[1], exchange)
    found = answer(paths)
    assert (found.joint, found.alone) == (29, 4)
    assert any(note.startswith("1 have the same number on several ranks") for note in found.notes)


def test_sends_are_not_matched(tmp_path: Path) -> None:
    paths = write(tmp_path, job(4))
    for path in paths:
        changed(path, lambda number, row: row["args"].update({"Collective name": "send"} if number == 2 else {}))
    send = each(answer(paths))["send"]
    assert (send.rows, send.joint, send.skew) == (4, 0, None)


def test_many_sizes_become_classes(tmp_path: Path) -> None:
    paths = write(tmp_path, job(40))
    for path in paths:
        changed(
            path,
            lambda number, row: row["args"].update(
                {"Collective name": "allreduce", "dtype": "Byte", "In msg nelems": 1000 + 100 * number}
            ),
        )
    found = answer(paths)
    assert [(use.smallest, use.largest, use.count) for use in found.collectives] in (
        [(1100, 4000, 30), (4100, 5000, 10)],
        [(1100, 4000, 30), (4100, 5000, 10)][::-1],
    )
    sizes = {row[0] for row in found.tables(brief=True)[0].rows}
    assert sizes == {"all_reduce 1.1 kB to 4.0 kB", "all_reduce 4.1 kB to 5.0 kB"}


def test_ranks_without_a_common_clock_have_no_skew(tmp_path: Path) -> None:
    """Two collectives are too few to align clocks that nothing relates."""
    times = [one for one in job(8) if one[0] == "allreduce"]
    paths = []
    for r in (0, 1):
        lines: list[dict[str, Any]] = [{"ktrace": "1.0"}]
        clock = {"record": "catalog", "source": f"r{r}", "id": 0, "entity": "clock", "facts": {"kind": f"k{r}"}}
        lines.append(clock)
        for number, (_, begin, dur) in enumerate(times, 1):
            row = {"record": "event", "source": f"r{r}", "id": number, "kind": "kernel", "timing": "measured"}
            row |= {"name": "ncclDevKernel_AllReduce_Sum", "device": r, "comm": "0", "comm_seq": number, "bytes": 1000}
            lines.append(row | {"ts": begin[r], "dur": dur[r]})
        path = tmp_path / f"r{r}.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        paths.append(str(path))
    found = answer(paths)
    (use,) = found.collectives
    assert (found.clocks, found.joint, use.skew, use.last) == ("unknown", 2, None, None)
    assert use.transfer is not None  # which no clock has to be known for
    assert [(one.last, one.waited) for one in found.ranks] == [(None, None)] * 2
    assert "Skew isn't known: the clocks of the ranks can't be related." in found.notes


def test_the_sample_of_two_ranks() -> None:
    """Rank 1 is late, and its clock 37.25 us ahead."""
    found = answer([str(SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json") for rank in (0, 1)])
    (use,) = found.collectives
    assert (use.operation, use.smallest, use.count, use.last, use.last_share) == ("all_reduce", 8 << 20, 6, "1", 100)
    assert use.transfer is not None
    assert use.algorithm_bandwidth == pytest.approx((8 << 20) / (use.transfer.median / 1e9), rel=0.01)
    assert found.clocks == "collective"
    late = found.straggler
    assert isinstance(late, RankUse)
    assert (late.label, late.last, late.joint) == ("1", 6, 6)


def test_a_source_without_collectives_keeps_its_unix_time(tmp_path: Path) -> None:
    """Rank 3 only sends; the clock of rank 1 is wrong, and still corrected."""
    paths = write(tmp_path, job(), ahead=(0, 3_000_000, 0, 0))
    changed(paths[3], lambda number, row: row["args"].update({"Collective name": "send"}))
    found = answer(paths)
    assert (found.clocks, found.joint) == ("collective", 30)
    assert sum(use.rows for use in found.collectives if use.operation == "send") == 30
    assert {use.joint for use in found.collectives if use.operation == "send"} == {0}


def test_what_decides_is_first_on_a_narrow_terminal(tmp_path: Path) -> None:
    table, ranks = answer(write(tmp_path, job())).tables(brief=True)
    lines = as_text([table], width=80).splitlines()
    assert lines[1].split() == ["collective", "group", "busbw", "skew", "last", "rank", "count"]
    assert max(map(len, lines[1 : 1 + len(table.rows)])) <= 80
    row = next(line for line in lines if line.startswith("all_reduce 4.2 MB"))
    assert row.split()[3:5] == ["0", "default_pg"]
    assert row.split()[6] == "GB/s"
    assert [column.name for column in ranks.columns][:4] == ["rank", "last", "last", "others waited"]
    assert [cells[0] for cells in ranks.rows] == ["0", "1", "2", "3"]


def test_with_few_lines_the_worst_ranks_are_shown(tmp_path: Path) -> None:
    _, ranks = answer(write(tmp_path, job())).tables(2, brief=True)
    assert ranks.more == 2
    assert ranks.rows[0][0] == "2"


def test_a_name_that_is_no_question_is_an_error() -> None:
    with pytest.raises(UsageError, match="collectives"):
        ktrace.summary(str(SAMPLES / "kineto/collectives-of-two-ranks-rank0.json"), by=["collectives"])


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the corpus")
def test_a_rank_of_a_real_job() -> None:
    """HTA's trace of one of two ranks, against arithmetic on its JSON."""
    import gzip

    path = SHARED / "corpus/pytorch_kineto/nccl_data.json.gz"
    trace = json.loads(gzip.decompress(path.read_bytes()))
    mine = [row for row in trace["traceEvents"] if row.get("cat") == "kernel" and "nccl" in row["name"]]
    expected: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for row in mine:
        assert row["args"]["Group size"] == 2
        width = {"Float": 4, "Long": 8}[row["args"]["dtype"]]
        expected[row["args"]["Collective name"], width * row["args"]["In msg nelems"]].append(row["dur"])
    found = answer([str(path)])
    assert len(found.collectives) == len(expected) == 7
    for use in found.collectives:
        durations = expected[use.operation.replace("_", ""), use.largest or 0]
        assert (use.count, use.median) == (len(durations), pytest.approx(1000 * median(durations)))
        rate = (use.largest or 0) / (median(durations) / 1e6)
        assert use.bus_bandwidth == use.algorithm_bandwidth == pytest.approx(rate)  # of two ranks both factors are 1
