"""Every action of the cockpit by name, so that a person can give it other keys (`keys.toml`)."""

from __future__ import annotations

import json
import pkgutil
import re
from collections import defaultdict
from dataclasses import replace
from importlib import import_module

from textual.binding import Binding
from textual.dom import DOMNode

import flagplot.tui.screens
import flagplot.tui.widgets
from flagplot.client.own_files import read_own
from flagplot.tui.registry import VIEWS
from flagplot.tui.widgets.hints import key_name
from flagplot.view.own_keys import Plugin, Read, Rebound, read_keys, read_plugins

NAMES = {"FlagplotApp": "everywhere", "VirtualTable": "list", "FleetMap": "map", "TextPane": "text"}
"""Parts that are called otherwise than their class."""
PAGES = ("job", "node")
"""Views that no digit leads to."""
UNDER = {"job": ("text", "log"), "nodes": ("list", "map"), "node": ("list", "text")}
"""Parts that have the keyboard within a view, so that their keys come first; in the others it is the list."""


def part_of(kind: type) -> str:
    """The name of the part of the cockpit that a class is: `queue` of QueueView."""
    name = NAMES.get(kind.__name__) or re.sub(r"(View|Screen|Dialog)$", "", kind.__name__)
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def load_parts() -> dict[str, list[Binding]]:
    """The bindings of every part, which also get their names (`queue.hold`) as ids; imports all screens."""
    for package in (flagplot.tui.screens, flagplot.tui.widgets):
        for module in pkgutil.iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
    from flagplot.tui.app import FlagplotApp

    assert FlagplotApp is not None
    parts: dict[str, list[Binding]] = defaultdict(list)
    for kind in _subclasses(DOMNode):
        if not kind.__module__.startswith("flagplot."):
            continue
        own = list(Binding.make_bindings(kind.__dict__.get("BINDINGS", ())))
        if own:
            parts[part_of(kind)] += own
        _name(kind)
    return dict(sorted(parts.items()))


def _subclasses(kind: type[DOMNode]) -> list[type[DOMNode]]:
    found = dict.fromkeys(kind.__subclasses__())
    for one in list(found):
        found |= dict.fromkeys(_subclasses(one))
    return list(found)


def _name(kind: type[DOMNode]) -> None:
    """Give the bindings that a class merged from its bases their ids."""
    merged = kind._merged_bindings
    if merged is None:
        return
    owners = {
        (binding.key, binding.action): part_of(base)
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("flagplot.")
        for binding in Binding.make_bindings(base.__dict__.get("BINDINGS", ()))
    }
    for bound in merged.key_to_bindings.values():
        for at, binding in enumerate(bound):
            if binding.id is None and (part := owners.get((binding.key, binding.action))):
                bound[at] = replace(binding, id=f"{part}.{binding.action}")


def view_names() -> list[str]:
    """All views."""
    return [*(entry.name for entry in VIEWS), *PAGES]


def around(part: str) -> list[str]:
    """The parts whose keys work beside those of a part, itself among them; of a dialog there are none."""
    under = {view: UNDER.get(view, ("list",)) for view in view_names()}
    if part in under:
        return [part, *under[part], "everywhere"]
    if part == "everywhere":
        return ["everywhere", *dict.fromkeys(one for view in under for one in (view, *under[view]))]
    views = [view for view, parts in under.items() if part in parts]
    return [part, *views, "everywhere"] if views else [part]


class Own:
    """The keys and plugins of one person: what of them can be used, and what is wrong (sentences with file and line)."""

    def __init__(self) -> None:
        self.keymap: dict[str, str] = {}
        self.plugins: list[Plugin] = []
        self.problems: list[str] = []
        keys, plugins = read_own("keys.toml", str, ""), read_own("plugins.toml", str, "")
        if not keys and not plugins:
            return
        parts = load_parts()
        rebound = self._take("keys.toml", read_keys(keys, {part: _actions(own) for part, own in parts.items()})).rebound
        self._rebind(parts, rebound)
        views = view_names()
        for plugin in self._take("plugins.toml", read_plugins(plugins, views)).plugins:
            self._add(parts, plugin, views)

    def _take(self, file: str, read: Read) -> Read:
        self.problems += [f"{file}{f' line {line}' if line else ''}: {what}" for line, what in read.problems]
        return read

    def _bound(self, part: str, own: list[Binding], key: str) -> set[str]:
        """The actions of a part that a key has now."""
        now = ((binding.action, self.keymap.get(f"{part}.{binding.action}", binding.key)) for binding in own)
        return {action for action, keys in now if key in keys.split(",")}

    def _taken(self, parts: dict[str, list[Binding]], part: str, key: str, action: str) -> str:
        """Who else has a key where `part` is in use; empty: nobody."""
        for one in around(part):
            for there in sorted(self._bound(one, parts.get(one, []), key)):
                if there.split(".")[-1] != action.split(".")[-1]:
                    return f"{one}.{there}"
        return ""

    def _rebind(self, parts: dict[str, list[Binding]], rebound: list[Rebound]) -> None:
        """Take the keys that nothing else has. What is refused keeps its own key, which may refuse another's."""
        self.keymap = {f"{one.scope}.{one.action}": ",".join(one.keys) for one in rebound}
        left = rebound
        while refused := [(one, *hit) for one in left if (hit := self._conflict(parts, one))]:
            for one, key, other in refused:
                del self.keymap[f"{one.scope}.{one.action}"]
                self.problems.append(
                    f"keys.toml line {one.line}: {key_name(key)} is the key of {other}: give that another, or take another"
                )
            left = [one for one in left if f"{one.scope}.{one.action}" in self.keymap]

    def _conflict(self, parts: dict[str, list[Binding]], one: Rebound) -> tuple[str, str] | None:
        plain = {binding.key for binding in parts[one.scope] if binding.action == one.action}
        hits = ((key, self._taken(parts, one.scope, key, one.action)) for key in one.keys if key not in plain)
        return next((hit for hit in hits if hit[1]), None)

    def _add(self, parts: dict[str, list[Binding]], plugin: Plugin, views: list[str]) -> None:
        for view in views if "all" in plugin.scopes else plugin.scopes:
            other = self._taken(parts, view, plugin.key, "") or next(
                (
                    f"[{one.name}]"
                    for one in self.plugins
                    if one.key == plugin.key and ("all" in one.scopes or view in one.scopes)
                ),
                "",
            )
            if other:
                self.problems.append(
                    f"plugins.toml line {plugin.line}: {plugin.name}: {key_name(plugin.key)} is the key of {other}"
                    f" in {view}: take another, or give that one another in keys.toml"
                )
                return
        self.plugins.append(plugin)

    def of_view(self, view: str) -> list[Plugin]:
        """The plugins of a view."""
        return [one for one in self.plugins if "all" in one.scopes or view in one.scopes]


def _actions(own: list[Binding]) -> set[str]:
    return {binding.action for binding in own}


def written() -> str:
    """A whole `keys.toml` with the keys as they are by default, each line a comment."""
    lines = ["# Keys of the cockpit. Take the # away from a line to change it; flagplot-config(5) tells more.", ""]
    for part, own in load_parts().items():
        by_action: dict[str, list[Binding]] = defaultdict(list)
        for binding in own:
            by_action[binding.action].append(binding)
        lines.append(f"[{part}]")
        for action, bindings in by_action.items():
            name = action if re.fullmatch(r"\w+", action) else json.dumps(action)
            keys = [binding.key for binding in bindings]
            value = json.dumps(keys[0] if len(keys) == 1 else keys)
            words = bindings[0].tooltip or bindings[0].description
            lines.append(f"# {name} = {value}  # {words}")
        lines.append("")
    return "\n".join(lines)
