"""The cockpit over a bad line: a round trip of 200 ms, one packet in fifty lost, and the line cut for ten seconds.

Controller and cockpit run in network namespaces of their own, joined by SSH over a line that `tc netem` makes bad, or,
where the kernel has no netem, a relay of packets (`line_relay.py`). Keys that need nothing from the controller must
take what they take on a good line. Needs root.

    python benchmarks/bad_line.py [--jobs 5000] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cockpit import FIRST_ROW, is_cursor, moves, p95, row
from cockpit_state import fill
from line_relay import Line, ip, tun
from pty_driver import Program, lines

NEAR, FAR = "10.214.78.1", "10.214.78.2"
ONE_WAY_MS, LOST_PERMILLE, CUT_S = 100, 20, 10
NODES, KEYS = 200, 80


class Netem:
    """The line made bad by the kernel, at both ends."""

    def __init__(self, places: list[tuple[str, str]]) -> None:
        self._places = places
        self.set(0, 0)

    def set(self, one_way_ms: int, lost_permille: int) -> None:
        """From the next packet on."""
        for space, device in self._places:
            words = ["delay", f"{one_way_ms}ms", "loss", f"{lost_permille / 10}%"]
            command = ["ip", "netns", "exec", space, "tc", "qdisc", "replace", "dev", device, "root", "netem", *words]
            subprocess.run(command, check=True, capture_output=True, timeout=20)

    def end(self) -> None:
        """Gone with the namespaces."""


@contextmanager
def line(seed: int) -> Iterator[tuple[str, str, Line | Netem, str]]:
    """Two namespaces, the line between them and what makes it bad."""
    spaces = [f"fp{os.getpid()}{end}" for end in "ab"]
    made: list[str] = []
    ends: list[int] = []
    carrier: Line | None = None
    try:
        for space in spaces:
            ip("netns", "add", space)
            made.append(space)
        places = [(spaces[0], NEAR, FAR), (spaces[1], FAR, NEAR)]
        devices = [f"fpt{os.getpid()}{end}" for end in "ab"]
        for (space, address, peer), device in zip(places, devices, strict=True):
            ends.append(tun(device, space, address, peer))
        carrier = Line(ends[0], ends[1], seed)
        bad: Line | Netem = carrier
        how = "a relay of packets (this kernel has no netem)"
        try:
            bad, how = Netem(list(zip(spaces, devices, strict=True))), "tc netem"
        except subprocess.CalledProcessError as wrong:
            print(f"tc: {wrong.stderr.decode().strip()}", file=sys.stderr)
        yield *spaces, bad, how
    finally:
        if carrier is not None:
            carrier.end()
        for device in ends:
            os.close(device)
        for space in made:
            ip("netns", "delete", space)


def controller(space: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a controller that listens on the line."""
    (folder / "flagplotd.toml").write_text(f'[controller]\nhost = "{NEAR}"\n')
    command = ["ip", "netns", "exec", space, sys.executable, "-m", "flagplotd.main", "run", "--data-dir", str(folder)]
    with (folder.parent / "controller.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while not (folder / "controller.json").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the controller did not start: {(folder.parent / 'controller.log').read_text()[-500:]}")
        time.sleep(0.05)
    return process


def let_in(home: Path, folder: Path) -> dict[str, str]:
    """A key for the cockpit and the cluster pinned in its configuration; returns its environment."""
    key = home / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=20)
    env = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "TERM": "xterm-256color",
           "COLORTERM": "truecolor", "LANG": "C.UTF-8"}  # fmt: skip
    env.pop("NO_COLOR", None)
    subprocess.run([sys.executable, "-m", "flagplotd.main", "add-key", "--data-dir", str(folder), "--user",
                    "root", f"{key}.pub"], check=True, timeout=60, env=env, capture_output=True)  # fmt: skip
    where = json.loads((folder / "controller.json").read_text())
    (home / "config" / "flagplot").mkdir(parents=True)
    host_key = " ".join((folder / "keys" / "host_ed25519.pub").read_text().split()[:2])
    (home / "config" / "flagplot" / "clusters.toml").write_text(
        f'[far]\nhost = "{NEAR}"\nport = {where["port"]}\nuser = "root"\nhost_key = "{host_key}"\nkey_file = "{key}"\n'
    )
    return env


def submit(folder: Path, names: list[str]) -> None:
    """Jobs that wait, given at the controller's own machine."""
    words = ["submit", "--hold", "-o", "/dev/null", "--wrap", "true", "--job-name"]
    for name in names:
        subprocess.run([sys.executable, "-m", "flagplot", "--data-dir", str(folder), *words, name], check=True,
                       capture_output=True, timeout=60, cwd="/")  # fmt: skip


def shows(text: str) -> object:
    """Whether a frame draws a text among the jobs."""
    return lambda frame: any(text.encode() in drawn for at, drawn in lines(frame).items() if at >= FIRST_ROW)


def measure(program: Program, bad: Line | Netem, folder: Path) -> None:
    """All figures, on the good line first."""
    program.wait(shows("train-"), 60)  # type: ignore[arg-type]
    program.quiet(3)
    program.press(b"/state:pd\r")
    program.quiet(2)
    good = moves(program, is_cursor, KEYS)
    bad.set(ONE_WAY_MS, LOST_PERMILLE)
    program.quiet(3)
    poor = moves(program, is_cursor, KEYS)
    row("key to paint, good line, median / p95", "", f"{statistics.median(good) * 1000:.0f} / {p95(good):.0f} ms")
    row("key to paint, bad line, median / p95", "unchanged",
        f"{statistics.median(poor) * 1000:.0f} / {p95(poor):.0f} ms")  # fmt: skip
    program.press(b"\x1b")
    program.quiet(1.5)
    program.press(b"/marker\r")
    program.quiet(2)
    arriving = []
    for index in range(3):
        began = time.perf_counter()
        submit(folder, [f"marker-{index}"])
        given = time.perf_counter()
        program.wait(shows(f"marker-{index}"), 60)  # type: ignore[arg-type]
        arriving.append(max(0.0, time.perf_counter() - given))
        assert given > began
    row("a job submitted elsewhere is seen, slowest of 3", "", f"{max(arriving):.2f} s after the submit command ended")
    resync(program, bad, folder)


def resync(program: Program, bad: Line | Netem, folder: Path) -> None:
    """Cut the line, let things happen, and mend it."""
    bad.set(ONE_WAY_MS, 1_000)
    cut = time.perf_counter()
    told = program.wait(lambda frame: b"reconnecting" in frame, 20) - cut
    submit(folder, ["marker-meanwhile"])
    program.quiet(max(0.1, cut + CUT_S - time.perf_counter()))
    bad.set(ONE_WAY_MS, LOST_PERMILLE)
    mended = time.perf_counter()
    back = program.wait(shows("marker-meanwhile"), 60) - mended  # type: ignore[arg-type]
    row("the line cut: told after", "< 3 s", f"{told:.2f} s")
    row(f"the line back after {CUT_S} s: up to date after", "", f"{back:.2f} s")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if os.getuid() != 0:
        raise SystemExit("network namespaces need root")
    with tempfile.TemporaryDirectory(prefix="flagplot-l-") as name, line(options.seed) as (near, far, bad, how):
        print(f"seed {options.seed}; made bad by {how}", flush=True)
        folder, home = Path(name) / "data", Path(name) / "home"
        folder.mkdir(mode=0o700)
        home.mkdir()
        fill(folder, options.jobs, NODES)
        running = controller(near, folder)
        try:
            env = let_in(home, folder)
            row("what", "aim", "figure")
            row("---", "---", "---")
            cockpit = [sys.executable, "-m", "flagplot", "--cluster", "far", "--theme", "dark"]
            program = Program(["ip", "netns", "exec", far, *cockpit], env)
            try:
                measure(program, bad, folder)
            finally:
                program.end()
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(30)


if __name__ == "__main__":
    main()
