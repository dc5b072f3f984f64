"""One world in four formats: each file says the same of the same schedule, as far as the format can say it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ktrace
from worlds import Truth, World, build, plants, questions, write
from worlds.databases import nsys, rocpd, xplane

WRITERS = {"json": write, "sqlite": nsys, "db": rocpd, "xplane.pb": xplane}


def _world(seed: int) -> World:
    planted = ([], [plants.synchronisation()], [plants.slow_host(3.0)], [plants.extra_copy()])
    return build(seed, plants=planted[seed % 4], since=0.3 * (seed % 3 == 2), drop=0.01 * (seed % 5 == 4))


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("seed", range(6))
def test_the_work_of_a_world_is_the_same_in_each_format(seed: int, ending: str, tmp_path: Path) -> None:
    world = _world(seed)
    truth = Truth(world)
    trace = ktrace.read(WRITERS[ending](world, tmp_path / f"run.{ending}"))
    rows = trace.events.to_dict("records")
    work = [row for row in rows if row["kind"] in ("kernel", "memcpy")]
    first = min(one.begin for one in truth.work)
    start = min(row["ts"] for row in work)
    names = {"copy": "memcpy", "collective": "kernel", "kernel": "kernel"}
    assert Counter((row["kind"], row["ts"] - start, row["dur"], row["stream"]) for row in work) == Counter(
        (names[one.kind], one.begin - first, one.dur, one.stream) for one in truth.work
    )
    kernels = Counter(row["name"] for row in work if row["kind"] == "kernel")
    assert kernels == Counter(one.name for one in truth.work if one.kind != "copy")
    calls = Counter(row["dur"] for row in rows if row["kind"] == "api")
    assert ending == "xplane.pb" or calls == Counter(one.dur for one in truth.records if one.kind == "api")


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("seed", range(6))
def test_the_use_of_the_device_is_the_same_in_each_format(seed: int, ending: str, tmp_path: Path) -> None:
    world = _world(seed)
    used = Truth(world).use()
    (device,) = ktrace.summary(WRITERS[ending](world, tmp_path / f"run.{ending}")).devices
    assert (device.span, device.busy, device.idle, device.compute, device.exposed_copies) == (
        used.span, used.busy, used.idle, used.compute, used.exposed_copies,
    )  # fmt: skip


@pytest.mark.parametrize("form", [form for form in questions.WRITERS if form != "Kineto"])
def test_causes_and_the_path_are_the_truth_in_other_formats(form: str, tmp_path: Path) -> None:
    """Of seed 3, a host that waits for the device hands over to the backward thread, as the names of ranges tell."""
    assert all(questions.idle(seed, tmp_path, form).is_exact for seed in (0, 1, 3))
    assert all(questions.critical_path(seed, tmp_path, form).is_exact for seed in (1, 3))
