"""A browser, a server whose songs are a sine, and small helpers of the tests."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SERVER = TARGET / "debug/examples/sine_server"
ARGS = [
    "--no-sandbox",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-dev-shm-usage",
    # A tab behind another one is as fast as the other.
    "--disable-renderer-backgrounding",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
]


def chromium():
    """The place of a browser of the Chromium family, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for found in map(shutil.which, names) if found), None)


class Server:
    """A sine server on a free port, which can be killed and started again."""

    def __init__(self, key=None):
        self.key = key
        self.folder = tempfile.mkdtemp(prefix="acestep-page-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.start()

    def command(self):
        key = ["1", "200", "-", self.key] if self.key else []
        return [str(SERVER), self.folder, str(self.port), *key], None

    def start(self):
        command, env = self.command()
        self.process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
        for _ in range(2400):
            try:
                urllib.request.urlopen(self.url + "healthz", timeout=1)
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the server does not answer")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Program(Server):
    """The program itself on a machine without models, settings and a home."""

    def command(self):
        env = {"HOME": self.folder, "PATH": os.environ["PATH"]}
        return [str(TARGET / "debug/acestep"), "serve", "--port", str(self.port)], env


class Tab:
    """A page under watch: errors of scripts and requests to other places are failures."""

    def __init__(self, context, server, width=1280, height=900):
        self.server = server
        self.problems = []
        self.page = context.new_page()
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.set_default_timeout(120_000)
        self.page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        self.page.on("request", self.look)
        if os.environ.get("ACESTEP_PAGE_FROM_DISK"):
            self.page.route(server.url + "page/**", self.from_disk)
        self.page.goto(server.url)
        self.page.get_by_text("Ready").wait_for()

    def from_disk(self, route):
        """Answers with the file in the tree, so that a change needs no build."""
        path = ROOT / "runtime/serve/page" / route.request.url.split("/page/", 1)[1]
        kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
        route.fulfill(path=path, content_type=kinds.get(path.suffix, "text/plain"))

    def look(self, request):
        inside = (self.server.url, "data:", f"blob:{self.server.url}")
        if not request.url.startswith(inside):
            self.problems.append(f"a request left this machine: {request.url}")

    def make(self, caption, lyrics="", **more):
        """Fills in the form and sends it."""
        page = self.page
        page.get_by_role("tab", name="Song").click()
        page.get_by_label("Describe the song").fill(caption)
        page.locator("#song-lyrics").fill(lyrics)
        if more:
            fold = page.locator("form.make details.more")
            if fold.get_attribute("open") is None:
                fold.locator("summary").click()
            for key, value in more.items():
                page.locator(f"#song-{key}").fill(str(value))
        page.get_by_role("button", name="Make the song").click()

    def card(self, name):
        """The card of a finished song."""
        return self.page.locator(".library li.card", has=self.page.get_by_role("heading", name=name))

    def jobs(self):
        return self.page.evaluate("fetch('v1/jobs').then((a) => a.json()).then((v) => v.jobs)")

    def end(self):
        self.page.close()
        assert not self.problems, self.problems


@contextmanager
def browser():
    """A browser, closed at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=chromium(), args=ARGS)
        try:
            yield chrome
        finally:
            chrome.close()


def say(text):
    print(text, file=sys.stderr, flush=True)
