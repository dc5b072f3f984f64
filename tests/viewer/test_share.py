"""`ktrace share`: the page, the part that it hands to the Perfetto UI, the key, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from browser import local_pages
from click.testing import CliRunner
from conftest import SAMPLES

import ktrace
from ktrace.cli import cli
from ktrace.viewer import share as sharing

TRACE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def ran(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["share", *map(str, arguments)])
    return result.exit_code, result.output


def test_a_page_says_the_verdict_and_hands_its_part_to_the_ui(browser: Any, tmp_path: Path) -> None:
    code, said = ran(TRACE, "-o", tmp_path / "run.html")
    assert code == 0
    assert "in Perfetto it opens all of it" in said
    assert [path.name for path in tmp_path.iterdir()] == ["run.html"], "no key without a redaction"
    with local_pages(browser, 1200, 30_000) as context:
        page, wrong = context.new_page(), list[str]()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto((tmp_path / "run.html").as_uri())
        page.wait_for_selector("html[data-drawn=yes]")
        verdict = ktrace.summary(TRACE, by=("idle", "operation", "kernel")).verdict
        assert verdict[0] in page.inner_text(".verdict")
        page.wait_for_selector("#open:not([hidden])")
        assert page.inner_text("#open") == "open in Perfetto"
        held = page.evaluate("async () => [...new Uint8Array(await ask.window())]")
        assert not wrong
    whole = tmp_path / "whole.perfetto"
    whole.write_bytes(bytes(held))
    assert len(ktrace.read(whole).events.query("kind == 'kernel'")) == 14


def test_of_a_long_trace_the_middle_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MOST", 76_000)
    code, said = ran(TRACE, "-o", tmp_path / "run.html")
    assert code == 0
    assert "of its 1.0" in said
    assert (tmp_path / "run.html").stat().st_size <= 76_000
    shared = sharing.share(TRACE, tmp_path / "again.html")
    assert 0 < shared.part[0] < shared.part[1] < shared.length
    assert shared.part[0] == shared.length - shared.part[1], "as much before it as after it"


def test_where_the_overview_leaves_no_space_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MOST", 20_000)
    with pytest.raises(ktrace.InputError, match=r"leaves no space for its trace in 20.0 kB(?s:.*)--step"):
        sharing.share(TRACE, tmp_path / "run.html", redact=True)
    assert not [*tmp_path.iterdir()]


def test_the_key_is_its_owners_and_gives_the_same_tokens(tmp_path: Path) -> None:
    code, said = ran(TRACE, "-o", tmp_path / "run.html", "--redact")
    assert code == 0
    assert f"what each token stands for is in {tmp_path / 'run.key.json'}" in said
    replaced = said.splitlines()[-1]
    assert "names" in replaced
    first = json.loads((tmp_path / "run.key.json").read_text())
    assert "training" in first["tokens"].values()
    if os.name == "posix":
        assert (tmp_path / "run.key.json").stat().st_mode & 0o777 == 0o600
    assert ran(TRACE, "-o", tmp_path / "two.html", "--redact", "--key", tmp_path / "run.key.json")[0] == 0
    assert json.loads((tmp_path / "run.key.json").read_text()) == first
    code, said = ran(TRACE, "-o", tmp_path / "run.html", "--redact", "--overwrite")
    assert said.splitlines()[-1] == replaced, "what is replaced counts, also by tokens of before"
    assert (tmp_path / "two.html").read_bytes() == (tmp_path / "run.html").read_bytes()
    assert ran(TRACE, "-o", tmp_path / "three.html", "--redact")[0] == 0
    other = json.loads((tmp_path / "three.key.json").read_text())
    assert not other["tokens"].keys() & first["tokens"].keys()


def test_what_is_refused_leaves_nothing(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text('{"key": 1}')
    for arguments, expected in (
        ((TRACE,), "no output is named"),
        ((TRACE, "-o", tmp_path / "run.perfetto"), "isn't the name of a page"),
        ((TRACE, "-o", tmp_path / "run.html", "--key", key), "--key is for --redact"),
        ((TRACE, "-o", tmp_path / "run.html", "--redact", "--key", key), "isn't a key of ktrace share"),
        ((TRACE, "-o", tmp_path / "run.html", "--redact", "--key", tmp_path / "no/key.json"), "no/key.json"),
        ((TRACE, "-o", tmp_path / "run.html", "--redact", "--key", tmp_path / "run.html"), "is the page"),
        (
            (SAMPLES / "nvprof/metrics-printed-and-a-launch-a-row.txt", "-o", tmp_path / "run.html", "--redact"),
            "a-row.txt: has no slices",
        ),
        ((tmp_path / "none.json", "-o", tmp_path / "run.html", "--redact"), "none.json"),
    ):
        result = CliRunner().invoke(cli, ["share", *map(str, arguments)])
        said = result.output + str(result.exception or "")
        assert result.exit_code != 0
        assert expected in said, (arguments, said)
        assert [path.name for path in tmp_path.iterdir()] == ["key.json"]
