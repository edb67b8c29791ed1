"""flagplotd.toml: what it means, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flagplot_wire.errors import Exit, Refused
from flagplot_wire.node import Partition
from flagplotd.config import Config, load_config

FULL = """
[cluster]
name = "hopper"
[controller]
port = 7411
kill_wait_s = 5
lease_s = 60
heartbeat_s = 3
[[node]]
names = "gpu[01-03],head"
weight = 7
[[node]]
names = "gpu[01-02]"
weight = 1
[[partition]]
name = "long"
nodes = "gpu[01-02]"
default = true
max_time = "2-12"
default_time = "1:00:00"
max_nodes = 2
priority_tier = 5
allow_users = ["ada"]
[[partition]]
name = "all"
[scheduler]
reservations = 10
[roles]
admins = ["root2"]
operators = ["op"]
"""


def written(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "flagplotd.toml"
    path.write_text(text)
    return load_config(path)


def test_without_a_file(tmp_path: Path) -> None:
    config = load_config(tmp_path / "none.toml")
    assert config.partitions == (Partition("main", all_nodes=True, default=True),)
    assert (config.host, config.port, config.nodes) == ("127.0.0.1", 0, ())


def test_policies_of_nodes(tmp_path: Path) -> None:
    text = "[agents]\nvram_guard = 'kill-after=30'\nidle_gpus = 'warn-after=600'\nhealth_resume = 'auto'\n"
    assert written(tmp_path, text).agents == {
        "vram_guard": "kill-after=30", "idle_gpus": "warn-after=600", "health_resume": "auto",
    }  # fmt: skip


def test_every_table(tmp_path: Path) -> None:
    config = written(tmp_path, FULL)
    assert (config.settings.cluster, config.port, config.heartbeat_s) == ("hopper", 7_411, 3)
    assert (config.settings.kill_wait_s, config.settings.lease_s, config.policy.reservations) == (5, 60, 10)
    assert config.nodes == ("gpu01", "gpu02", "gpu03", "head")
    assert config.settings.node_weights == (("gpu03", 7), ("head", 7))
    long, everything = config.partitions
    assert (long.nodes, long.max_time_s, long.default_time_s) == (("gpu01", "gpu02"), 216_000, 3_600)
    assert (long.default, long.allow_users, long.priority_tier, long.max_nodes) == (True, ("ada",), 5, 2)
    assert everything.all_nodes and not everything.default
    assert (config.admins, config.operators) == (("root2",), ("op",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[controller]\nprot = 1\n", ["controller.prot", "did you mean 'port'"]),
        ("colour = 1\n", ["unknown key 'colour'", "cluster"]),
        ("[agents]\nvram_guard = 'kill'\n", ["agents.vram_guard", "unknown policy 'kill'", "kill-youngest"]),
        ("[agents]\nidle_gpus = 'end-after=0'\n", ["agents.idle_gpus", "unknown policy"]),
        ("[agents]\nhealth_resume = true\n", ["agents.health_resume", "text in quotes"]),
        ("[agents]\nvram = 'warn'\n", ["agents.vram", "unknown key"]),
        ("[controller]\nport = 99999\n", ["controller.port", "65536"]),
        ("[controller]\nport = 'x'\n", ["controller.port", "whole number"]),
        ("[controller]\nlease_s = true\n", ["controller.lease_s", "whole number"]),
        ("[[partition]]\nnodes = 'a'\n", ["partition.name"]),
        ("[[partition]]\nname = 'p'\nnodes = 'a[1'\n", ["partition.nodes", "bracket"]),
        ("[[partition]]\nname = 'p'\nmax_time = 'soon'\n", ["partition.max_time", "no time limit"]),
        ("[[partition]]\nname='p'\n[[partition]]\nname='p'\n", ["two partitions"]),
        ("[[partition]]\nname='p'\ndefault=true\n[[partition]]\nname='q'\ndefault=true\n", ["more than one"]),
        ("[partition]\nname='p'\n", ["[[partition]]"]),
        ("[roles]\nadmins = 'ada'\n", ["roles.admins", "list"]),
        ('[cluster]\nname = "a\\u001bb"\n', ["cluster.name"]),
        ("[cluster\n", ["is not TOML"]),
    ],
)
def test_refusals_name_file_and_key(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        written(tmp_path, text)
    told = f"{refused.value.message} {refused.value.hint}"
    assert all(word in told for word in ["flagplotd.toml", *words]), told
    assert refused.value.exit == Exit.USAGE


def test_weights_flags_and_usage(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        """
[scheduler]
weight_qos = 4294967295
favor_small = true
[limits]
usage_half_life_s = 86400
weight_memory_gib = 250
""",
    )
    assert (config.policy.weight_qos, config.policy.favor_small) == (2**32 - 1, True)
    assert (config.settings.usage_half_life_s, config.settings.usage_every_s) == (86_400, 300)
    assert (config.settings.weight_memory_gib, config.settings.weight_gpu) == (250, 8_000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[scheduler]\nweight_age = 4294967296", "scheduler.weight_age: must be a whole number from 0 to 4294967295"),
        ("[scheduler]\nweight_tres_gpu = -1", "scheduler.weight_tres_gpu: must be a whole number from 0"),
        ("[scheduler]\nfavor_small = 1", "scheduler.favor_small: must be true or false, not 1"),
        ("[limits]\nusage_every_s = 0", "limits.usage_every_s: must be 1 or more"),
    ],
)
def test_what_is_refused_of_weights_and_usage(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        written(tmp_path, text)
    assert said in refused.value.message


def test_the_folder_of_templates_is_relative_to_the_file(tmp_path: Path) -> None:
    assert written(tmp_path, "").templates is None
    assert written(tmp_path, '[controller]\ntemplates = "jobs"').templates == tmp_path / "jobs"
    assert written(tmp_path, '[controller]\ntemplates = "/srv/jobs"').templates == Path("/srv/jobs")


def test_racks(tmp_path: Path) -> None:
    config = written(
        tmp_path, '[[rack]]\nname = "r1"\nnodes = "gpu[01-02]"\n[[rack]]\nname = "r2"\nnodes = ["gpu03"]\n'
    )
    assert config.settings.racks == (("r1", ("gpu01", "gpu02")), ("r2", ("gpu03",)))
    for text, words in (
        ('[[rack]]\nname = "r1"\nnodes = "a"\n[[rack]]\nname = "r2"\nnodes = "a,b"', "node a is in two: r1 and r2"),
        ('[[rack]]\nname = "r1"\n[[rack]]\nname = "r1"', "two racks are called 'r1'"),
        ('[[rack]]\nnodes = "a"', "every rack needs a name"),
    ):
        with pytest.raises(Refused) as caught:
            written(tmp_path, text)
        assert words in caught.value.message
