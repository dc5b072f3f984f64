"""What hosts do, as a list of steps for each rank: a training loop and a serving loop, made up from a seed.

All ranks of a job have the same list; what differs is how long things take. Times are ns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

COMPUTE, COPIES, COMM, SIDE = 7, 20, 24, 28
MAIN, AUTOGRAD, LOADER = 1, 2, 3

#: Kernels by what they do: their names are real ones, their operations are those of docs/operations.md.
KERNELS = {
    "gemm": "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "attention": "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>>",
    "norm": "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)",
    "gelu": "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl, at::detail::Array>",
    "softmax": "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>(float*)",
    "adam": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>(int)",
    "all_reduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
}
#: Typical durations in ns, before the scale of a world.
USUAL = {"gemm": 90_000, "attention": 60_000, "norm": 12_000, "gelu": 15_000, "softmax": 18_000, "adam": 70_000}
USUAL |= {"all_reduce": 120_000}
OPERATORS = {"gemm": "aten::addmm", "attention": "aten::scaled_dot_product_attention", "norm": "aten::layer_norm"}
OPERATORS |= {"gelu": "aten::gelu", "softmax": "aten::_softmax", "adam": "aten::_fused_adam_"}


@dataclass(slots=True)
class Do:
    """One thing that a host thread does.

    `do` is host (compute for `host` ns, in an operator if it has a `name`), open and close (a range or operator of
    `kind`), launch (a kernel, copy or collective of `dur`), graph (several, in `works`), record and wait (an event
    `key` on a stream), sync (with `stream`, or all), hand (thread `to` goes on when this one is here).
    """

    do: str
    name: str = ""
    kind: str = ""
    thread: int = MAIN
    host: int = 0  #: how long the host is in the call, or computes
    latency: int = 0  #: from the return of the call to the device
    dur: int = 0
    stream: int | None = None
    bytes: int | None = None
    key: str = ""
    to: int = 0
    what: str = ""
    works: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Shape:
    """How a world is: what `plan` draws from the seed, or a test states. `scale` multiplies what kernels take."""

    ranks: int = 1
    steps: int = 4
    layers: int = 6
    scale: float = 1.0
    jitter: float = 0.02
    host: int = 4_000
    uses_graph: bool = False
    syncs: bool = True
    batch: int = 1 << 22
    depth: int = 256


def shape_of(seed: int, **stated: object) -> Shape:
    """The shape of a world of this seed, with what is stated."""
    chance = Random(f"shape {seed}")
    drawn = Shape(
        steps=chance.choice((3, 4, 5)), layers=chance.randint(3, 8), scale=chance.choice((0.03, 0.1, 0.4, 1.0, 2.0)),
        jitter=chance.choice((0.005, 0.02, 0.05)), host=chance.randint(2_500, 7_000),
        uses_graph=chance.random() < 0.15, syncs=chance.random() < 0.8,
    )  # fmt: skip
    if stated.get("ranks", 1) != 1:  # a job whose ranks meet in each step, as the loss is logged
        drawn = replace(
            drawn, steps=chance.choice((6, 7, 8)), layers=chance.randint(3, 4), syncs=True, uses_graph=False
        )
    return replace(drawn, **stated)  # type: ignore[arg-type]


class Program:
    """Makes the list of one rank. `structure` draws what all ranks and runs share, `noise` what differs."""

    def __init__(self, shape: Shape, structure: Random, noise: Random) -> None:
        self.shape, self.structure, self.noise = shape, structure, noise
        self.todo: list[Do] = []
        self.thread = MAIN
        self._sizes: dict[str, float] = {}
        self._events = 0

    def training(self) -> list[Do]:
        """A training loop: loader, copy, forward, backward on its thread with collectives, optimizer, loss."""
        for step in range(self.shape.steps):
            self.open("step", f"ProfilerStep#{step + 10}")
            self.batch(step)
            self.open("range", "forward")
            if self.shape.uses_graph:
                self.graph()
            else:
                for layer in range(self.shape.layers):
                    self.layer(layer)
            self.close()
            self.backward()
            self.open("range", "Optimizer.step#AdamW.step")
            for part in range(2):
                self.kernel("adam", f"part {part}")
            self.close()
            if self.shape.syncs:
                self.loss()
            self.host(30_000)
            self.close()
        self.sync(None)
        return self.todo

    def vary(self, value: float, jitter: float | None = None) -> int:
        """A value with noise, never below a third."""
        spread = self.shape.jitter if jitter is None else jitter
        return round(value * max(0.33, self.noise.gauss(1.0, spread)))

    def add(self, do: str, **more: object) -> Do:
        """A further thing to do."""
        self.todo.append(Do(do, thread=self.thread, **more))  # type: ignore[arg-type]
        return self.todo[-1]

    def open(self, kind: str, name: str) -> None:
        self.add("open", kind=kind, name=name)

    def close(self) -> None:
        self.add("close")

    def host(self, dur: float, name: str = "") -> None:
        """The host computes, in an operator if it has a name."""
        self.add("host", host=self.vary(dur, 0.15), name=name)

    def call(self) -> dict[str, int]:
        """How long a launch takes on the host, and on its way."""
        return {"host": self.vary(3_200, 0.2), "latency": self.vary(2_300, 0.15)}

    def kernel(self, what: str, where: str, stream: int = COMPUTE) -> None:
        """An operator that launches a kernel, whose typical duration depends on where it is in the model."""
        size = self._sizes.setdefault(f"{what} {where}", USUAL[what] * self.structure.uniform(0.6, 1.6))
        engine = "autograd::engine::evaluate_function: " if self.thread == AUTOGRAD else ""
        self.open("op", f"{engine}{OPERATORS[what]}")
        self.host(self.shape.host)
        took = self.vary(size * self.shape.scale)
        self.add("launch", name=KERNELS[what], kind="kernel", what=what, dur=took, stream=stream, **self.call())
        self.host(self.shape.host / 3)
        self.close()

    def layer(self, number: int) -> None:
        """The forward pass of a layer."""
        for part in ("norm", "gemm", "attention", "gemm", "norm", "gemm", "gelu", "gemm"):
            self.kernel(part, f"{number} {len(self.todo) % 2} {part}")

    def batch(self, step: int) -> None:
        """The next batch from the loader, which works ahead on a thread of its own, and its copy to the device."""
        self.thread = LOADER
        took = self.vary(400_000, 0.05)
        self.add("host", host=took if step else 0, name="fetch batch", what="loader")
        self.add("hand", to=MAIN, name="enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__")
        self.thread = MAIN
        self.copy("Memcpy HtoD (Pinned -> Device)", self.shape.batch, COPIES)
        self.join(COPIES, COMPUTE)

    def copy(self, name: str, size: int, stream: int, *, what: str = "copy") -> None:
        """An asynchronous copy at some 20 GB/s."""
        self.open("op", "aten::copy_")
        self.host(self.shape.host / 2)
        took = self.vary(1_500 + size / 20)
        self.add("launch", name=name, kind="copy", what=what, dur=took, stream=stream, bytes=size, **self.call())
        self.close()

    def join(self, source: int, target: int) -> None:
        """Lets a stream wait for what is on another one now."""
        self._events += 1
        self.add("record", key=str(self._events), stream=source, host=self.vary(900))
        self.add("wait", key=str(self._events), stream=target, host=self.vary(800))

    def backward(self) -> None:
        """The backward pass on the thread of autograd; gradients are reduced on a stream of their own."""
        self.host(15_000)
        self.add("hand", to=AUTOGRAD)
        self.thread = AUTOGRAD
        for layer in reversed(range(self.shape.layers)):
            for number, part in enumerate(("gemm", "gelu", "gemm", "softmax", "gemm", "norm")):
                self.kernel(part, f"back {layer} {number}")
            if self.shape.ranks > 1:
                self.reduce(layer)
        if self.shape.ranks > 1:
            self.join(COMM, COMPUTE)
        self.add("hand", to=MAIN)
        self.thread = MAIN

    def reduce(self, layer: int) -> None:
        """An all-reduce of the gradients of a layer, beside the compute."""
        size = self._sizes.setdefault(f"reduce {layer}", USUAL["all_reduce"] * self.structure.uniform(0.6, 1.6))
        self.join(COMPUTE, COMM)
        self.open("op", "nccl:all_reduce")
        self.host(self.shape.host)
        self.add(
            "launch", name=KERNELS["all_reduce"], kind="collective", what="all_reduce", stream=COMM,
            dur=self.vary(size * self.shape.scale, 0.0), bytes=round(size) // 8 * 8 * 64, **self.call(),
        )  # fmt: skip
        self.close()

    def graph(self) -> None:
        """The forward pass as one graph."""
        works = []
        for layer in range(self.shape.layers):
            for part in ("norm", "gemm", "attention", "gemm", "norm", "gemm", "gelu", "gemm"):
                size = self._sizes.setdefault(f"{part} {layer}", USUAL[part] * self.structure.uniform(0.6, 1.6))
                works.append((part, self.vary(size * self.shape.scale)))
        self.add("graph", works=works, stream=COMPUTE, host=self.vary(9_000), latency=self.vary(5_000))

    def loss(self) -> None:
        """`loss.item()`: a small copy, for which the host waits."""
        self.open("op", "aten::item")
        self.copy("Memcpy DtoH (Device -> Pinned)", 4, COMPUTE, what="loss")
        self.sync(COMPUTE)
        self.close()

    def sync(self, stream: int | None) -> None:
        """The host waits for a stream, or for all."""
        self.add("sync", stream=stream, host=self.vary(1_800))


def programs(shape: Shape, seed: int, run: int) -> list[list[Do]]:
    """The list of each rank; another `run` of the same seed differs by noise alone."""
    return [
        Program(shape, Random(f"structure {seed}"), Random(f"noise {seed} {run} {rank}")).training()
        for rank in range(shape.ranks)
    ]
