"""The texts of the cockpit that are translated, found in its sources, and the catalogs they belong in.

    python tests/support/catalog.py

brings the catalogs up to date: new texts come in without a translation, those that are gone go out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

SOURCES = Path(__file__).resolve().parents[2] / "cockpit" / "flagplot"
CATALOGS = SOURCES / "locale"
SHOWN_LATER = {"title", "NO_MATCH", "NOTHING"}
"""Attributes of views that hold texts."""
Found = str | tuple[str, str]


def texts() -> dict[Found, list[tuple[str, int]]]:
    """Every text to be translated (one, or one and many), with the files and lines where it stands."""
    found: dict[Found, list[tuple[str, int]]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for text in [*_called(node), *_held(node)]:
                if text:
                    found.setdefault(text, []).append((path.relative_to(SOURCES).as_posix(), node.lineno))  # type: ignore[attr-defined]
    return found


def _called(node: ast.AST) -> Iterator[Found]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return
    words = [_literal(one) for one in node.args]
    if node.func.id in ("tr", "later"):
        first = node.args[0]
        yield from (_literal(one) for one in ([first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]))
    elif node.func.id == "tr_count":
        assert words[0] and words[1], f"line {node.lineno}: tr_count needs two literal texts"
        yield words[0], words[1]
    elif node.func.id == "Binding":
        yield from words[2:3]
        yield from (_literal(one.value) for one in node.keywords if one.arg in ("description", "tooltip"))


def _held(node: ast.AST) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    if any(isinstance(one, ast.Name) and one.id in SHOWN_LATER for one in targets):
        value = node.value  # type: ignore[attr-defined]
        for one in value.elts if isinstance(value, ast.Tuple) else [value]:
            yield _literal(one)


def _literal(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def catalog(path: Path) -> Catalog:
    """A catalog as it is written."""
    with path.open("rb") as file:
        return read_po(file)


def compiled(of: Catalog) -> bytes:
    """The bytes of its machine form."""
    out = BytesIO()
    write_mo(out, of)
    return out.getvalue()


def update(path: Path) -> None:
    """Bring one catalog and its machine form up to date."""
    language = path.parts[-3]
    old = catalog(path) if path.exists() else Catalog(locale=language)
    fresh = Catalog(locale=language, project="flagplot", fuzzy=False, header_comment=f"# {language} for Flagplot.")
    for text, _ in sorted(texts().items(), key=lambda item: item[0] if isinstance(item[0], str) else item[0][0]):
        known = old.get(text if isinstance(text, str) else text[0])
        fresh.add(text, known.string if known is not None else None)
    for header in ("creation_date", "revision_date"):
        setattr(fresh, header, getattr(old, header))
    with path.open("wb") as file:
        write_po(file, fresh, width=120, omit_header=False, sort_output=False)
    path.with_suffix(".mo").write_bytes(compiled(catalog(path)))


if __name__ == "__main__":
    for place in sorted(CATALOGS.glob("*/LC_MESSAGES")):
        update(place / "flagplot.po")
        missing = [one.id for one in catalog(place / "flagplot.po") if one.id and not (one.string and all(one.string))]
        print(f"{place.parent.name}: {len(missing)} texts without a translation")
