"""The outcome of the limits of a comparison as pipelines show it.

as_junit    JUnit's XML: a test case for each time and each row that a limit was held against
as_github   workflow commands of GitHub: an annotation for each regression, and the first sentence as a notice

JUnit's files have no standard; these elements are those that Jenkins, GitLab and GitHub's actions read: `testsuites`,
`testsuite` (name, tests, failures), `testcase` (classname, name), `failure` (message), `system-out`.
"""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from ktrace.analysis.answers.diff import Gate
from ktrace.analysis.answers.diff.comparison import Diff
from ktrace.errors import UsageError
from ktrace.tables import escape_controls
from ktrace.tables.annotations import annotation


def gated(diff: Diff, form: str) -> str:
    """The outcome as "junit" or "github", a line feed at the end. Raises UsageError where no limit was given."""
    if diff.gate is None:
        raise UsageError(f"--format {form} tells what a limit found", remedy="give one, such as --fail-over 5%")
    return as_junit(diff, diff.gate) if form == "junit" else as_github(diff, diff.gate)


def as_junit(diff: Diff, gate: Gate) -> str:
    """JUnit's XML."""
    failed: dict[str, list[str]] = {}
    for one in gate.regressions:
        failed.setdefault(one.subject, []).append(str(one))
    cases = dict.fromkeys([*gate.checked, *failed])
    name = _attribute(f"ktrace diff {diff.name_a} {diff.name_b}")
    counts = f'tests="{len(cases)}" failures="{len(failed)}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {counts}>", f"<testsuite name={name} {counts}>"]
    for case in cases:
        head = f'<testcase classname="ktrace.diff" name={_attribute(case)}'
        messages = failed.get(case, [])
        inside = "".join(f'<failure type="slower" message={_attribute(one)}></failure>' for one in messages)
        lines.append(f"{head}>{inside}</testcase>" if inside else f"{head}/>")
    said = "\n".join(map(escape_controls, diff.verdict))
    return "\n".join([*lines, f"<system-out>{escape(said)}</system-out>", "</testsuite>", "</testsuites>", ""])


def as_github(diff: Diff, gate: Gate) -> str:
    """Annotations of a GitHub workflow."""
    first = diff.verdict[0] if diff.verdict else f"{diff.name_b} was compared with {diff.name_a}."
    lines = [annotation("error", str(one), title="slower") for one in gate.regressions]
    return "".join(f"{line}\n" for line in [*lines, annotation("notice", first, title="ktrace diff")])


def _attribute(text: str) -> str:
    return quoteattr(escape_controls(text))
