"""`[notices]`: how the controller tells of jobs by mail and by webhook."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from flagplot_wire.errors import Refused
from flagplot_wire.mail import END, check_mail_user, parse_mail_type
from flagplotd.config.tables import Tables


class NoticeSettings(Struct, frozen=True):
    """`mail_program` is `auto`, empty (no mail), or a path. The key of the file signs what a webhook gets."""

    mail_program: str = "auto"
    mail_from: str = ""
    mail_domain: str = ""
    webhook: str = ""
    webhook_on: tuple[str, ...] = (END,)
    webhook_key_file: str = ""


def read_notices(tables: Tables, data: dict[str, Any]) -> NoticeSettings:
    """The table; raises `Refused` that names the key."""
    where, plain = "notices", NoticeSettings()
    table = tables.table(data, where, NoticeSettings.__struct_fields__)
    texts = {name: tables.text(where, table, name, getattr(plain, name)) for name in table if name != "webhook_on"}
    for name in ("mail_program", "webhook_key_file"):
        value = texts.get(name, "")
        if value not in ("", "auto") and not Path(value).is_absolute():
            raise tables.bad(f"{where}.{name}", f"must be an absolute path, not {value!r}")
    if texts.get("mail_from"):
        tables.read(f"{where}.mail_from", check_mail_user, texts["mail_from"])
    if texts.get("mail_domain"):
        tables.read(f"{where}.mail_domain", check_mail_user, f"x@{texts['mail_domain']}")
    if url := texts.get("webhook", ""):
        _check_url(tables, url)
    on = tables.names(where, table, "webhook_on") if "webhook_on" in table else plain.webhook_on
    kinds, idle = tables.read(f"{where}.webhook_on", parse_mail_type, ",".join(on) or "NONE")
    if idle:
        raise tables.bad(f"{where}.webhook_on", f"{', '.join(idle)} is never told")
    return NoticeSettings(**texts, webhook_on=kinds)


def _check_url(tables: Tables, url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise tables.bad("notices.webhook", f"must be an http or https address, not {url!r}")


def key_of(settings: NoticeSettings) -> bytes:
    """The key that signs webhooks; empty without a file. Raises `Refused` where it cannot be read."""
    if not settings.webhook_key_file:
        return b""
    try:
        key = Path(settings.webhook_key_file).read_bytes().strip()
    except OSError as wrong:
        raise Refused("usage", f"notices.webhook_key_file: {wrong}") from wrong
    if not key:
        raise Refused("usage", f"notices.webhook_key_file: {settings.webhook_key_file} is empty")
    return key
