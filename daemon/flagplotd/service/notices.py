"""Mail and webhooks are sent beside the controller's work: it never waits for them, and never fails with them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import msgspec

from flagplot_wire.errors import Refused
from flagplot_wire.mail import check_mail_user
from flagplotd.config.notices import NoticeSettings, key_of
from flagplotd.core.notices import Notice, body, payload, subject
from flagplotd.service import clock

log = logging.getLogger("flagplotd.notices")

WAITS_S = (10.0, 60.0, 300.0)
"""Between one try and the next; after the last one a notice is given up."""
TRY_S = 30.0
MOST_WAITING = 1_000
WORKERS = 4
SENDMAIL = ("/usr/sbin/sendmail", "/usr/lib/sendmail")
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


class NotSent(Exception):
    """One try failed; the sentence says why."""


def mail_program(wanted: str) -> str:
    """The site's program: the one set, else sendmail, else mail; empty where there is none."""
    if wanted != "auto":
        return wanted
    return next((path for path in SENDMAIL if os.access(path, os.X_OK)), shutil.which("mail", path=PATH) or "")


class Notices:
    """A queue of notices and the tasks that send them. `waits_s` are the times between the tries."""

    def __init__(self, settings: NoticeSettings, cluster: str, waits_s: tuple[float, ...] = WAITS_S) -> None:
        self.settings, self.cluster, self.waits_s = settings, cluster, waits_s
        self.program = mail_program(settings.mail_program)
        self._key = key_of(settings)
        self._queue: asyncio.Queue[Notice] = asyncio.Queue(MOST_WAITING)
        self._lost = 0

    def put(self, notices: list[Notice]) -> None:
        """Have these sent; beyond `MOST_WAITING` they are dropped, and their number is logged."""
        for notice in notices:
            if notice.by == "mail" and not self.program:
                log.warning("job %s asks for mail, and there is no mail program", notice.job.display_id)
                continue
            try:
                self._queue.put_nowait(notice)
            except asyncio.QueueFull:
                self._lost += 1

    async def run(self) -> None:
        """Send for ever; cancel to stop (what waits then is dropped, and their number is logged)."""
        try:
            await asyncio.gather(*(self._work() for _ in range(WORKERS)))
        finally:
            if left := self._queue.qsize() + self._lost:
                log.warning("%d notices were not sent", left)

    async def _work(self) -> None:
        while True:
            notice = await self._queue.get()
            await self._send(notice)
            if self._lost:
                log.warning("too many notices wait: %d were dropped", self._lost)
                self._lost = 0

    async def _send(self, notice: Notice) -> None:
        send: Callable[[Notice], Awaitable[None]] = self._mail if notice.by == "mail" else self._post
        what = f"{notice.by} of job {notice.job.display_id} ({notice.kind})"
        for wait in (*self.waits_s, None):
            try:
                await asyncio.wait_for(send(notice), TRY_S)
                return
            except (NotSent, OSError, TimeoutError) as wrong:
                why = str(wrong) or f"no answer within {TRY_S:.0f} s"
                if wait is None:
                    log.error("%s given up after %d tries: %s", what, len(self.waits_s) + 1, why)
                    return
                log.warning("%s failed, again in %.0f s: %s", what, wait, why)
                await asyncio.sleep(wait)
            except Exception:
                log.exception("a defect: %s could not be sent", what)
                return

    # mail

    def _addresses(self, notice: Notice) -> list[str]:
        domain = self.settings.mail_domain
        try:
            words = check_mail_user(notice.job.spec.mail_user or notice.job.user).split(",")
        except Refused as refused:
            raise NotSent(refused.message) from refused
        return [f"{word}@{domain}" if domain and "@" not in word else word for word in words]

    async def _mail(self, notice: Notice) -> None:
        title, text, to = subject(notice, clock.now()), body(notice, self.cluster), self._addresses(notice)
        if Path(self.program).name in ("mail", "mailx", "s-nail", "bsd-mailx"):
            await _run([self.program, "-s", title, *to], text.encode())
            return
        message = EmailMessage()
        message["Subject"], message["To"] = title, ", ".join(to)
        if self.settings.mail_from:
            message["From"] = self.settings.mail_from
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        await _run([self.program, "-i", "--", *to], message.as_bytes())

    # webhook

    async def _post(self, notice: Notice) -> None:
        data = msgspec.json.encode(payload(notice, self.cluster, clock.now()))
        headers = {"Content-Type": "application/json", "User-Agent": "flagplotd"}
        if self._key:
            headers["X-Flagplot-Signature"] = "sha256=" + hmac.new(self._key, data, hashlib.sha256).hexdigest()
        request = urllib.request.Request(self.settings.webhook, data, headers, method="POST")
        await asyncio.to_thread(_post, request)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Another address than the site wrote down is not told of its jobs."""

    def redirect_request(self, *_: Any) -> None:
        """Never."""


def _post(request: urllib.request.Request) -> None:
    try:
        urllib.request.build_opener(_NoRedirect).open(request, timeout=TRY_S - 5).close()
    except urllib.error.HTTPError as wrong:
        raise NotSent(f"{request.host} answered {wrong.code}") from wrong
    except ValueError as wrong:
        raise NotSent(str(wrong)) from wrong


async def _run(command: list[str], stdin: bytes) -> None:
    """Run a program with an environment of its own; what it says on standard error tells why it failed."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=asyncio.subprocess.DEVNULL, stderr=pipe, cwd="/",
        env={"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/"},
    )  # fmt: skip
    try:
        _, said = await process.communicate(stdin)
    except asyncio.CancelledError:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    if process.returncode:
        raise NotSent(f"{command[0]} ended with {process.returncode}: {said.decode(errors='replace').strip()[:300]}")
