"""What brings ktrace to users beyond PyPI: GitHub action, pre-commit hook, container file, workflows."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from conftest import ROOT, SAMPLES
from fork_server import program, with_program
from runs import monday, tuesday

import ktrace

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")}
STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


class Job:
    """Runs the steps of the action as GitHub does: inputs through their expressions, bash with -e and pipefail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.summary = folder / "step-summary.md"
        self.output = ""
        self.environment = {"RUNNER_TEMP": str(folder)}

    def run(self, **inputs: str) -> int:
        """The exit code of the first step that fails, else 0."""
        given = {name: text["default"] for name, text in ACTION["inputs"].items()} | {
            name.replace("_", "-"): value for name, value in inputs.items()
        }
        self.summary.write_text("")
        self.output = ""
        for step in ACTION["runs"]["steps"]:
            if "uses" in step or step["name"] == "Install" or not self._wanted(step, given):
                continue
            names = {name: self._value(text, given) for name, text in step["env"].items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.folder,
                env=with_program() | names | {"GITHUB_STEP_SUMMARY": str(self.summary)} | self.environment,
                capture_output=True,
                text=True,
                check=False,
            )
            self.output += done.stdout + done.stderr
            if done.returncode:
                return done.returncode
        return 0

    def _wanted(self, step: dict[str, Any], given: dict[str, str]) -> bool:
        name = re.fullmatch(r"inputs\.([\w-]+) != ''", step["if"])
        assert name
        return given[name[1]] != ""

    def _value(self, text: str, given: dict[str, str]) -> str:
        if text == "${{ github.action_path }}":
            return str(ROOT)
        name = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text)
        assert name
        return given[name[1]]


class GitHub(ThreadingHTTPServer):
    """The part of GitHub's interface that has comments; it keeps what it is told."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.comments: list[dict[str, Any]] = [{"id": 1, "body": "somebody's"}]
        self.tokens: set[str | None] = set()
        github = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def answer(self, document: object, code: int = 200) -> None:
                github.tokens.add(self.headers["Authorization"])
                data = json.dumps(document).encode()
                self.send_response(403 if refuses else code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def body(self) -> str:
                return str(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"])

            def do_GET(self) -> None:
                first = self.path == "/repos/o/r/issues/7/comments?per_page=100&page=1"
                self.answer(github.comments if first else [])

            def do_POST(self) -> None:
                assert self.path == "/repos/o/r/issues/7/comments"
                github.comments.append({"id": len(github.comments) + 1, "body": self.body()})
                self.answer({}, 201)

            def do_PATCH(self) -> None:
                number = int(self.path.removeprefix("/repos/o/r/issues/comments/"))
                github.comments[number - 1]["body"] = self.body()
                self.answer({})

        super().__init__(("127.0.0.1", 0), Handler)

    def environment(self, folder: Path, event: dict[str, Any]) -> dict[str, str]:
        """What a workflow's step is told of it."""
        (folder / "event.json").write_text(json.dumps(event))
        url = f"http://127.0.0.1:{self.server_port}"
        return {"GITHUB_EVENT_PATH": str(folder / "event.json"), "GITHUB_REPOSITORY": "o/r", "GITHUB_API_URL": url}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_the_action_writes_the_summary_of_the_job(job: Job) -> None:
    (job.folder / "a name with blanks.json").write_bytes(STEP.read_bytes())
    assert job.run(files="a name with blanks.json\n") == 0
    text = job.summary.read_text("utf-8")
    assert re.search(r"^\| gemm \| +249\.629 us \|", text, re.M), text


def test_the_action_passes_and_fails_by_the_limits(job: Job) -> None:
    monday(job.folder)
    tuesday(job.folder)
    both = {"files": "tues*.json", "baseline": "monday.pt.trace.json"}
    assert job.run(**both) == 0, job.output
    assert "softmax_warp_forward" in job.summary.read_text("utf-8")
    assert job.run(**both, fail_over_each="10%") not in {0, 2}
    assert "softmax_warp_forward" in job.summary.read_text("utf-8")
    assert "::error title=slower::kernel softmax_warp_forward got slower: +15.0%25, more than 10%25" in job.output


@pytest.mark.parametrize("refuses", [False, True])
def test_the_verdict_is_a_comment_which_the_next_run_replaces(job: Job, refuses: bool) -> None:
    """A token that may not write fails nothing."""
    monday(job.folder)
    tuesday(job.folder)
    github = GitHub(refuses=refuses)
    Thread(target=github.serve_forever, daemon=True).start()
    asked = {"files": "tuesday.pt.trace.json", "baseline": "monday.pt.trace.json", "comment_token": "secret"}
    try:
        job.environment |= github.environment(job.folder, {"pull_request": {"number": 7}})
        assert job.run(**asked) == 0
        if refuses:
            assert "::warning title=ktrace::the comment could not be written: Forbidden" in job.output
            return
        assert job.run(**asked, fail_over_each="10%") == 3
        somebodys, ours = (one["body"] for one in github.comments)
        assert somebodys == "somebody's" and "softmax_warp_forward got slower" in ours
        assert github.tokens == {"Bearer secret"} and "secret" not in job.output
        job.environment |= github.environment(job.folder, {"ref": "refs/heads/main"})
        assert job.run(**asked) == 0
        assert "no pull request" in job.output and len(github.comments) == 2
    finally:
        github.shutdown()
        github.server_close()


def test_the_action_writes_a_page_and_test_cases(job: Job) -> None:
    monday(job.folder)
    tuesday(job.folder)
    asked = {"files": "tuesday.pt.trace.json", "page": "page.html", "junit": "gate.xml"}
    assert job.run(**asked) == 0
    assert "Where the time went" in (job.folder / "page.html").read_text("utf-8")
    assert not (job.folder / "gate.xml").exists()
    assert job.run(**asked, baseline="monday.pt.trace.json", fail_over_each="10%") == 3
    assert "What changed" in (job.folder / "page.html").read_text("utf-8")
    assert 'failures="1"' in (job.folder / "gate.xml").read_text("utf-8")


def test_the_action_compares_one_with_one(job: Job) -> None:
    monday(job.folder)
    assert job.run(files="monday.pt.trace.json\nmonday.pt.trace.json", baseline="monday.pt.trace.json") == 2
    assert "::error::with a baseline, files must be one" in job.output


def test_the_action_annotates_faults(job: Job) -> None:
    ktrace.convert(STEP, job.folder / "good.jsonl")
    good = (job.folder / "good.jsonl").read_text("utf-8")
    assert job.run(validate="good.jsonl\n") == 0
    (job.folder / "bad.jsonl").write_text(re.sub(r'"id":(\d+)', r'"id":"\1"', good, count=1), "utf-8")
    assert job.run(validate="good.jsonl\nbad.jsonl\n") == 1
    assert re.search(r"^::error file=bad\.jsonl,line=\d+", job.output, re.M), job.output


def test_actions_of_others_are_pinned() -> None:
    """By commit; PyPI's own names its branch of releases."""
    steps = [step for flow in WORKFLOWS.values() for job in flow["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in (*steps, *ACTION["runs"]["steps"]) if "uses" in step]
    assert len(used) > 6
    loose = [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name)]
    assert loose == ["pypa/gh-action-pypi-publish@release/v1"]


def test_inputs_never_become_part_of_a_script() -> None:
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert len(scripts) == 4
    assert [script for script in scripts if "${{" in script] == []


def test_the_hook_checks_canonical_files(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    pattern = re.compile(hook["files"])
    names = ["a.ktrace.jsonl", "b/a.ktrace.parquet", "a.ktrace.csv.gz", "package.json", "data.csv", "ktrace.json"]
    assert [name for name in names if pattern.search(name)] == names[:3]
    ktrace.convert(STEP, tmp_path / "a.ktrace.jsonl")
    entry = [program(), *shlex.split(hook["entry"])[1:], "a.ktrace.jsonl"]
    assert subprocess.run(entry, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "a.ktrace.jsonl").write_text('{"ktrace":"1.0"}\n{"record":"event","id":"x"}\n')
    assert subprocess.run(entry, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_the_container_runs_ktrace_as_a_user() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    last = text[text.rindex("FROM ") :]
    words = dict(re.findall(r"^([A-Z]+) (.*)$", last, re.M))
    assert words["USER"] not in {"root", "0"}
    assert last.index("USER") > last.index("RUN")
    assert json.loads(words["ENTRYPOINT"]) == ["ktrace"]
    assert "--no-cache-dir" in words["RUN"]
    # What the build copies has all that the wheel is made of.
    left_out = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert not {"ktrace", "converters", "schema", "proto", "README.md", "setup.cfg", "setup.py"} & set(left_out)


def test_workflows_run_ci_and_have_only_the_rights_that_they_need() -> None:
    assert WORKFLOWS.keys() == {"ci", "release", "audit", "nightly"}
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] in ({}, {"contents": "read"})
        runs = [step.get("run") for job in workflow["jobs"].values() for step in job["steps"]]
        assert ("python .ci/audit" if name == "audit" else ".ci/run") in runs
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
    jobs = WORKFLOWS["release"]["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == ["build", "wheels"]
    # YAML reads the key `on` as true.
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["v*"]}}


@pytest.mark.parametrize(("tag", "code"), [(f"v{ktrace.__version__}", 0), ("v9.9.9", 1)])
def test_a_release_has_the_tag_of_its_version(tag: str, code: int) -> None:
    (script,) = (
        step["run"] for step in WORKFLOWS["release"]["jobs"]["build"]["steps"] if "CHANGELOG" in step.get("run", "")
    )
    environment = os.environ | {"GITHUB_REF_NAME": tag}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=ROOT, env=environment, check=False)
    assert done.returncode == code
