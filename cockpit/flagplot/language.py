"""The language of the cockpit's screens: English in the code, others from gettext catalogs (gettext(3)).

The choice is made once, at the start of the program; until then, and in tests, English is spoken. Slurm's words (states,
reasons, column titles), commands and their output stay as they are in every language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from gettext import NullTranslations, find, translation
from pathlib import Path

DOMAIN = "flagplot"
CATALOGS = Path(__file__).parent / "locale"
_spoken: list[NullTranslations] = [NullTranslations()]


def wished(environment: Mapping[str, str]) -> list[str]:
    """The languages asked for, best first, as gettext(3) reads `LANGUAGE`, `LC_ALL`, `LC_MESSAGES` and `LANG`.

    Chinese in any place and script is `zh_CN`, the one that there is.
    """
    locale = next((environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), "C")
    if locale.partition(".")[0] in ("C", "POSIX"):
        return []
    asked = [*filter(None, environment.get("LANGUAGE", "").split(":")), locale]
    return ["zh_CN" if one.startswith("zh") else one for one in asked]


def speak(languages: Iterable[str]) -> None:
    """Speak the first of these that there is a catalog for, or is English; English without one."""
    for language in languages:
        if language.startswith("en"):
            break
        if find(DOMAIN, CATALOGS, [language]):
            _spoken[0] = translation(DOMAIN, CATALOGS, [language])
            return
    _spoken[0] = NullTranslations()


def tr(text: str) -> str:
    """A text in the language spoken; figures and names are put in after it, with `format`."""
    return _spoken[0].gettext(text) if text else ""


def tr_count(one: str, many: str, count: int) -> str:
    """A text with `{count}` in it, in the form that goes with that number."""
    return _spoken[0].ngettext(one, many, count).format(count=count)


def later(text: str) -> str:
    """Mark a text of a table, which is translated where it is shown."""
    return text
