"""The compiled scheduling core: fitting, timelines, searching and the cycle. Integers only, nothing allocated inside but for
constraints that count nodes.

The compiler's cache looks at a kernel's own file alone, while these call each other across files: what it keeps goes into
a folder named after all of them, so that a change of one is never answered by what another was compiled to before.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from numba import config


def _cache() -> Path:
    here = Path(__file__).parent
    sources = b"".join(file.read_bytes() for file in sorted(here.glob("*.py")))
    base = Path(config.CACHE_DIR) if config.CACHE_DIR else here / "__pycache__"
    return base / f"kernel-{sha256(sources).hexdigest()[:16]}"


config.CACHE_DIR = str(_cache())
