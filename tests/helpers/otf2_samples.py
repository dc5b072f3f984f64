"""Makes the samples of OTF2 traces by OTF2's own writer: `python -m tests.helpers.otf2_samples` writes them anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FOLDER = Path(__file__).parents[2] / "samples" / "otf2"

#: Ticks in a second: two in a ns and a bit. The first tick, and its real time in s.
RESOLUTION, OFFSET, UNIX = 2_100_000_000, 7_000_000_000_000, 1_767_225_600


@contextmanager
def trace(folder: Path, name: str, resolution: int, creator: str = "") -> Iterator[Any]:
    """A writer of a new trace, whose clock's facts don't depend on the day."""
    import otf2

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with otf2.writer.open(str(folder), name, timer_resolution=resolution) as writer:
        writer.creator = creator
        yield writer
        writer._realtime_timestamp = UNIX


def places(define: Any) -> SimpleNamespace:
    """Two ranks on a node, with a thread and a stream each and a second thread of the first; who takes part in what."""
    import otf2
    from otf2 import LocationType, Paradigm

    machine = define.system_tree_node("Linux", class_name="machine")
    node = define.system_tree_node("node07", class_name="node", parent=machine)
    card = define.system_tree_node("card", class_name="device", parent=node)
    define.system_tree_node_property(card, "CUDA PCI bus ID", value="0000:65:00.0")
    ranks = [define.location_group(f"MPI Rank {rank}", system_tree_parent=node) for rank in range(2)]
    contexts = [
        define.location_group(
            "CUDA Context 1",
            location_group_type=otf2.LocationGroupType.ACCELERATOR,
            system_tree_parent=card,
            creating_location_group=rank,
        )
        for rank in ranks
    ]
    threads = [define.location("Master thread", group=rank) for rank in ranks]
    helper = define.location("OMP thread 1", group=ranks[0])
    streams = [
        define.location(f"CUDA[{number}:7]", type=LocationType.ACCELERATOR_STREAM, group=group)
        for number, group in enumerate(contexts)
    ]
    define.location_property(streams[0], "cudaStreamPriority", value="-1")
    define.group("", otf2.GroupType.COMM_LOCATIONS, Paradigm.MPI, members=threads)
    world = define.comm("MPI_COMM_WORLD", define.group("", otf2.GroupType.COMM_GROUP, Paradigm.MPI, members=[0, 1]))
    define.group("", otf2.GroupType.COMM_LOCATIONS, Paradigm.CUDA, members=[threads[0], threads[1], *streams])
    members = define.group("", otf2.GroupType.COMM_GROUP, Paradigm.CUDA, members=[0, 1, 2, 3])
    window = define.rma_win("CUDA_WINDOW", define.comm("", members))

    return SimpleNamespace(threads=threads, helper=helper, streams=streams, world=world, window=window)


def regions(define: Any) -> SimpleNamespace:
    """What the ranks do, and what is measured."""
    import otf2
    from otf2 import Paradigm, RegionRole

    def region(name: str, paradigm: Any, role: Any = RegionRole.FUNCTION, **columns: Any) -> Any:
        return define.region(name, paradigm=paradigm, region_role=role, **columns)

    main = region("main", Paradigm.COMPILER, source_file="solve.c", begin_line_number=12)
    solve = region("solve", Paradigm.USER)
    launch = region("cudaLaunchKernel", Paradigm.CUDA, RegionRole.WRAPPER)
    kernel = region("stencil_kernel(double*)", Paradigm.CUDA, RegionRole.KERNEL)
    send, wait = (region(name, Paradigm.MPI, RegionRole.POINT2POINT) for name in ("MPI_Isend", "MPI_Waitall"))
    reduce = region("MPI_Allreduce", Paradigm.MPI, RegionRole.COLL_ALL2ALL)
    size = define.attribute("ALLOCATION_SIZE", "", otf2.Type.UINT64)
    step = define.parameter("step", otf2.ParameterType.UINT64)
    papi = define.metric_class(
        [
            define.metric_member("PAPI_TOT_CYC", "Total cycles", value_type=otf2.Type.UINT64, unit="cycles"),
            define.metric_member("energy", value_type=otf2.Type.DOUBLE, exponent=-3, unit="J"),
        ],
        occurrence=otf2.MetricOccurrence.SYNCHRONOUS_STRICT,
    )

    return SimpleNamespace(
        main=main,
        solve=solve,
        launch=launch,
        kernel=kernel,
        send=send,
        wait=wait,
        reduce=reduce,
        size=size,
        step=step,
        papi=papi,
    )


def two_ranks(folder: Path) -> None:
    """Score-P with CUDA, PAPI and MPI: streams, a late message, a begin and an end alone."""
    with trace(folder, "traces", RESOLUTION, "Score-P 9.0") as made:
        at, does = places(made.definitions), regions(made.definitions)
        for rank, thread in enumerate(at.threads):
            device_work(made.event_writer_from_location(at.streams[rank]), OFFSET + 2_100 * rank, at.window, rank, does)
            host_work(made.event_writer_from_location(thread), OFFSET + 2_100 * rank, at.world, rank, does)
        helper = made.event_writer_from_location(at.helper)
        helper.thread_begin(OFFSET + 9_000, at.world, 1)
        helper.enter(OFFSET + 9_450, does.solve)
        helper.leave(OFFSET + 9_471, does.solve)
        helper.leave(OFFSET + 9_472, does.solve)


def device_work(device: Any, at: int, window: Any, rank: int, does: SimpleNamespace) -> None:
    device.rma_get(at + 2_520, window, rank, 8_192, 11)
    device.rma_op_complete_blocking(at + 4_620, window, 11)
    device.enter(at + 6_300, does.kernel)
    device.leave(at + 27_300, does.kernel)
    device.rma_put(at + 27_301, window, rank, 64, 12)
    device.rma_op_complete_blocking(at + 27_511, window, 12)


def host_work(host: Any, at: int, world: Any, rank: int, does: SimpleNamespace) -> None:
    """The second rank posts two receives, of which the second is completed first; it never leaves main."""
    import otf2

    host.program_begin(at, "./solve", ["-n", "64"])
    host.enter(at + 21, does.main)
    host.metric(at + 42, does.papi, [1_000 + rank, 1_500.0])
    host.enter(at + 42, does.solve)
    host.parameter_unsigned_int(at + 42, does.step, 5)
    host.enter(at + 2_100, does.launch, attributes={does.size: 4_096})
    host.leave(at + 2_310, does.launch)
    if rank == 0:
        for request, begin in enumerate((at + 30_000, at + 30_420), 1):
            host.enter(begin, does.send)
            host.mpi_isend(begin, 1, world, 7, 100 * request, request)
            host.leave(begin + 210, does.send)
    else:
        host.mpi_irecv_request(at + 29_000, 3)
        host.mpi_irecv_request(at + 29_001, 4)
        host.enter(at + 30_000, does.wait)
        host.mpi_irecv(at + 33_000, 0, world, 7, 200, 4)
        host.mpi_irecv(at + 34_000, 0, world, 7, 100, 3)
        host.leave(at + 34_020, does.wait)
    host.enter(at + 40_000, does.reduce)
    host.mpi_collective_begin(at + 40_000)
    host.mpi_collective_end(at + 44_200, otf2.CollectiveOp.ALLREDUCE, world, 0xFFFFFFFF, 8, 8)
    host.leave(at + 44_200, does.reduce)
    host.metric(at + 46_200, does.papi, [22_000 + rank, 2_750.0])
    host.leave(at + 46_200, does.solve)
    if rank == 0:
        host.buffer_flush(at + 46_300, at + 46_510)
        host.leave(at + 48_300, does.main)
        host.program_end(at + 48_321, 0)


def rocprofv3(folder: Path) -> None:
    """As rocprofv3 writes it: a category of each region, copies that overlap, the host as a class."""
    import otf2
    from otf2 import LocationType, Paradigm, RegionRole

    with trace(folder, "40_results", 1_000_000_000) as made:
        define = made.definitions
        category = define.attribute("category", "tracing category")
        root = define.system_tree_node("./app", class_name="gpu-host")
        process = define.location_group("./app", system_tree_parent=root)
        agents = [
            define.location_group(name, location_group_type=otf2.LocationGroupType.ACCELERATOR, system_tree_parent=root)
            for name in ("cpu", "gfx90a")
        ]
        stream = LocationType.ACCELERATOR_STREAM
        host = define.location("Thread 41", group=process)
        back = define.location("Thread 41, Copy to CPU 0", type=stream, group=agents[0])
        copies = define.location("Thread 41, Copy to GPU 4", type=stream, group=agents[1])
        queue = define.location("Thread 41, Compute on GPU 4, Queue 0", type=stream, group=agents[1])
        transfer = RegionRole.DATA_TRANSFER
        api = define.region("hipLaunchKernel", paradigm=Paradigm.HIP)
        mark = define.region("step 1", paradigm=Paradigm.USER)
        kernel = define.region("saxpy(float*)", paradigm=Paradigm.HIP)
        down = define.region("MEMORY_COPY_HOST_TO_DEVICE", region_role=transfer, paradigm=Paradigm.HIP)
        up = define.region("MEMORY_COPY_DEVICE_TO_HOST", region_role=transfer, paradigm=Paradigm.HIP)
        boot = 9_000_000_000
        for location, region, begin, end, what in sorted(
            (
                (host, mark, 0, 9_000, "marker_api"),
                (host, api, 100, 350, "hip_api"),
                (copies, down, 1_000, 3_000, "memory_copy"),
                (copies, up, 2_000, 4_000, "memory_copy"),
                (queue, kernel, 3_100, 7_100, "kernel_dispatch"),
                (back, up, 7_200, 7_900, "memory_copy"),
            ),
            key=lambda one: one[2],
        ):
            made.event_writer_from_location(location).enter(boot + begin, region, attributes={category: what})
            if region is not mark and location is not copies:
                made.event_writer_from_location(location).leave(boot + end, region)
        made.event_writer_from_location(copies).leave(boot + 3_000, down)
        made.event_writer_from_location(copies).leave(boot + 4_000, up)
        made.event_writer_from_location(host).leave(boot + 9_000, mark)


def main() -> None:
    two_ranks(FOLDER / "two-ranks-streams-late-receives")
    rocprofv3(FOLDER / "rocprofv3-copies-overlap")


if __name__ == "__main__":
    main()
