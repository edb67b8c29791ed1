"""`flagplot web`: a real server on loopback, spoken to over HTTP and websocket, and by a real headless Chromium."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster, wait_until

pytestmark = pytest.mark.timeout(180)
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)


@pytest.fixture
def address(fleet: Cluster) -> Iterator[str]:
    """What `flagplot web` prints."""
    pytest.importorskip("textual_serve", reason="flagplot[web] is not installed: no page is served")
    log = fleet.work / "web.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "flagplot.cli.main", "web"], env=fleet.environment, cwd=fleet.work, stdout=output,
            stderr=output,
        )  # fmt: skip
    try:
        found = wait_until(
            lambda: re.search(r"http://127\.0\.0\.1:\d+/[\w-]{40,}/", log.read_text()), 30, "the address"
        )
        yield found[0]
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0, log.read_text()


def test_another_address_than_loopback_needs_a_word(fleet: Cluster) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        done = fleet.run("web", "--host", host)
        assert (
            done.returncode == 2 and "can be reached from other machines" in done.stderr and "--anywhere" in done.stderr
        )


def test_a_token_file_must_be_ones_own(fleet: Cluster) -> None:
    pytest.importorskip("textual_serve", reason="flagplot[web] is not installed: no page is served")
    from flagplot.tui.web import token_of
    from flagplot_wire.errors import Refused

    path = fleet.work / "token"
    made = token_of(path)
    assert len(made) >= 40 and path.stat().st_mode & 0o777 == 0o600 and token_of(path) == made
    path.chmod(0o640)
    with pytest.raises(Refused, match="others may read"):
        token_of(path)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(Refused, match="holds no token"):
        token_of(path)


async def test_nothing_is_served_without_the_token(address: str) -> None:
    import aiohttp

    base, token = re.fullmatch(r"(http://[^/]+)/([^/]+)/", address).groups()  # type: ignore[union-attr]
    async with aiohttp.ClientSession() as client:
        for path in ("/", "/ws", "/static/js/textual.js", f"/{token[::-1]}/", f"/{token[:-1]}/ws", f"/{token}x/ws"):
            async with client.get(base + path) as answer:
                assert answer.status == 403, path
        async with client.get(f"{base}/download/guessed") as answer:
            assert answer.status == 404
        async with client.get(address) as answer:
            page = await answer.text()
            assert answer.status == 200 and "flagplot" in page and "Set-Cookie" not in answer.headers
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert not re.search(r"https?://", page), "the page asks another place for something"
        async with client.get(f"{address}static/js/textual.js") as answer:
            assert answer.status == 200
        for origin, status in (("http://evil.example", 403), (base, 101)):
            with_origin = client.ws_connect(f"{address}ws?width=80&height=24", headers={"Origin": origin})
            try:
                async with with_origin:
                    assert status == 101
            except aiohttp.WSServerHandshakeError as refused:
                assert refused.status == status


async def test_a_cockpit_over_the_websocket(address: str) -> None:
    import aiohttp

    async with (
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{address}ws?width=100&height=30") as socket,
    ):
        await heard(socket, "demo", "The queue is empty")
        await socket.send_json(["stdin", "2"])
        await heard(socket, "gpu01", "gpu02")
        await socket.send_json(["resize", {"width": 60, "height": 16}])
        await heard(socket, "gpu01")
        await socket.send_json(["stdin", "q"])
        while not socket.closed:
            await socket.receive()


async def heard(socket: Any, *words: str) -> None:
    """Wait until the terminal was sent every word."""
    text = ""
    while not all(word in text for word in words):
        message = await socket.receive()
        assert isinstance(message.data, bytes | str), f"closed after {text[-300:]!r}"
        text += message.data.decode() if isinstance(message.data, bytes) else message.data


class Browser:
    """One page of Chromium, driven by its own protocol."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._calls = socket, 0

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        await self._socket.send_json({"id": self._calls, "method": method, "params": parameters})
        while True:
            answer = await self._socket.receive_json()
            if answer.get("id") == self._calls:
                assert "error" not in answer, answer
                return dict(answer["result"])

    async def value(self, expression: str) -> Any:
        return (await self.call("Runtime.evaluate", expression=expression))["result"].get("value")

    async def press(self, key: str) -> None:
        await self.call(
            "Input.dispatchKeyEvent", type="keyDown", key=key, text=key, windowsVirtualKeyCode=ord(key.upper())
        )
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=ord(key.upper()))


@asynccontextmanager
async def chromium(folder: Path, address: str) -> AsyncIterator[Browser]:
    import aiohttp

    process = await asyncio.create_subprocess_exec(
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0",
        f"--user-data-dir={folder}", "--window-size=1200,700", address, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    try:
        port_file = folder / "DevToolsActivePort"
        await until(
            lambda: asyncio.sleep(0, port_file.exists() and port_file.read_text().count("\n")), "Chromium's port"
        )
        port = port_file.read_text().split()[0]
        async with aiohttp.ClientSession() as client:

            async def page() -> str:
                async with client.get(f"http://127.0.0.1:{port}/json") as answer:
                    pages = [one for one in await answer.json(content_type=None) if one["type"] == "page"]
                    return str(pages[0]["webSocketDebuggerUrl"]) if pages else ""

            async with client.ws_connect(await until(page, "the page"), max_msg_size=0) as socket:
                yield Browser(socket)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def until(condition: Callable[[], Awaitable[Any]], what: str) -> Any:
    for _ in range(600):
        if value := await condition():
            return value
        await asyncio.sleep(0.05)
    raise AssertionError(f"{what} did not come true")


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed: the page was not opened in a browser")
async def test_keys_in_chromium_reach_the_controller(address: str, fleet: Cluster, tmp_path: Path) -> None:
    number = fleet.submit("-H", "-J", "from-the-page", "-o", "/dev/null", "--wrap", "true")
    async with chromium(tmp_path / "profile", address) as browser:
        await until(lambda: browser.value("document.body.classList.contains('-first-byte')"), "the terminal")
        await until(
            lambda: browser.value("document.activeElement.classList.contains('xterm-helper-textarea')"), "the keyboard"
        )

        async def released() -> bool:
            # The cockpit may not have the job yet when the first keys come.
            await browser.press("u")
            return await asyncio.to_thread(fleet.state, number) != "PENDING"

        await until(released, "the release by a key in the browser")
        shot = await browser.call("Page.captureScreenshot", format="png")
        assert len(json.dumps(shot)) > 20_000, "the page is blank"
        await browser.press("q")
        await until(lambda: browser.value("document.body.classList.contains('-closed')"), "the end of the page")
