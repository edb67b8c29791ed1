"""What is built on ssh, with the real client through `flagplot ssh-config`: what VS Code's Remote-SSH does, scp and sftp."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.cluster import Cluster, wait_until

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh client here (openssh-client)")
SFTP = next(
    (
        path
        for path in ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server",
                     shutil.which("sftp-server"))
        if path and os.access(path, os.X_OK)
    ),
    "",
)  # fmt: skip
SERVER = """
import socket, sys, threading
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
def echo(one):
    while data := one.recv(65536):
        one.sendall(data)
    one.close()
while True:
    threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()
"""


@pytest.fixture(scope="module")
def held(fleet: Cluster) -> Iterator[int]:
    number = fleet.submit("-N2", "-o", "/dev/null", "--wrap", "sleep 600")
    fleet.wait_state(number, "RUNNING")
    (fleet.work / "config").write_text(fleet.cli("ssh-config") + "\n")
    (fleet.work / "server.py").write_text(SERVER)
    yield number
    fleet.run("cancel", str(number))


def ssh(fleet: Cluster, *words: str, data: bytes = b"", program: str = "ssh") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [program, "-F", str(fleet.work / "config"), *words], env=fleet.environment, cwd=fleet.work, input=data,
        capture_output=True, timeout=50, check=False,
    )  # fmt: skip


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def staying(fleet: Cluster, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """An ssh that goes on meanwhile."""
    process = subprocess.Popen(
        ["ssh", "-F", str(fleet.work / "config"), *words], env=fleet.environment, cwd=fleet.work,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=20)


def through_socks(proxy: int, host: str, port: int) -> socket.socket:
    """A connection through a SOCKS5 proxy that looks names up itself; ConnectionRefusedError where it declines."""
    one = socket.create_connection(("127.0.0.1", proxy), timeout=20)
    one.sendall(b"\x05\x01\x00")
    assert one.recv(2) == b"\x05\x00"
    one.sendall(b"\x05\x01\x00\x03" + bytes([len(host)]) + host.encode() + port.to_bytes(2, "big"))
    answer = one.recv(10)
    if len(answer) < 2 or answer[1] != 0:
        one.close()
        raise ConnectionRefusedError(host)
    return one


def echoed(one: socket.socket, data: bytes) -> bytes:
    """What comes back of it."""

    def send() -> None:
        one.sendall(data)
        one.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    got = b""
    while piece := one.recv(65_536):
        got += piece
    sender.join(20)
    one.close()
    return got


def test_a_script_goes_in_by_bash_and_a_large_file_by_cat(fleet: Cluster, held: int) -> None:
    done = ssh(
        fleet,
        f"flagplot-{held}",
        "bash",
        "-s",
        "--",
        "one",
        "two words",
        data=b'echo "$1|$2|$#"; echo bad >&2; exit 7\n',
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, b"one|two|3\n", b"bad\n")
    data = os.urandom(5_000_000)
    done = ssh(fleet, f"flagplot-{held}", "cat > uploaded && sha256sum < uploaded", data=data)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest(), done.stderr
    done = ssh(fleet, f"flagplot-{held}", "cat uploaded")
    assert done.stdout == data
    assert ssh(fleet, f"flagplot-{held}", "true").returncode == 0


def test_what_the_editor_does(fleet: Cluster, held: int) -> None:
    """One connection with -T and -D, a script on the input of a bare bash, a server that outlives the session."""
    proxy, mark = free_port(), uuid.uuid4().hex
    with staying(fleet, "-T", "-D", str(proxy), "-o", "ConnectTimeout=15", f"flagplot-{held}", "bash") as first:
        assert first.stdin is not None and first.stdout is not None
        first.stdin.write(
            f"echo {mark}: running; nohup python3 server.py > port 2>/dev/null < /dev/null & \n"
            f"until [ -s port ]; do sleep 0.05; done; echo listeningOn==$(cat port)==; uname -s; echo {mark}: end\n".encode()
        )
        first.stdin.flush()
        lines = []
        while not lines or f"{mark}: end" not in lines[-1]:
            lines.append(first.stdout.readline().decode())
            assert lines[-1], first.communicate(timeout=20)
        port = int(next(line for line in lines if "listeningOn" in line).split("==")[1])
        assert "Linux\n" in lines
        data = os.urandom(2_000_000)
        for host in ("localhost", "127.0.0.1", fleet.job(held)["nodes"][0]):
            assert echoed(through_socks(proxy, host, port), data) == data
        several = [through_socks(proxy, "127.0.0.1", port) for _ in range(8)]
        assert [echoed(one, str(place).encode() * 1000) for place, one in enumerate(several)] == [
            str(place).encode() * 1000 for place in range(8)
        ]
        with pytest.raises(ConnectionRefusedError):
            through_socks(proxy, "192.0.2.1", 22)
        assert through_socks_closed(proxy, free_port())
    # The window was closed: the server is still there for the next one, and ends with the job's own processes.
    again = free_port()
    with staying(fleet, "-N", "-L", f"{again}:127.0.0.1:{port}", f"flagplot-{held}"):
        wait_until(lambda: listens(again), 20, "the forwarded port")
        with socket.create_connection(("127.0.0.1", again), timeout=20) as one:
            assert echoed(one, b"again") == b"again"


def through_socks_closed(proxy: int, port: int) -> bool:
    """True when a port that nobody listens on is told as closed."""
    try:
        return through_socks(proxy, "127.0.0.1", port).recv(1) == b""
    except (ConnectionRefusedError, ConnectionResetError):
        return True


def test_several_sessions_share_a_connection(fleet: Cluster, held: int) -> None:
    control = fleet.work / "cm"
    with staying(fleet, "-M", "-N", "-S", str(control), "-o", "ControlMaster=yes", f"flagplot-{held}"):
        wait_until(control.exists, 20, "the master")
        others = [
            subprocess.Popen(
                ["ssh", "-F", str(fleet.work / "config"), "-S", str(control), f"flagplot-{held}", f"cat; exit {place}"],
                env=fleet.environment, cwd=fleet.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for place in range(5)
        ]  # fmt: skip
        told = [one.communicate(b"word %d" % place, timeout=40)[0] for place, one in enumerate(others)]
        assert told == [b"word %d" % place for place in range(5)]
        assert [one.returncode for one in others] == list(range(5))


def test_what_stays_in_the_background_ends_with_the_job(fleet: Cluster) -> None:
    job = fleet.submit("-o", "/dev/null", "--wrap", "sleep 600")
    fleet.wait_state(job, "RUNNING")
    began = time.monotonic()
    done = ssh(fleet, f"flagplot-{job}", "sleep 631.25 & echo $!")
    assert done.returncode == 0 and time.monotonic() - began < 25, "a session waits for nothing in the background"
    pid = int(done.stdout)
    assert Path(f"/proc/{pid}").exists()
    wait_until(lambda: fleet.job(job)["steps"][-1]["state"] == "COMPLETED", 20, "the end of the step")
    fleet.cli("cancel", str(job))
    fleet.wait_state(job, "CANCELLED")
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 20, "the end of the process")


@pytest.mark.skipif(not SFTP, reason="there is no sftp-server here (openssh-sftp-server)")
def test_scp_and_sftp(fleet: Cluster, held: int, tmp_path: Path) -> None:
    data = os.urandom(1_000_000)
    (fleet.work / "file").write_bytes(data)
    there, host = tmp_path / "there", f"flagplot-{held}.gpu02"
    there.mkdir()
    assert ssh(fleet, "file", f"{host}:{there}/copy", program="scp").returncode == 0
    assert (there / "copy").read_bytes() == data
    assert ssh(fleet, "-r", f"{host}:{there}", "back", program="scp").returncode == 0
    assert (fleet.work / "back/copy").read_bytes() == data
    batch = f"cd {there}\nput file second\nls -1\nrename second third\nget third fetched\nbye\n".encode()
    done = ssh(fleet, "-b", "-", host, program="sftp", data=batch)
    assert done.returncode == 0 and b"second" in done.stdout, done.stderr
    assert (fleet.work / "fetched").read_bytes() == (there / "third").read_bytes() == data


@pytest.mark.skipif(shutil.which("scp") is None, reason="there is no scp here")
def test_scp_by_its_old_protocol_needs_no_sftp_server(fleet: Cluster, held: int, tmp_path: Path) -> None:
    (fleet.work / "old").write_bytes(b"old\n" * 10_000)
    done = ssh(fleet, "-O", "old", f"flagplot-{held}:{tmp_path}/old", program="scp")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "old").read_bytes() == b"old\n" * 10_000
