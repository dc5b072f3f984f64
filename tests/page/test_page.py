"""The page of HTML in a real browser: it fetches nothing, bars match their figures, names have no effect."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from colours import contrast, luminance
from jinja2 import UndefinedError
from msgspec import structs
from summaries import tables, training

from ktrace.analysis.answers.diff.compare import compared
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.work.groups import DeviceUse, Group, InSteps
from ktrace.page.charts import LogAxis, device_parts
from ktrace.page.page import _environment
from ktrace.page.render import rendered
from ktrace.tables import Column, Table, escape_controls

#: Names that would have an effect without escapes.
HOSTILE = [
    "<script>window.owned = 1</script>",
    '"><img src=x onerror="window.owned = 2">',
    "</title></style></svg><svg onload=window.owned=3>",
    "&lt;b&gt; \x1b[2J \u202egnp",
    "kernel<" + "cutlass::Shape<128, 128, 64>, " * 400 + ">",
]

#: The elements with text on the page's background.
_TEXTS = (
    "body",
    "h2",
    ".hint",
    ".keys dt",
    ".keys .big",
    ".bars .value",
    ".legend li",
    "th",
    "td",
    "svg text",
    ".note",
)


class Opened:
    """An opened page, its requests and its complaints."""

    def __init__(self, browser: Any, path: Path, html: str, **options: Any) -> None:
        path.write_text(html, "utf-8")
        self.complaints: list[str] = []
        self.requests: list[str] = []
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        self.page = context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.failures: dict[str, str] = {}
        self.page.on("requestfailed", lambda request: self.failures.update({request.url: request.failure}))
        self.page.on("request", lambda request: self.requests.append(request.url))
        context.route("**/*", lambda route: route.continue_() if route.request.url == path.as_uri() else route.abort())
        self.page.goto(path.as_uri())
        assert self.requests == [path.as_uri()], "the page asks for nothing but itself"

    def boxes(self, selector: str) -> list[dict[str, float]]:
        """The places of the elements on the screen."""
        found: list[dict[str, float]] = self.page.eval_on_selector_all(
            selector, "all => all.map(one => { const {x, y, width, height} = one.getBoundingClientRect();"
            " return {x, y, width, height}; })",
        )  # fmt: skip
        return found


def html_of(summary: Summary) -> str:
    return rendered(tables(summary), "html", title="a run", subject=summary)


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """The page of the training run; it must end without complaints."""
    page = Opened(browser, tmp_path / "page.html", html_of(training()))
    yield page
    assert page.complaints == []
    page.page.context.close()


def test_devices_are_stacked_to_their_span(opened: Opened) -> None:
    devices = training().devices
    longest = max(use.span for use in devices)
    whole = opened.boxes("#devices .stack")
    bars = iter(opened.boxes("#devices .stack rect"))
    for use, box in zip(devices, whole, strict=True):
        parts = [part for part in device_parts(use) if part.value > 0]
        assert sum(part.value for part in parts) == use.span
        x = box["x"]
        for part in parts:
            bar = next(bars)
            assert bar["width"] == pytest.approx(box["width"] * part.value / longest, abs=1)
            assert bar["x"] == pytest.approx(x, abs=1)
            x += bar["width"]
    assert next(bars, None) is None


def test_operations_and_kernels_are_as_long_as_their_time(opened: Opened) -> None:
    groups = training().groups
    for by in ("operation", "kernel"):
        widths = [box["width"] for box in opened.boxes(f"#{by}s .bar rect")]
        longest = groups[by][0].total
        expected = [widths[0] * group.total / longest for group in groups[by]]
        assert widths == pytest.approx(expected, abs=0.5)
    assert opened.boxes("#operations .bar rect")[0]["width"] > 300


def test_columns_are_as_high_as_the_work_of_a_step(opened: Opened) -> None:
    totals = np.sum([group.steps for group in training().groups["operation"]], axis=0)
    heights = np.array([box["height"] for box in opened.boxes("#steps .column")])
    assert heights / heights[0] == pytest.approx(totals / totals[0], abs=0.01)
    assert opened.page.locator("#steps .column title").first.text_content().startswith("ProfilerStep#0: ")
    marks = opened.boxes("#steps line.mark")
    tops = np.array([box["y"] for box in opened.boxes("#steps .column")])
    walls = np.array([use.wall for use in training().step_use])
    assert (tops - [box["y"] for box in marks]) / heights == pytest.approx(walls / totals - 1, abs=0.02)
    layers = [group.total for group in training().groups["layer"]]
    heights = np.array([box["height"] for box in opened.boxes("#layers .column")])
    assert heights / heights[0] == pytest.approx(np.array(layers) / layers[0], abs=0.01)


def test_the_median_stands_where_the_axis_says(opened: Opened) -> None:
    """The places of medians are linear in the logarithm of the time, and so are those of the ticks."""
    kernels = training().groups["kernel"]
    places = [box["x"] for box in opened.boxes("#kernels .strip .median")]
    slope, _ = np.polyfit(np.log10([group.median or 0 for group in kernels]), places, 1)
    ticks = opened.page.locator("#kernels .axis text")
    centres = [box["x"] + box["width"] / 2 for box in opened.boxes("#kernels .axis text")]
    assert ticks.all_text_contents() == ["10 us", "100 us", "1 ms"]
    assert np.diff(centres) == pytest.approx([slope, slope], abs=2)


def test_a_mound_is_as_high_as_the_root_of_the_count() -> None:
    """Against numpy's own histogram, of classes that are equally wide in the logarithm."""
    times = np.sort(np.random.default_rng(5).lognormal(10, 0.8, 5_000).astype(np.int64))
    drawn = LogAxis(float(times[0]), float(times[-1])).strip(times, 1.0, 2.0, "")
    heights = 100 - np.array([float(y) for y in re.findall(r"V([\d.]+)H", drawn)])
    ends = (np.log10(times[0]) - 0.03, np.log10(times[-1]) + 0.03)
    counts = np.histogram(np.log10(times), len(heights), ends)[0]
    assert counts.sum() == len(times)
    assert heights == pytest.approx(100 * np.sqrt(counts / counts.max()), abs=0.1)


def test_a_click_on_a_heading_sorts(opened: Opened) -> None:
    page = opened.page
    table = page.locator("table[data-name=kernel]")

    def column(place: int) -> list[str]:
        texts: list[str] = table.locator(f"tbody tr td:nth-child({place})").all_text_contents()
        return texts

    names = column(1)
    medians = [group.median or 0 for group in training().groups["kernel"]]
    by_median = [name for _, name in sorted(zip(medians, names, strict=True), reverse=True)]
    heading = table.locator("th", has_text="median")
    heading.locator("button").click()
    assert column(1) == by_median
    assert heading.get_attribute("aria-sort") == "descending"
    heading.locator("button").click()
    assert column(1) == by_median[::-1]
    table.locator("th button").first.click()
    assert column(1) == sorted(names, key=str.lower)
    assert heading.get_attribute("aria-sort") is None


def test_figures_that_are_missing_sort_last(browser: Any, tmp_path: Path) -> None:
    figures = Table(
        "t", "figures", (Column("name"), Column("time", "ns")), [("a", None), ("b", 2), ("c", 10), ("d", None)]
    )
    opened = Opened(browser, tmp_path / "page.html", rendered([figures], "html", title="a table"))
    orders = []
    for _ in range(2):
        opened.page.locator("th button").last.click()
        orders.append("".join(opened.page.locator("td .name").all_text_contents()))
    assert orders == ["cbad", "bcad"]


def test_a_box_filters_rows_by_name(opened: Opened) -> None:
    page = opened.page
    everything = page.locator("table.figures tbody tr").count()
    page.fill("#filter", "triton GELU")
    visible = page.locator("table.figures tbody tr:visible")
    assert visible.locator(".name").all_text_contents() == ["triton_poi_fused_gelu_3"]
    assert page.inner_text("#found") == f"1 of {everything} rows"
    page.fill("#filter", "cublas")
    assert page.locator("table[data-name=library] tbody tr:visible").count() == 1
    page.fill("#filter", "")
    assert page.locator("table[data-name=kernel] tbody tr:visible").count() == 11


def test_names_are_only_names(browser: Any, tmp_path: Path) -> None:
    summary = training()
    kernels = [replace(group, key=name) for group, name in zip(summary.groups["kernel"], HOSTILE, strict=False)]
    summary.groups |= {"kernel": kernels, "operation": kernels, "layer": kernels}
    summary.steps[0], summary.notes = HOSTILE[0], list(HOSTILE[:3])
    summary.devices = [replace(summary.devices[0], label=HOSTILE[1])]
    html = rendered(tables(summary), "html", title=HOSTILE[2], subject=summary)
    opened = Opened(browser, tmp_path / "hostile.html", html)
    page = opened.page
    names = [escape_controls(name) for name in HOSTILE]
    assert page.inner_text("h1") == names[2]
    shown = page.locator("#kernels .name").all_text_contents()
    assert shown[:4] == names[:4]
    assert shown[4] == names[4][:2000]
    assert page.locator("table[data-name=kernel] td .name").all_text_contents()[:4] == names[:4]
    assert page.evaluate("window.owned") is None
    assert page.locator("img, main script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1200
    assert opened.complaints == []
    assert len(html) < 400_000


def test_the_policy_forbids_what_the_page_does_not_need(browser: Any, tmp_path: Path) -> None:
    """Markup that got into the page could neither fetch nor run anything."""
    opened = Opened(browser, tmp_path / "page.html", html_of(training()))
    opened.page.evaluate(
        """() => {
            window.broken = [];
            addEventListener("securitypolicyviolation", event => window.broken.push(event.effectiveDirective));
            const add = html => document.body.append(document.createRange().createContextualFragment(html));
            add("<img src='http://127.0.0.1:9/x.png'>");
            add("<script>window.owned = 1</" + "script>");
            add("<p style='color: red'>styled</p>");
            add("<style>body { background: url(http://127.0.0.1:9/y.png) }</style>");
        }"""
    )
    opened.page.wait_for_function("window.broken.length >= 4")
    assert set(opened.page.evaluate("window.broken")) == {
        "img-src",
        "script-src-elem",
        "style-src-attr",
        "style-src-elem",
    }
    assert opened.page.evaluate("window.owned") is None
    assert opened.failures == {"http://127.0.0.1:9/x.png": "csp"}, "nothing left the browser"


def test_without_scripts_all_figures_are_there(browser: Any, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "page.html", html_of(training()), java_script_enabled=False)
    page = opened.page
    assert page.locator("table.figures tbody tr").count() == sum(map(len, training().groups.values()))
    assert page.locator("#operations .bar").count() == 9
    assert not page.locator("form").is_visible()
    page.locator("summary", has_text="by library").click()
    assert page.locator("table[data-name=library]").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(browser: Any, tmp_path: Path, scheme: str) -> None:
    """At least 4.5 to 1, as WCAG 2.2 requires for text (success criterion 1.4.3)."""
    opened = Opened(browser, tmp_path / "page.html", html_of(training()), color_scheme=scheme)
    ground = rgb(opened.page, "body", "backgroundColor")
    raised = rgb(opened.page, ".keys div", "backgroundColor")
    assert (luminance(ground) < 0.05) == (scheme == "dark")
    for selector in _TEXTS:
        colour = rgb(opened.page, selector, "fill" if selector.startswith("svg") else "color")
        assert contrast(colour, raised if selector.startswith(".keys") else ground) >= 4.5, selector


def test_it_fits_a_phone_and_prints(browser: Any, tmp_path: Path) -> None:
    phone = {"width": 360, "height": 700}
    opened = Opened(browser, tmp_path / "page.html", html_of(training()), viewport=phone, color_scheme="dark")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert min(box["width"] for box in opened.boxes("#operations .bar")) > 300
    opened.page.emulate_media(media="print")
    assert luminance(rgb(opened.page, "body", "backgroundColor")) == 1
    assert luminance(rgb(opened.page, "h2", "color")) == 0
    assert not opened.page.locator("form").is_visible()


def test_changes_go_to_both_sides(browser: Any, tmp_path: Path) -> None:
    before, after = training(), training()
    factors = {"Memcpy HtoD (Pinned -> Device)": 0.5, "triton_poi_fused_gelu_3": 1.5, "my_kernel": 1.0}
    after.groups["kernel"] = [slower(group, factors.get(group.key, 1.01)) for group in after.groups["kernel"]]
    diff = compared(before, after, by=("kernel", "operation"), names=("<b>monday", "tuesday"))
    opened = Opened(browser, tmp_path / "diff.html", rendered(diff.tables(), "html", title="a diff", subject=diff))
    changes = sorted((change for change in diff.rows["kernel"] if change.delta), key=lambda change: -abs(change.delta))
    shown = opened.page.locator("#by-kernel .begin").all_text_contents()
    axes, bars = opened.boxes("#by-kernel .axis"), opened.boxes("#by-kernel .diverging rect")
    assert len(shown) == len(changes) + 1, "and a line for the others"
    unit = max(bar["width"] for bar in bars) / abs(changes[0].delta)
    for change, axis, bar in zip(changes, axes, bars, strict=True):
        assert bar["width"] == pytest.approx(abs(change.delta) * unit, abs=0.5)
        assert (bar["x"] + bar["width"] / 2 > axis["x"]) == (change.delta > 0)
    assert "before: <b>monday" in opened.page.inner_text("#operations .legend")
    pairs = opened.boxes("#operations .pair rect")
    assert len(pairs) == 2 * len(diff.rows["operation"])
    assert opened.complaints == []


def slower(group: Group, factor: float) -> Group:
    assert group.durations is not None and group.in_steps is not None
    durations = (group.durations * factor).astype(np.int64)
    return replace(
        group,
        total=group.total * factor,
        durations=durations,
        in_steps=structs.replace(group.in_steps, time=group.in_steps.time * factor),
    )


def test_runs_stand_apart(browser: Any, tmp_path: Path) -> None:
    """Runs that a source has statistics of aren't added up; an operation has one colour in all of them."""
    runs = {"<i>one": [Group("gemm", 60), Group("norm", 40)], "two": [Group("norm", 30), Group("gemm", 10)]}
    of = {run: Summary([run], "statistics", 100, None, None, {"operation": groups}) for run, groups in runs.items()}
    both = {"operation": [Group("gemm", 70), Group("norm", 70)], "run": [Group(run, 50) for run in runs]}
    opened = Opened(
        browser, tmp_path / "page.html", html_of(Summary(["x"], "statistics", 140, None, None, both, runs=of))
    )
    page = opened.page
    assert page.locator("h2").all_text_contents()[:2] == ["By operation: <i>one", "By operation: two"]
    for number, names in enumerate((["gemm", "norm"], ["norm", "gemm"])):
        assert page.locator(f"#operations-{number} .name").all_text_contents() == names
        colours = page.locator(f"#operations-{number} rect")
        assert [colours.nth(at).get_attribute("class") for at in range(2)] == [
            {"gemm": "k1", "norm": "k2"}[name] for name in names
        ]


def test_a_page_stays_small_whatever_is_in_it(tmp_path: Path) -> None:
    """50,000 kernels of 300,000 launches, 10,000 steps, 500 devices: charts and tables are bounded."""
    steps = InSteps.from_times(np.ones(10_000))
    times = np.sort(np.random.default_rng(1).integers(1_000, 10**9, 300_000))
    one = Group("k", 1e9, 300_000, 1.0, 2.0, 3.0, 4.0, 1_000, 1e9, durations=times, in_steps=steps)
    kernels = [replace(one, key=f"{number} " + "template<" * 50) for number in range(50_000)]
    device = DeviceUse("device", "r", 0, 0, 10**9, 9 * 10**8, 9 * 10**8, 0, 0, 0, 0)
    devices = [replace(device, label=f"device {number}") for number in range(500)]
    names = [f"step {number}" for number in range(10_000)]
    groups = {"kernel": kernels, "operation": kernels[:40], "layer": kernels[:5_000]}
    html = html_of(Summary(["r"], "events", 5e13, 1, (0, 10**9), groups, devices, names))
    assert len(html) < 4_000_000
    assert html.count('class="column"') <= 240


@pytest.mark.parametrize(
    "summary",
    [
        Summary([], "events", 0, 0, None, {}),
        Summary(["x"], "statistics", 12.5, None, None, {"kernel": [Group("a", 10.0), Group("b", 2.5)]}, unit="%"),
        Summary(["x"], "host", 5, 1, (0, 5), {"operation": [Group("a", 0)], "kernel": [Group("a", 0, 0)]}),
        Summary(["x"], "statistics", 5, 1, (0, 5), {"kernel": [Group("a", 5, 1, 5, min=5, max=5)]}),
    ],
    ids=["nothing", "shares alone", "no time", "one statistic"],
)
def test_little_is_enough(browser: Any, tmp_path: Path, summary: Summary) -> None:
    opened = Opened(browser, tmp_path / "page.html", html_of(summary))
    assert opened.page.inner_text("h1") == "a run"
    assert opened.page.locator("#kernels li").count() >= len(summary.groups.get("kernel", []))
    assert "nan" not in opened.page.content().lower().replace("nanosecond", "")
    assert opened.complaints == []


def rgb(page: Any, selector: str, of: str) -> np.ndarray[Any, Any]:
    text = page.eval_on_selector(selector, f"one => getComputedStyle(one).{of}")
    return np.array([int(part) for part in re.findall(r"\d+", text)[:3]])


def test_every_expression_of_a_template_is_escaped_and_bounded() -> None:
    template = _environment().from_string("<p title='{{ name }}'>{{ name }}</p>")
    text = template.render(name="'<b>\x1b" + "x" * 3000)
    assert text.count("&#39;&lt;b&gt;\\x1bxxx") == 2
    assert text.count("x" * 1990) == 2 and text.count("x" * 2000) == 0
    with pytest.raises(UndefinedError):
        template.render(other="x")


def test_jinja_is_imported_only_for_a_page() -> None:
    code = (
        "import sys, ktrace.cli._console, ktrace.page.render\n"
        "before = 'jinja2' in sys.modules or 'markupsafe' in sys.modules\n"
        "ktrace.page.render.rendered([], 'html')\n"
        "print(before, 'jinja2' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
