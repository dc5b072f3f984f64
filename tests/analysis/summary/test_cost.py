"""`ktrace summary --price`: the cost of the time of devices, by plain arithmetic over the source's own times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SAMPLES

import ktrace
from ktrace.analysis.answers.summary.cost import CostAnswer, price_of
from ktrace.cli import cli

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
INFERENCE = SAMPLES / "kineto/phases-of-inference.pt.trace.json"
RANKS = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in range(2)]


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["summary", *map(str, arguments)], catch_exceptions=False)
    return result.exit_code, result.output


def cost(paths: Path | list[Path], price: str) -> CostAnswer:
    answer = ktrace.summary(paths, by=["operation"], price=price).answers["cost"]
    assert isinstance(answer, CostAnswer)
    return answer


def test_parts_are_the_step_at_the_price() -> None:
    """A step of 1,004,928 ns on one device, by its own annotation, at 3,600 an hour: 1 a second."""
    events = json.loads(STEP.read_text())["traceEvents"]
    step = next(one for one in events if one["name"].startswith("ProfilerStep#") and one["cat"] == "user_annotation")
    answer = cost(STEP, "3600/h")
    table = answer.tables()[0]
    costs = dict(zip((row[0] for row in table.rows), (row[1] for row in table.rows), strict=True))
    assert costs["all"] == pytest.approx(step["dur"] / 1e6, rel=1e-12)
    assert sum(float(one) for name, one in costs.items() if name != "all") == pytest.approx(costs["all"], rel=1e-12)  # type: ignore[arg-type]
    assert answer.steps == 1 and table.rows[0][3] == pytest.approx(step["dur"], rel=1e-12)


def test_a_million_tokens_cost_what_they_take_on_all_devices() -> None:
    phases: Any = ktrace.summary(INFERENCE, by=["phase"]).answers["phase"]
    of_tokens = cost(INFERENCE, "7200/h").tables()[1]
    said = {row[0]: (row[1], row[3]) for row in of_tokens.rows}
    assert said == {
        use.phase: (use.tokens, pytest.approx(2 * use.elapsed / 1e9 / use.tokens * 1e6)) for use in phases.phases
    }


def test_ranks_state_the_same_tokens_so_theirs_arent_added_up() -> None:
    answer = cost(RANKS, "1/h")
    assert answer.devices == 2 and not answer.tokens and len(answer.tables()) == 1


@pytest.mark.parametrize(("text", "price"), [("2.5/h", 2.5), ("$4/hour", 4.0), ("€ 0.35 / h", 0.35), ("12/hr", 12.0)])
def test_prices(text: str, price: float) -> None:
    assert price_of(text) == price


@pytest.mark.parametrize("text", ["", "2.5", "cheap", "0/h", "-1/h", "2.5/s", "2,5/h", "1e9/h", "nan/h", "2.5/h/h"])
def test_what_isnt_a_price_is_refused(text: str) -> None:
    with pytest.raises(ktrace.UsageError, match="isn't the price of a device"):
        ktrace.summary(STEP, by=["operation"], price=text)


def test_the_table_follows_what_else_was_asked_for() -> None:
    code, said = run(STEP, "--price", "2.5/h")
    assert code == 0 and "cost of 1 device at 2.5 an hour each" in said and "by operation" not in said
    code, said = run(STEP, "--price", "2.5/h", "--by", "operation")
    assert code == 0 and "cost of 1 device" in said and "by operation" in said
    assert "phase information" not in said  # which nobody asked for
    assert "cost of" not in run(STEP)[1]


def test_by_cost_needs_a_price() -> None:
    with pytest.raises(ktrace.UsageError, match="--by cost needs a price"):
        run(STEP, "--by", "cost")


def test_without_device_work_the_cost_isnt_known() -> None:
    code, said = run(SAMPLES / "doppler/prefill-and-three-decodes.log", "--price", "1/h")
    assert code == 0 and "The cost isn't known." in said and "an hour each" not in said
