"""`keys.toml` and `plugins.toml`: keys as people write them, mistakes with their line, conflicts, and that they work."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.cockpit import app_of, press, settle, toasts

from flagplot.tui.keymap import Own, load_parts, written
from flagplot.tui.screens.help import help_rows
from flagplot.view.own_keys import key_named, line_of, read_keys, read_plugins
from flagplot_wire.errors import Refused

ACTIONS = {"queue": ("hold", "sort('id')", "edit"), "everywhere": ("help",)}


@pytest.mark.parametrize(
    ("written_as", "key"),
    [
        ("N", "N"), ("shift+n", "N"), ("Shift+N", "N"), ("?", "question_mark"), ("ctrl+X", "ctrl+x"), ("F4", "f4"),
        ("alt+left", "alt+left"), ("/", "slash"), ("+", "plus"), ("ctrl++", "ctrl+plus"), ("slash", "slash"),
        ("shift+down", "shift+down"), ("alt+ctrl+k", "ctrl+alt+k"), ("é", "é"),
    ],
)  # fmt: skip
def test_keys_as_people_write_them(written_as: str, key: str) -> None:
    assert key_named(written_as) == key


@pytest.mark.parametrize("text", ["", "hyperspace", "ctl+x", "ctrl+", "ctrl+i", "ctrl+m", "f99", "ab"])
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(Refused):
        key_named(text)


def test_mistakes_in_keys_have_their_line() -> None:
    text = """# mine
[queue]
hold = "H"
"sort('id')" = ["alt+i", "no key"]
holdd = "x"

[garage]
a = "b"
[everywhere]
help = 5
"""
    read = read_keys(text, ACTIONS)
    assert [(one.scope, one.action, one.keys, one.line) for one in read.rebound] == [("queue", "hold", ("H",), 3)]
    assert [line for line, _ in read.problems] == [4, 5, 7, 10]
    told = " ".join(what for _, what in read.problems)
    assert "'no key' is no key" in told and "queue has no action holdd: edit hold" in told and "no part garage" in told


def test_a_file_that_is_no_toml_has_its_line() -> None:
    assert read_keys('[queue]\nhold = "H\n', ACTIONS).problems[0][0] == 2


PLUGINS = """
[notebook]
key = "ctrl+n"
scope = ["queue", "job"]
command = "ssh $NODE -- tmux attach"
description = "Attach"

[bad-key]
key = "ctrl+i"
command = ["x"]

[bad-variable]
key = "f4"
command = ["x", "$JOBB"]

[bad-scope]
key = "f5"
command = "x"
scope = "kitchen"

[no-command]
key = "f6"

[strange]
key = "f7"
command = "x"
comand = "y"

[two-texts]
key = "f8"
shell = true
command = ["a", "b"]
"""


def test_mistakes_in_plugins_have_their_line() -> None:
    read = read_plugins(PLUGINS, ("queue", "job"))
    (plugin,) = read.plugins
    assert (plugin.command, plugin.scopes, plugin.key, plugin.line) == (
        ("ssh", "$NODE", "--", "tmux", "attach"), ("queue", "job"), "ctrl+n", 2,
    )  # fmt: skip
    assert [line for line, _ in read.problems] == [9, 14, 19, 21, 27, 32]
    told = "\n".join(what for _, what in read.problems)
    for words in (
        "cannot be told from tab",
        "no variable $JOBB",
        "no view kitchen",
        "has no command",
        "no such setting",
    ):
        assert words in told


def test_lines_of_dotted_and_quoted_names() -> None:
    text = '[a."b c"]\nx = 1\n["d"]\n"y z" = 2\n'
    assert (line_of(text, ("a", "b c", "x")), line_of(text, ("d", "y z")), line_of(text, ("d", "gone"))) == (2, 4, 3)


def own(tmp_path: Path, keys: str = "", plugins: str = "") -> Path:
    folder = tmp_path / "config" / "flagplot"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("keys.toml", keys), ("plugins.toml", plugins)):
        if text:
            (folder / name).write_text(text)
    return folder


def test_what_flagplot_keys_prints_is_read_without_a_mistake(tmp_path: Path) -> None:
    text = written()
    whole = "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    own(tmp_path, whole)
    made = Own()
    assert made.problems == [] and len(made.keymap) > 100
    assert text.count("\n[") >= 15


def test_conflicts_are_told_and_left_out(tmp_path: Path) -> None:
    own(
        tmp_path,
        "[queue]\nhold = 'e'\nedit = 'j'\nrelease = 'H'\n[everywhere]\nhelp = 'R'\n[queue.sub]\n",
        "[one]\nkey = 'H'\ncommand = 'x'\n[two]\nkey = 'f9'\ncommand = 'x'\nscope = 'queue'\n[three]\nkey = 'f9'\ncommand = 'y'\n",
    )
    made = Own()
    assert made.keymap == {"queue.release": "H"} and [one.name for one in made.plugins] == ["two"]
    told = "\n".join(made.problems)
    for words in (
        "keys.toml line 3: j is the key of list.move(1)",
        "keys.toml line 6: R is the key of queue.requeue",
        "plugins.toml line 1: one: H is the key of queue.release in queue",
        "plugins.toml line 8: three: f9 is the key of [two] in queue",
    ):
        assert words in told


def test_every_part_of_the_cockpit_has_a_name() -> None:
    parts = load_parts()
    assert {"queue", "nodes", "job", "list", "everywhere", "submit", "confirm", "prompt"} <= set(parts)


async def test_a_key_that_was_given_away_works_and_is_in_the_help(tmp_path: Path) -> None:
    own(tmp_path, "[queue]\nsubmit = ['W', 'f9']\n[everywhere]\ncommand_log = 'L'\n[list]\n'move(1)' = ['down', 'B']\n")
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "n")
        assert len(app.screen_stack) == 1
        rows = {keys: what for _, keys, what in help_rows(list(app.screen.active_bindings.values()))}
        assert rows["W  f9"] == "Submit a new job" and rows["L"] == "Command log" and "n" not in rows
        first = app.active_view.copied()  # type: ignore[union-attr]
        await press(app, pilot, "B")
        assert app.active_view.copied() != first  # type: ignore[union-attr]
        await press(app, pilot, "L")
        assert type(app.screen).__name__ == "CommandLog"
        await press(app, pilot, "escape", "f9")
        assert type(app.screen).__name__ == "SubmitScreen"


async def test_mistakes_are_told_when_the_cockpit_opens(tmp_path: Path) -> None:
    own(tmp_path, "[queue]\nhold = 'e'\n")
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        assert "keys.toml line 2: e is the key of queue.edit" in app.screen._lines[0]  # type: ignore[attr-defined]


SPY = "import json, os, sys; open({out!r}, 'a').write(json.dumps([sys.argv[1:], os.environ.get('NAME')]) + '\\n'); print('told')"


def spy(out: Path, *words: str) -> str:
    return json.dumps([sys.executable, "-c", SPY.format(out=str(out)), *words])


async def test_plugins_run_with_their_arguments_on_marks(tmp_path: Path) -> None:
    out = tmp_path / "out"
    own(
        tmp_path,
        plugins=f"""[mine]
key = "f9"
scope = "queue"
command = {spy(out, "--job=$JOB", "$JOBS", "$NAME;id")}
background = true
description = "Look at it"
[risky]
key = "f10"
command = {spy(out, "$NODES")}
dangerous = true
background = true
[script]
key = "f11"
shell = true
background = true
command = 'printf "%s|" "$NAME" "$JOB" >> "{out}"; exit 3'
""",
    )
    app = app_of()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "space", "space", "f9")
        marked = app.active_view.copied().split()  # type: ignore[union-attr]
        assert json.loads(out.read_text()) == [[f"--job={marked[0]}", *marked, "llama-pretrain;id"], "llama-pretrain"]
        assert toasts(app)[-1] == "mine: told" and app.command_log[-1][2] == "done"
        assert ("f9", "Look at it") in {
            (keys, what) for _, keys, what in help_rows(list(app.screen.active_bindings.values()))
        }
        out.unlink()
        await press(app, pilot, "escape", "2", "f9", "f10")
        assert type(app.screen).__name__ == "ConfirmDialog" and not out.exists()
        await press(app, pilot, "y")
        assert json.loads(out.read_text()) == [["gpu01"], None]
        out.unlink()
        await press(app, pilot, "1", "f11")
        (job,) = app.active_view.aimed_jobs()  # type: ignore[union-attr]
        assert out.read_text() == f"{job.spec.name}|{job.number}|"
        assert "script: ended with 3" in app.screen._title  # type: ignore[attr-defined]
        await press(app, pilot, "escape", "colon", *"plugin nothing", "enter")
        assert "Known: mine risky script" in app.screen._lines[0]  # type: ignore[attr-defined]


async def test_read_only_leaves_the_dangerous_ones_out(tmp_path: Path) -> None:
    own(tmp_path, plugins="[risky]\nkey = 'f10'\ncommand = 'touch x'\ndangerous = true\n")
    app = app_of(read_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(app, pilot)
        assert "f10" not in app.screen.active_bindings


async def test_a_confined_session_has_neither_keys_nor_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own(tmp_path, "[queue]\nhold = 'H'\n", "[x]\nkey = 'f10'\ncommand = 'touch x'\n")
    monkeypatch.setenv("FLAGPLOT_CONFINED", "1")
    made = Own()
    assert made.keymap == {} and made.plugins == []
