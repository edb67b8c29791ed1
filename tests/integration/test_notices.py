"""A real controller tells of a job by a real mail program and a real HTTP server, both of which fail at first."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.controller_rig import Client, FakeAgent, spec, start_inside, until

from flagplotd.config import load_config
from flagplotd.service.notices import Notices

MAILER = """#!{python}
import json, sys, pathlib
folder = pathlib.Path({folder!r})
tries = folder / "tries"
count = int(tries.read_text()) if tries.exists() else 0
tries.write_text(str(count + 1))
if count == 0:
    sys.exit("the mail queue is full")
(folder / f"mail{{count}}").write_text(json.dumps([sys.argv[1:], sys.stdin.read()]))
"""


class Hook(BaseHTTPRequestHandler):
    """Refuses the first request, then keeps what it gets."""

    got: list[tuple[dict[str, str], bytes]]
    tries: int

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).tries += 1
        if self.tries > 1:
            self.got.append((dict(self.headers), data))
        self.send_response(204 if self.tries > 1 else 503)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def hook() -> Iterator[HTTPServer]:
    kind = type("FreshHook", (Hook,), {"got": [], "tries": 0})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def test_mail_and_webhook_are_sent_again_until_they_go(
    tmp_path: Path, hook: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, key = tmp_path / "sendmail", tmp_path / "key"
    program.write_text(MAILER.format(python=sys.executable, folder=str(tmp_path)))
    program.chmod(0o755)
    key.write_text("s3cret\n")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "flagplotd.toml").write_text(
        f"""[notices]
mail_program = "{program}"
mail_from = "flagplot@lab.example"
mail_domain = "lab.example"
webhook = "http://127.0.0.1:{hook.server_port}/jobs"
webhook_key_file = "{key}"
"""
    )
    quick = Notices.__init__
    monkeypatch.setattr(Notices, "__init__", lambda self, settings, name: quick(self, settings, name, (0.05, 0.1)))
    controller = await start_inside(folder, load_config(folder / "flagplotd.toml"))
    client = await Client.local(folder)
    agent = await FakeAgent("gpu01").connect(controller.server.port, folder)
    try:
        job = spec("na\u00efve $(id)", mail_type=("END",), mail_user="ada,boss@example.org")
        number = (await client.submit(job)).number
        await agent.launched(number)
        agent.end(number, exit_code=3)
        await client.wait_state(number, "FAILED")
        await until((tmp_path / "mail1").exists, what="the second try of the mail")
        await until(lambda: hook.RequestHandlerClass.got, what="the second try of the webhook")  # type: ignore[attr-defined]
    finally:
        await agent.leave()
        await client.close()
        await controller.close()
    arguments, text = json.loads((tmp_path / "mail1").read_text())
    assert arguments == ["-i", "--", "ada@lab.example", "boss@example.org"]
    assert "From: flagplot@lab.example\n" in text and f"Job: {number}\n" in text and "Exit code: 3\n" in text
    ((headers, data),) = hook.RequestHandlerClass.got  # type: ignore[attr-defined]
    assert headers["X-Flagplot-Signature"] == "sha256=" + hmac.new(b"s3cret", data, hashlib.sha256).hexdigest()
    told = json.loads(data)
    assert (told["event"], told["state"], told["exit_code"], told["name"]) == ("END", "FAILED", 3, "na\u00efve $(id)")


async def test_a_mail_program_that_never_works_is_given_up_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from flagplot_wire.ids import JobNumber
    from flagplot_wire.job import Job
    from flagplotd.config.notices import NoticeSettings
    from flagplotd.core.notices import Notice

    notices = Notices(NoticeSettings(mail_program="/bin/false"), "lab", (0.01, 0.01))
    notices.put([Notice("mail", "END", Job(JobNumber(7), "ada", 1000, spec()))])
    work = asyncio.create_task(notices.run())
    await until(lambda: "given up after 3 tries" in caplog.text, what="the words of giving up")
    assert "/bin/false ended with 1" in caplog.text and not work.done()
    work.cancel()
    await asyncio.wait((work,))
