"""The recipes beyond what tests/test_commands_of_docs.py runs: a store of s3, a notebook."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SAMPLES
from doc_commands import Command, found
from doc_files import rank
from fork_server import with_program
from worlds import kineto, plants, world

import ktrace

RECIPES = ROOT / "docs/recipes"


@pytest.fixture
def store() -> Iterator[dict[str, str]]:
    """The environment for a bucket in moto's server."""
    server = pytest.importorskip("moto.server", reason="moto's server (moto[s3], flask, flask-cors) is not installed")
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    address = f"http://{host}:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    files = s3fs.S3FileSystem(key="key", secret="secret", endpoint_url=address, skip_instance_cache=True)
    files.mkdir("bucket")
    yield {"AWS_ENDPOINT_URL": address, **keys}
    running.stop()


@pytest.mark.nightly
def test_a_fleet_in_a_bucket(store: dict[str, str], tmp_path: Path) -> None:
    import s3fs

    files = s3fs.S3FileSystem(
        key="key", secret="secret", endpoint_url=store["AWS_ENDPOINT_URL"], skip_instance_cache=True
    )
    for number in (0, 1, 3):
        rank(number, tmp_path / "rank.json.gz")
        for place in ("runs/mon", "last/sun"):
            files.put_file(str(tmp_path / "rank.json.gz"), f"bucket/{place}/rank{number}.json.gz")
    text = (RECIPES / "fleet-on-s3.md").read_text("utf-8")
    commands = [
        each.text for each in found("fleet-on-s3.md", text) if isinstance(each, Command) and "s3://" in each.text
    ]
    assert [shlex.split(command)[1] for command in commands] == ["batch", "summary", "diff", "convert"]
    before = commands[0].replace("bucket/runs/", "bucket/last/").replace("bucket/runs.", "bucket/last-week.")
    printed = {}
    environment = with_program() | store
    for command in (before, *commands):
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, command + done.stderr
        printed[shlex.split(command)[1]] = done.stdout + done.stderr
    assert "3 inputs: 3 done" in printed["batch"]
    assert re.search(r"^by rank\n.*\n0 .*\n1 .*\n3 ", printed["summary"], re.M)
    assert re.search(r"^gemm .* 0 ns ", printed["diff"], re.M)
    events = ktrace.read(tmp_path / "rank3.perfetto").events
    assert set(events["source"]) == {"rank3"}


def test_an_agent_is_answered_as_the_recipe_shows(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp isn't installed")
    from ktrace.analysis.answers.mcp.access import Access
    from ktrace.analysis.answers.mcp.answers import as_text
    from ktrace.analysis.answers.mcp.server import answered
    from ktrace.analysis.answers.mcp.session import Session

    kineto.write(world.build(7), tmp_path / "before.json")
    kineto.write(world.build(7, run=1, plants=[plants.synchronisation(every=4)]), tmp_path / "after.json")
    session = Session(Access([tmp_path]), 1 << 30)
    page = (RECIPES / "agent.md").read_text("utf-8")
    calls = [call for block in re.findall(r"```text\n(.*?)```", page, re.S) for call in block.strip().split("\n\n")]
    size = 0
    for call in calls:
        asked, *shown = call.split("\n")
        tool, _, arguments = asked.partition(" ")
        answer = as_text(answered(session, tool, json.loads(arguments)))
        size += len(answer)
        pattern = ".*?".join(map(re.escape, "".join(shown).split("...")))
        assert re.fullmatch(pattern, answer), f"{asked}\n{answer}"
    assert f"{len(calls)} calls and {size / 1000:.0f} kB" in page.replace("six", "6")


def test_the_python_of_the_recipes_runs(tmp_path: Path) -> None:
    page = (RECIPES / "notebook.md").read_text("utf-8")
    script = "".join(re.findall(r"```python\n(.*?)```", page, re.S))
    (tmp_path / "samples").symlink_to(SAMPLES)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^gemm +249\.629$", done.stdout, re.M), done.stdout
    assert "busy 86.4%, exposed communication 117 us" in done.stdout
    assert "gemm 480000.0 615000.0 within noise" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"samples", "backward.perfetto", "backward.parquet"}
