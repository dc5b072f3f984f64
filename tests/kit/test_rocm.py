"""What all of ROCm's profilers share."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ktrace.kit.rocm import common as rocm


def test_work_items_are_blocks_and_what_those_do_not_say_is_left() -> None:
    grid = pa.array([1024, 1000, 0, None, 512, -8, (1 << 62) + 1])
    found = rocm.blocks_of(grid, pa.array([256, 256, 64, 64, 0, 4, 2]))
    assert found is not None
    assert found.blocks.to_pylist() == [4, 4, 0, None, None, None, (1 << 61) + 1]
    assert found.left.to_pylist() == [None, 1000, None, None, 512, -8, (1 << 62) + 1]


def test_without_a_workgroup_there_are_no_blocks() -> None:
    found = rocm.blocks_of(pa.array([7]), None)
    assert found is not None
    assert (found.blocks.to_pylist(), found.left.to_pylist()) == ([None], [7])
    assert rocm.blocks_of(None, pa.array([7])) is None


@pytest.mark.parametrize(
    ("word", "way"),
    [
        ("MEMORY_COPY_HOST_TO_DEVICE", "HtoD"),
        ("HOST_TO_DEVICE", "HtoD"),
        ("CopyDeviceToHost", "DtoH"),
        ("DEVICE_TO_DEVICE", "DtoD"),
        ("MEMORY_COPY_HOST_TO_HOST", "HtoH"),
        (1, "HtoD"),
        (2, "DtoH"),
        (3, "DtoD"),
        (4, None),
        ("MEMORY_COPY_NONE", None),
        (None, None),
    ],
)
def test_directions_have_one_word(word: str | int | None, way: str | None) -> None:
    assert rocm.copy_kind(word) == way


def test_columns_of_directions_may_be_texts_or_numbers() -> None:
    texts = rocm.copy_kinds(pa.array(["HOST_TO_DEVICE", None, "?"]).dictionary_encode())
    assert texts is not None
    assert texts.to_pylist() == ["HtoD", None, None]
    numbers = rocm.copy_kinds(pa.array([1, 4, None]))
    assert numbers is not None
    assert numbers.to_pylist() == ["HtoD", None, None]


def test_kernels_with_the_suffix_of_the_descriptor_have_short_names() -> None:
    names = pa.array(["add.kd", "add(int) [clone .kd]", "void ns::add<float, 4>(int) (.kd)", "add.kd.x", ".kd", None])
    assert rocm.short_names(names).to_pylist() == ["add", "add", "add", None, None, None]


def test_agents_are_numbers() -> None:
    words = rocm.agents(pa.array(["Agent 4", "5", "CPU", None]))
    assert words is not None
    assert words.to_pylist() == [4, 5, None, None]
    assert rocm.agents(pa.array([3])) == pa.array([3])


def test_a_sum_is_a_mean_only_where_the_number_of_units_is_known() -> None:
    assert rocm.mean_counter("SQ_BUSY_CYCLES", 8, 32) == ("SQ_BUSY_CYCLES_avr", 32)
    assert rocm.mean_counter("GRBM_GUI_ACTIVE", 8, 32) == ("GRBM_GUI_ACTIVE_avr", 8)
    assert rocm.mean_counter("GRBM_GUI_ACTIVE", None, 32) is None
    assert rocm.mean_counter("SQ_WAVES", 8, 32) is None
