"""Where tests and the programs that they start keep the compiled kernels: one folder, so that each is compiled once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def one_cache() -> str:
    """Name the folder in the environment, before the compiler is imported; somebody's own choice stands."""
    return os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"flagplot-numba-{os.getuid()}"))
