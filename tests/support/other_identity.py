"""The command line as somebody else: by an SSH key of theirs that the controller knows."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from support.cluster import BIN, Cluster


def as_somebody_else(cluster: Cluster, user: str, *roles: str) -> dict[str, str]:
    """The environment in which `flagplot --cluster there` speaks as `user`."""
    home = Path(cluster.environment["HOME"]).parent / f"home-{user}"
    home.mkdir()
    key = home / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    given = [word for role in roles for word in ("--role", role)]
    subprocess.run(
        [str(BIN / "flagplotd"), "add-key", "--user", user, *given, f"{key}.pub"], env=cluster.environment, check=True,
        capture_output=True,
    )  # fmt: skip
    environment = {name: value for name, value in cluster.environment.items() if name != "FLAGPLOT_DATA_DIR"}
    environment["HOME"] = str(home)
    port = json.loads((cluster.data_dir / "controller.json").read_text())["port"]
    where = f"{user}@127.0.0.1:{port}"
    subprocess.run(
        [str(BIN / "flagplot"), "connect", where, "--name", "there", "--key", str(key), "--yes"], env=environment,
        check=True, capture_output=True,
    )  # fmt: skip
    return environment
