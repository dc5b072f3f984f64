"""What collectives are called, what they move, and the factors of nccl-tests."""

from __future__ import annotations

import pytest

from ktrace.analysis.questions.collectives.rows import factor_of, facts_of, moved
from ktrace.naming.taxonomy import operation_in


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_half", "reduce_scatter"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("ncclKernel_Reduce_RING_LL_Sum_float", "reduce"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", None),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>", "all_reduce"),
        ("hcom_allReduce__77_0_1", "all_reduce"),
        ("hcom_reduceScatter__77_0_1", "reduce_scatter"),
        ("_allgather_base", "all_gather"),
        ("all_gather_into_tensor_coalesced", "all_gather"),
        ("allreduce_coalesced", "all_reduce"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("nccl:send 1->2", "send"),
        ("nccl:recv 2<-1", "recv"),
        ("gather", "gather"),
        ("scatter", "scatter"),
        ("barrier", "barrier"),
    ],
)
def test_operations(name: str, operation: str | None) -> None:
    assert operation_in(name) == operation


def kineto(operation: str, sent: int, received: int, dtype: str = "BFloat16", **others: object) -> dict[str, object]:
    """The arguments of a collective of 4 ranks."""
    sizes = {"In msg nelems": sent, "Out msg nelems": received, "dtype": dtype, "Group size": 4}
    return {"Collective name": operation, **sizes, **others}


@pytest.mark.parametrize(
    ("dims", "kinds", "sent"),
    [
        ([[16, 99]], ["float"], 6336),
        ([[3], [5]], ["c10::BFloat16", "long int"], 46),
        ([[[3], [5]]], ["TensorList"], None),
        ([[3], [5]], ["float"], None),
        ([[1 << 40, 1 << 40]], ["float"], None),
        ("[[3]]", ["float"], None),
    ],
)
def test_bytes_of_torch_s_tensors(dims: object, kinds: object, sent: int | None) -> None:
    facts = facts_of({"Input Dims": dims, "Input type": kinds})
    assert (facts.sent, moved("all_reduce", facts, None)) == (sent, sent)
    assert moved("all_gather", facts, None) is None  # of how many ranks?


@pytest.mark.parametrize(
    ("args", "size", "expected"),
    [
        (kineto("allreduce", 1000, 1000), None, 2000),
        (kineto("_allgather_base", 1000, 4000), None, 8000),  # the whole output
        (kineto("reduce_scatter_tensor_coalesced", 4000, 1000, "Float"), None, 16_000),  # the whole input
        (kineto("all_to_all", 4000, 4000, "Char"), None, 4000),
        (kineto("broadcast", 53, 53, "Float8_e4m3fn"), None, 53),
        (kineto("recv", 0, 500, "Double"), None, 4000),
        (kineto("gather", 1000, 0), None, 8000),  # that of all ranks
        (kineto("allreduce", 1000, 1000, "Unheard"), None, None),
        (kineto("allreduce", -1, -1), None, None),
        (kineto("allreduce", 1 << 61, 1 << 61), None, None),
        ({"Collective name": "allreduce"}, None, None),
        ({"Collective name": "allreduce", "In msg nelems": "many", "dtype": 4}, None, None),
        ({"Collective name": "barrier", "In msg nelems": 1, "dtype": "Float"}, None, None),
        # NCCL Inspector: the bytes of one rank
        ({"n_ranks": 4, "Collective name": "AllReduce"}, 1 << 20, 1 << 20),
        ({"n_ranks": 4, "Collective name": "AllGather"}, 1 << 20, 4 << 20),
        ({"n_ranks": 4, "Collective name": "ReduceScatter"}, 1 << 20, 4 << 20),
        ({"n_ranks": 4, "Collective name": "Send"}, 1 << 20, 1 << 20),
        ({"Collective name": "AllGather"}, 1 << 20, None),  # of how many ranks?
        # the flight recorder: bytes of the input, and the sizes of the output
        ({"Collective name": "all_gather", "output_sizes": [[4, 3], [2]], "output_dtypes": ["Float", "Half"]}, 12, 52),
        ({"Collective name": "all_gather", "output_sizes": [[4, "x"]], "output_dtypes": ["Float"]}, 12, None),
        # HCCL: elements of one rank
        ({"Collective name": "hcom_allGather_", "count": 512, "dataType": "FP16", "rankSize": 8}, None, 8192),
        ({"Collective name": "hcom_allReduce_", "count": 512, "data_type": "FP16"}, None, 1024),
    ],
)
def test_bytes(args: dict[str, object], size: int | None, expected: int | None) -> None:
    facts = facts_of(args)
    assert facts.operation is not None
    assert moved(facts.operation, facts, size) == expected


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        ("all_reduce", 2 * 7 / 8),
        ("all_gather", 7 / 8),
        ("reduce_scatter", 7 / 8),
        ("all_to_all", 7 / 8),
        ("broadcast", 1),
        ("reduce", 1),
        ("send_recv", 1),
    ],
)
def test_factors(operation: str, factor: float) -> None:
    """Those in doc/PERFORMANCE.md of nccl-tests, of 8 ranks."""
    assert factor_of(operation, 8) == factor
    assert factor_of(operation, None) == (factor if factor == 1 else None)
    assert factor_of(operation, 1) == (factor if factor == 1 else None)


def test_an_unknown_operation_has_no_factor() -> None:
    assert factor_of("ncclDevKernel_Generic", 8) is None


def test_a_group_without_a_description_has_none() -> None:
    assert facts_of({"Process Group Description": "undefined"}).group is None
    found = facts_of({"Process Group Description": "tp", "Process Group Ranks": "[0, 1]"})
    assert (found.group, found.members) == ("tp", "[0, 1]")
