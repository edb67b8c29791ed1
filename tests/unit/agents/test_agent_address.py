"""Where the agent dials, and what it says to bad options."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagplot_agent.config import Config
from flagplot_agent.link import address
from flagplot_agent.main import main, take
from flagplot_wire.errors import Refused


def test_the_controllers_file_wins_while_it_is_there(tmp_path: Path) -> None:
    file = tmp_path / "controller.json"
    config = Config(tmp_path, "n", "127.0.0.1", 0, tmp_path, tmp_path, file)
    with pytest.raises(Refused, match="not running"):
        address(config)
    file.write_text('{"port": 4022, "host": ""}')
    assert address(config) == ("127.0.0.1", 4022)
    assert address(Config(tmp_path, "n", "10.0.0.1", 99, tmp_path, tmp_path)) == ("10.0.0.1", 99)


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--controller", "nowhere"], "HOST:PORT"), (["--controller", "h:1"], "no such file")],
)
def test_bad_options_are_refused(tmp_path: Path, options: list[str], words: str) -> None:
    keys = ["--key", str(tmp_path / "no"), "--host-key", str(tmp_path / "no")]
    with pytest.raises(Refused, match=words):
        main(["run", "--dir", str(tmp_path / "d"), *keys, *options])


def test_one_agent_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flagplot_agent.main.LOCK_S", 0.0)
    take(tmp_path / "a")
    with pytest.raises(Refused, match="another agent"):
        take(tmp_path / "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot use"):
        take(tmp_path / "file")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("flagplot-agent ")
