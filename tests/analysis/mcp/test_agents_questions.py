"""The evaluation of `python -m tests.agents`: its truth and its ways, a question of each kind; all at night."""

from __future__ import annotations

from pathlib import Path

import pytest
from agents.questions import ASKED, WORLDS, Question, questions
from agents.ways import WAYS, is_right


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[Question]:
    return list(questions(tmp_path_factory.mktemp("asked")))


def test_there_are_sixty_and_more_of_all_kinds(asked: list[Question]) -> None:
    assert len(asked) >= 60
    assert {one.kind for one in asked} == set(ASKED)
    assert [one.true for one in asked].count(None) == 4, "nothing to be named"


@pytest.mark.parametrize("way", ["ktrace mcp", "shell"])
def test_the_tools_answer_each_kind(asked: list[Question], way: str) -> None:
    for kind in ASKED:
        question = next(one for one in asked if one.kind == kind)
        told = WAYS[way](question)
        assert is_right(question, told.answer), f"{question}: {told.answer}, not {question.true}"
        assert 1 <= told.calls <= 3 and 200 < told.bytes < 40_000


def test_where_nothing_is_to_be_named_nothing_is(asked: list[Question]) -> None:
    for question in (one for one in asked if one.true is None):
        assert WAYS["ktrace mcp"](question).answer is None, str(question)


def test_a_first_script_is_right_about_sums_and_silent_about_causes(asked: list[Question]) -> None:
    by_kind = {one.kind: WAYS["plain JSON with Python"](one) for one in asked[: len(ASKED) * len(WORLDS)] if one.true}
    total = next(one for one in asked if one.kind == "total")
    assert is_right(total, WAYS["plain JSON with Python"](total).answer)
    assert by_kind["cause"].answer is None


@pytest.mark.nightly
def test_all_questions(asked: list[Question]) -> None:
    right = [is_right(one, WAYS["ktrace mcp"](one).answer) for one in asked]
    assert sum(right) >= len(right) - 2


def test_what_counts_as_right() -> None:
    def question(true: int | str | None) -> Question:
        return Question("total", (Path("x"),), true)

    assert is_right(question(1_000_000), 1_000_900) and not is_right(question(1_000_000), 1_002_000)
    assert is_right(question("void softmax<float>(x)"), "softmax<float>") and not is_right(question("gemm"), "softmax")
    assert is_right(question(None), None) and not is_right(question(None), "3") and not is_right(question("3"), None)
