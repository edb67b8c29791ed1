"""`--json` of the commands: what each prints, over calls that never leave the process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from support import sample_cluster as sample

from flagplot.cli.main import cli
from flagplot.client.calls import Calls
from flagplot_wire import replies, requests
from flagplot_wire.ids import JobNumber
from flagplot_wire.job import State

FOR_PERSONS = {
    "up",
    "down",
    "connect",
    "keys",
    "web",
    "run",
    "shell",
    "attach",
    "stage",
    "rsh",
    "forward",
    "cp",
    "bcast",
    "ssh-config",
    "ssh-proxy",
}
"""They start, stop and pin; `status` tells of the result in JSON."""


class Jobs:
    """A channel that knows jobs by number, and gives the output in pieces of `piece` bytes."""

    def __init__(self) -> None:
        mirror = sample.sample_mirror()
        self.jobs = mirror.jobs
        self.plain = sample.FakeChannel(mirror)
        self.piece = 1 << 20

    async def ask(self, request: requests.AnyRequest) -> replies.Reply:
        if isinstance(request, requests.GetJob):
            return replies.Jobs((self.jobs[JobNumber(int(request.job))],))
        if isinstance(request, requests.ReadOutput):
            data = self.plain.output[request.offset : request.offset + self.piece]
            return replies.Output("/h/slurm-1.out", "gpu03", request.offset, len(self.plain.output), data, True)
        return await self.plain.ask(request)  # type: ignore[no-any-return]


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    found = Jobs()

    def ask(context: click.Context, work: Callable[[Calls], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            return await work(Calls(found))

        return asyncio.run(main())

    for name in ("wait", "logs", "script", "submit", "explain"):
        monkeypatch.setattr(f"flagplot.cli.{name}.ask", ask)
    return found


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found)
        else:
            yield found


def test_every_command_that_answers_has_json() -> None:
    without = {
        command.name
        for command in commands(cli)
        if not any("--json" in option.opts for option in command.params if isinstance(option, click.Option))
    }
    assert without == FOR_PERSONS


def number_of(channel: Jobs, state: State) -> str:
    return next(str(job.number) for job in channel.jobs.values() if job.status.state == state and not job.is_array)


def test_wait_gives_the_jobs_in_the_order_asked_and_exits_with_the_first_bad_code(channel: Jobs) -> None:
    done, failed = number_of(channel, State.COMPLETED), number_of(channel, State.FAILED)
    result = run("wait", done, failed, "--json")
    found = json.loads(result.stdout)
    assert [str(one["job_id"]) for one in found] == [done, failed]
    assert [one["state"] for one in found] == ["COMPLETED", "FAILED"]
    assert result.exit_code == found[1]["exit_code"] != 0
    assert result.stderr == ""
    assert f"job {failed} ended as FAILED" in run("wait", failed).stderr


def test_script_with_its_number_and_arguments(channel: Jobs) -> None:
    channel.plain.answers[requests.GetScript] = replies.Script(JobNumber(41), '#!/bin/sh\necho "ä"\n', ("a", "b c"))
    found = json.loads(run("script", "41", "--json").stdout)
    assert found == {"job_id": 41, "script": '#!/bin/sh\necho "ä"\n', "args": ["a", "b c"]}


@pytest.mark.parametrize("piece", [1, 3, 1 << 20])
def test_logs_are_one_object_a_piece_and_no_character_is_cut(channel: Jobs, piece: int) -> None:
    channel.plain.output, channel.piece = "aä€😀\n".encode() + b"\xff\xe2\x82", piece
    found = [json.loads(line) for line in run("logs", "41", "--json").stdout.splitlines()]
    assert "".join(one["text"] for one in found) == "aä€😀\n��"
    assert [one["offset"] for one in found] == list(range(0, len(channel.plain.output), piece))
    assert sum(one["bytes"] for one in found) == found[-1]["size"] == len(channel.plain.output)
    assert {(one["stream"], one["node"], one["path"], one["ended"]) for one in found} == {
        ("stdout", "gpu03", "/h/slurm-1.out", True)
    }


def test_logs_of_an_empty_file_are_one_object(channel: Jobs) -> None:
    channel.plain.output = b""
    (found,) = [json.loads(line) for line in run("logs", "41", "--stderr", "--json").stdout.splitlines()]
    assert (found["stream"], found["text"], found["size"]) == ("stderr", "", 0)


def test_logs_without_json_are_the_bytes(channel: Jobs) -> None:
    channel.plain.output, channel.piece = b"a\0\x1b[31mb\xff\n", 4
    assert run("logs", "41").stdout_bytes == channel.plain.output


def test_test_only_gives_the_forecast(channel: Jobs) -> None:
    found = json.loads(run("submit", "--test-only", "--json", "--wrap", "true").stdout)
    assert set(found) == {"reasons", "expected_start", "never", "hints", "planned_nodes", "warnings"}
    assert (found["expected_start"], found["planned_nodes"]) == (sample.NOW, ["gpu07"])


def test_explain_adds_to_the_jobs_keys(channel: Jobs) -> None:
    number = number_of(channel, State.PENDING)
    found = json.loads(run("explain", number, "--json").stdout)
    assert {"job_id", "reasons", "never", "hints", "planned_nodes"} <= set(found)
    assert "warnings" not in found
