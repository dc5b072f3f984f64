"""What an agent may read and write, and each way around it that is refused."""

from __future__ import annotations

import glob
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import SAMPLES

from ktrace.analysis.answers.mcp import access as access_module
from ktrace.analysis.answers.mcp.access import Access, Refused
from ktrace.analysis.answers.mcp.server import answered
from ktrace.analysis.answers.mcp.session import Session
from ktrace.errors import InputError, KtraceError, OutputError
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

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
    "a pattern through a link": "folder/*.json",
    "a pattern through a link that it finds": "fol*/run.json",
    "a pattern through a link that it finds, to nothing": "fol*/none.json",
    "a pattern through a link to a pattern": "fol*/*",
    "a pattern through a link to many folders": "fol*/**/x*/*.json",
    "a pattern of any depth": "**/run.json",
    "a pattern of any depth, with nothing": "**/none.json",
    "a pattern upwards from a link": "fol*/../secret/run.json",
    "a link that leads to nothing elsewhere": "broken.json",
    "a name that no system has": "a\ud800.json",
    "a name that is too long": f"{'a' * 300}.json",
    "a pattern that is too long": f"{'a' * 300}*.json",
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
    (data / "broken.json").symlink_to(outside / "none.json")
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


def test_a_pattern_is_refused_whatever_is_where_its_link_leads(data: Path) -> None:
    """And without a look there: what is there can't be told from the time that it takes, either."""
    link = data / "out"
    link.symlink_to(data.parent / "secret")
    for pattern in ("o*/*.json", "o*/run*", "out/[r]un.json", "o*/**/*.json", "?ut/r*/none*", "**/*.json"):
        said = set()
        for there in (["run.json"], ["run1", "run.json"], [], None):
            shutil.rmtree(data.parent / "secret", ignore_errors=True)
            for name in there or ():
                (data.parent / "secret" / name).mkdir(parents=True, exist_ok=True)
            if there is not None:
                (data.parent / "secret").mkdir(exist_ok=True)
            with pytest.raises(Refused) as caught:
                Access([data]).inputs(pattern)
            said.add(str(caught.value))
        assert len(said) == 1, pattern


def test_a_pattern_walks_in_the_folder_alone_and_so_far(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    entries_of = access_module.entries_of

    def noted(folder: Path) -> list[tuple[str, bool, bool]]:
        looked.append(str(folder))
        return entries_of(folder)

    monkeypatch.setattr(access_module, "entries_of", noted)
    (data / "ranks/again").symlink_to(data)
    (data / ".hidden").mkdir()
    shutil.copy(STEP, data / ".hidden/run.json")
    deep = data
    for _ in range(600):
        deep = deep / "d"
        deep.mkdir()
    found = Access([data]).inputs("**/rank*.json")
    assert found == [str(data / f"ranks/rank{rank}.json") for rank in (0, 1)]
    assert all(Path(folder) == data or data in Path(folder).parents for folder in looked)
    assert not any(".hidden" in folder for folder in looked)
    assert str(data / ".hidden/run.json") in Access([data]).inputs(".h*/*.json")
    monkeypatch.setattr(access_module, "MOST_FILES", 300)
    with pytest.raises(InputError, match="would have to search more than 300 files"):
        Access([data]).inputs("**/rank*.json")


PATTERNS = (
    *("*", "*.json", "ranks/*", "r*/*1*", "**", "**/*.json"),
    *("ranks/**", "*/rank?.json", "[!r]*", "ranks/[r]ank0.json", "*/*/*", "n*"),
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_find_what_those_of_a_shell_find(data: Path, pattern: str) -> None:
    (data / "ranks/more").mkdir()
    shutil.copy(STEP, data / "ranks/more/rank2.json")
    expected = sorted(one.rstrip("/") for one in glob.glob(str(data / pattern), recursive=True))  # noqa: PTH207
    try:
        found = Access([data]).inputs(pattern)
    except InputError:
        found = []
    assert found == expected


OTF2 = SAMPLES / "otf2/two-ranks-streams-late-receives"


@pytest.mark.parametrize("name", ["traces.def", "traces/0.evt", "traces"])
def test_what_is_read_along_with_a_file_may_not_lead_out(data: Path, name: str) -> None:
    """The definitions and events of OTF2; as a file and as a folder."""
    shutil.copytree(OTF2, data / "run")
    anchor = next((data / "run").glob("*.otf2"))
    file = next((data / "run").glob(name.replace("traces", anchor.stem)))
    assert Access([data]).inputs(f"run/{anchor.name}") == [str(anchor)]
    shutil.move(file, data.parent / "secret/moved")
    file.symlink_to(data.parent / "secret/moved")
    session = Session(Access([data]), 1 << 30)
    for path in (f"run/{anchor.name}", "run"):
        with pytest.raises(KtraceError) as caught:
            session.open(path)
        if name != "traces":
            assert isinstance(caught.value, Refused)


@pytest.mark.parametrize("kind", ["folder", "file", "nothing"])
def test_a_link_out_is_told_the_same_wherever_it_leads(data: Path, kind: str) -> None:
    """In a folder, as a folder of OTF2's events, as a companion: whether it is a file, a folder or nothing."""
    outside = data.parent / "secret" / kind
    if kind == "folder":
        (outside / "inner").mkdir(parents=True)
        (outside / "0.evt").write_text("x")
    elif kind == "file":
        outside.write_text("x")
    shutil.copytree(OTF2, data / "run")
    anchor = next((data / "run").glob("*.otf2"))
    events = anchor.with_suffix("")
    shutil.rmtree(events)
    events.symlink_to(outside)
    (data / "some").mkdir()
    shutil.copy(STEP, data / "some/run.json")
    (data / "some/more").symlink_to(outside)
    (data / "table.csv").write_text("what,when\na,1\n")
    (data / "table.csv.ktrace.toml").symlink_to(outside)
    for path in (f"run/{anchor.name}", "run", "some", "table.csv", "some/more"):
        with pytest.raises(Refused) as caught:
            Access([data]).inputs(path)
        assert str(caught.value).startswith(f"{path}: isn't in an allowed folder"), path
    access = Access([data])
    for real in (anchor, anchor.parent, data / "some/more"):
        with pytest.raises(Refused) as caught, access.in_force():
            list(read_batches([str(real)], Report()))
        assert "secret" not in str(caught.value)
        assert "0.evt" not in str(caught.value)


def test_what_leads_out_once_it_was_looked_at_is_refused_when_it_is_opened(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at names and the reading a file is replaced by a link."""
    session = Session(Access([data]), 1 << 30)
    inputs = session.access.inputs

    def replaced(path: str) -> list[str]:
        found = inputs(path)
        (data / "run.json").unlink(missing_ok=True)
        (data / "run.json").symlink_to(data.parent / "secret/run.json")
        return found

    monkeypatch.setattr(session.access, "inputs", replaced)
    with pytest.raises(Refused, match="a link there leads out of it"):
        session.open("run.json")
    assert answered(session, "open", {"path": "run.json"})["error"]["kind"] == "refused"


def test_a_pipe_in_a_folder_keeps_nobody_waiting(data: Path) -> None:
    shutil.copytree(SAMPLES / "hpctoolkit/a-thread-and-two-gpu-streams", data / "database")
    (data / "database/meta.db").unlink()
    os.mkfifo(data / "database/meta.db")
    with ThreadPoolExecutor(1) as threads:
        opened = threads.submit(answered, Session(Access([data]), 1 << 30), "open", {"path": "database"})
        error = opened.result(timeout=30)["error"]
    assert error["message"] == "is a named pipe"
    assert error["file"] == str(data / "database/meta.db")


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
    odd = (".hidden", "", ".", "..", "a\0", "-o.json", "--overwrite", "a\ud800", f"{'a' * 300}.csv")
    for name in ("../new.perfetto", "/tmp/new.perfetto", "ranks/new.perfetto", *odd):
        with pytest.raises(Refused):
            access.output(name)
    for name in ("run.json", "link.perfetto", "ranks"):
        with pytest.raises(OutputError, match="already exists"):
            access.output(name)


def test_without_a_folder_for_exports_nothing_is_written(data: Path) -> None:
    with pytest.raises(Refused, match="this server doesn't write files"):
        Access([data]).output("new.perfetto")
