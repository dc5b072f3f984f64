"""What an agent may read and write, and each way around it that is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from conftest import SAMPLES

from ktrace.analysis.mcp.access import Access, Refused
from ktrace.errors import InputError, OutputError

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with traces, beside one that isn't allowed."""
    for name in (
        "data/run.json",
        "data/ranks/rank0.json",
        "data/ranks/rank1.json",
        "data2/run.json",
        "secret/run.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(STEP, tmp_path / name)
    return tmp_path / "data"


def test_files_folders_and_patterns_of_an_allowed_folder_are_read(data: Path) -> None:
    access = Access([data])
    assert access.inputs("run.json") == [str(data / "run.json")]
    assert access.inputs(str(data / "run.json")) == [str(data / "run.json")]
    assert access.inputs("ranks") == [str(data / "ranks")]
    assert access.inputs("ranks/*.json") == [str(data / f"ranks/rank{rank}.json") for rank in (0, 1)]
    shutil.copy(data / "run.json", data / "run.zip")
    assert access.inputs("run.zip!a/b.json") == [f"{data / 'run.zip!a/b.json'}"]


def test_a_link_within_allowed_folders_is_followed(data: Path) -> None:
    (data / "link.json").symlink_to(data / "run.json")
    (data / "out.json").symlink_to(data.parent / "data2/run.json")
    assert Access([data, data.parent / "data2"]).inputs("link.json") == [str(data / "run.json")]
    assert Access([data, data.parent / "data2"]).inputs("out.json") == [str(data.parent / "data2/run.json")]


REFUSED = {
    "a file elsewhere": "{outside}/run.json",
    "a file that isn't there, elsewhere": "{outside}/none.json",
    "a file of the system": "/etc/passwd",
    "upwards": "../secret/run.json",
    "upwards and back": "ranks/../run.json",
    "a folder whose name begins alike": "{data}2/run.json",
    "the folder above": "{data}/..",
    "a pattern elsewhere": "{outside}/*.json",
    "a pattern upwards": "../*/run.json",
    "a pattern from the root": "/*/passwd",
    "a link to a file elsewhere": "link.json",
    "a link to a folder elsewhere": "folder/run.json",
    "a pattern that finds a link": "li*.json",
    "a folder with a link in it": "linked",
    "a file with a companion that is a link": "mapped.csv",
    "a pipe": "pipe",
    "standard input": "-",
    "nothing": "",
    "a name with an end in it": "run.json\0",
    "a URL": "https://example.com/run.json",
    "a URL of a file": "file:///etc/passwd",
    "a store": "s3://bucket/run.json",
}


@pytest.mark.parametrize("case", REFUSED)
def test_all_else_is_refused(data: Path, case: str) -> None:
    outside = data.parent / "secret"
    (data / "link.json").symlink_to(outside / "run.json")
    (data / "folder").symlink_to(outside)
    (data / "linked").mkdir()
    shutil.copy(STEP, data / "linked/rank0.json")
    (data / "linked/rank1.json").symlink_to(outside / "run.json")
    (data / "mapped.csv").write_text("name,start,dur\n", "utf-8")
    (data / "mapped.csv.ktrace.toml").symlink_to(outside / "run.json")
    os.mkfifo(data / "pipe")
    with pytest.raises(Refused) as caught:
        Access([data]).inputs(REFUSED[case].format(outside=outside, data=data))
    assert caught.value.expected == f"something in {data}"
    assert caught.value.remedy == "start the server with --allow DIR to allow another one"


def test_a_refusal_does_not_tell_what_is_there(data: Path) -> None:
    said = []
    for name in ("run.json", "none.json"):
        with pytest.raises(Refused) as caught:
            Access([data]).inputs(f"{data.parent}/secret/{name}")
        said.append(str(caught.value).replace(name, "NAME"))
    assert said[0] == said[1]


def test_urls_below_an_allowed_prefix_are_read(data: Path) -> None:
    access = Access([data, "s3://bucket/runs"])
    assert access.inputs("s3://bucket/runs/a.json") == ["s3://bucket/runs/a.json"]
    for path in ("s3://bucket/runs2/a.json", "s3://bucket/runs/../a.json", "s3://other/runs/a.json"):
        with pytest.raises(Refused):
            access.inputs(path)


def test_what_is_not_there_is_an_error_of_the_input(data: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        Access([data]).inputs("rnu.json")
    with pytest.raises(InputError, match="no file matches"):
        Access([data]).inputs("*.none")
    with pytest.raises(InputError, match="isn't a folder"):
        Access([data / "run.json"])


def test_only_new_files_in_the_folder_for_exports_are_written(data: Path) -> None:
    (data / "link.perfetto").symlink_to(data.parent / "elsewhere")
    access = Access([data], data)
    assert access.output("new.perfetto") == str(data / "new.perfetto")
    for name in ("../new.perfetto", "/tmp/new.perfetto", "ranks/new.perfetto", ".hidden", "", ".", "..", "a\0"):
        with pytest.raises(Refused):
            access.output(name)
    for name in ("run.json", "link.perfetto", "ranks"):
        with pytest.raises(OutputError, match="exists already"):
            access.output(name)


def test_without_a_folder_for_exports_nothing_is_written(data: Path) -> None:
    with pytest.raises(Refused, match="this server writes nothing"):
        Access([data]).output("new.perfetto")
