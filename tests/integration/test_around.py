"""The end of a job told to the terminal, keys and commands of one's own, copy and export, by keys in a real terminal."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from support.cluster import BIN, Cluster, wait_until
from support.terminal import Terminal

pytestmark = pytest.mark.timeout(300)


def own(lab: Cluster, **files: str) -> None:
    folder = Path(lab.environment["HOME"]) / ".config" / "flagplot"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)


def raw(terminal: Terminal, lab: Cluster) -> Path:
    """From now on what the program writes, byte by byte."""
    path = lab.work / "raw"
    path.unlink(missing_ok=True)
    terminal._tmux("pipe-pane", "-O", "-t", "t", f"cat > {path}")
    wait_until(path.exists, 10, "the pipe")
    return path


def test_the_end_of_a_job_reaches_the_terminal_and_my_command(lab: Cluster) -> None:
    told = lab.work / "told"
    tell = json.dumps(
        ["sh", "-c", 'printf "%s %s" "$1" "$2" > "$0.new" && mv "$0.new" "$0"', str(told), "$JOB", "$STATE"]
    )
    own(lab, notices=f'command = {tell}\ndesktop = "both"\n')
    with Terminal([str(BIN / "flagplot")], env=lab.environment, cwd=lab.work) as terminal:
        terminal.wait_for("live", "The queue is empty")
        path = raw(terminal, lab)
        number = lab.submit("-J", "short$(id)", "-o", "/dev/null", "--wrap", "exit 3")
        terminal.wait_for(f"Job {number} FAILED")
        wait_until(told.exists, 20, "the command's file")
        assert told.read_text() == f"{number} FAILED"
        text = f"flagplot: Job {number} FAILED"

        def passed() -> bool:
            written = path.read_bytes()
            osc9 = f"\x1bPtmux;\x1b\x1b]9;{text}: short$(id) after ".encode()
            osc777 = f"\x1bPtmux;\x1b\x1b]777;notify;{text};short$(id) after ".encode()
            return osc9 in written and osc777 in written

        wait_until(passed, 10, "the terminal's notice, through tmux")
        terminal.keys("q")
        terminal.wait_exit()


def test_keys_and_commands_of_my_own(lab: Cluster) -> None:
    own(
        lab,
        notices="on = []\n",
        keys="[queue]\nsubmit = 'W'\nhold = 'e'\n",
        plugins="[hello]\nkey = 'f9'\nscope = 'queue'\ncommand = ['sh', '-c', 'echo \"<$1>\"; read line; echo \"$line\" > got', 'x', '$NAME']\n",
    )
    lab.submit("-H", "-J", "it's `me`", "-o", "/dev/null", "--wrap", "true")
    with Terminal([str(BIN / "flagplot")], env=lab.environment, cwd=lab.work) as terminal:
        terminal.wait_for("keys.toml line 3", "queue.edit")
        terminal.keys("Enter")
        terminal.wait_gone("keys.toml")
        terminal.wait_for("it's `me`")
        terminal.keys("F9")
        terminal.wait_for("<it's `me`>")
        terminal.type("typed")
        terminal.keys("Enter")
        terminal.wait_for("Queue", "live")
        assert (lab.work / "got").read_text() == "typed\n"
        terminal.keys("@")
        terminal.wait_for("Command log", "done")
        terminal.keys("Escape")
        terminal.wait_gone("Command log")
        terminal.keys("W")
        terminal.wait_for("Submit a job")
        terminal.keys("Escape")
        terminal.wait_gone("Submit a job")
        terminal.keys("q")
        terminal.wait_exit()


def test_copy_history_and_export(lab: Cluster) -> None:
    own(lab, notices="on = []\n", keys="", plugins="")
    number = lab.submit("-H", "-J", "held", "-o", "/dev/null", "--wrap", "true")
    with Terminal([str(BIN / "flagplot")], env=lab.environment, cwd=lab.work) as terminal:
        terminal.wait_for("held", "live")
        path = raw(terminal, lab)
        terminal.keys("2")
        terminal.wait_for("gpu01", "gpu02")
        terminal.keys("C-a", "Y")
        terminal.wait_for("Copied gpu[01-02]")
        coded = base64.b64encode(b"gpu[01-02]")
        wait_until(lambda: path.read_bytes().count(b"]52;c;" + coded) >= 2, 10, "OSC 52, plain and through tmux")
        terminal.keys("<")
        terminal.wait_for("JOBID")
        terminal.keys(">")
        terminal.wait_for("gpu02")
        terminal.wait_gone("JOBID")
        terminal.keys("M-Left")
        terminal.wait_for("JOBID")
        terminal.keys("X")
        terminal.wait_for("export csv")
        terminal.type("json jobs.json")
        terminal.keys("Enter")
        terminal.wait_for("Exported to")
        assert str(number) in {row["id"] for row in json.loads((lab.work / "jobs.json").read_text())}
        terminal.keys("q")
        terminal.wait_exit()
    line = lab.cli("queue", "-j", str(number), "--noheader", "-o", "%i|%T|%j")
    assert line == f"{number}|PENDING|held"
