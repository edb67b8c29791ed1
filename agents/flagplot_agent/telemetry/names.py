"""The word for a GPU's type, from the name its driver gives it."""

from __future__ import annotations

import re

_FILLER = {"nvidia", "geforce", "tesla", "quadro", "graphics", "device", "generation", "ada", "laptop", "gpu"}


def type_word(name: str) -> str:
    """`NVIDIA A100-SXM4-80GB` → `a100`, `NVIDIA GeForce RTX 4090` → `rtx4090`, `NVIDIA RTX A6000` → `a6000`.

    A MIG device keeps its profile: `NVIDIA A100-SXM4-40GB MIG 1g.5gb` → `a100_1g.5gb`, as Slurm
    names it.
    """
    head, mig, profile = name.partition(" MIG ")
    words = [word for word in re.split(r"[\s_/-]+", head.lower()) if word and word not in _FILLER]
    chosen = words[0] if words else "gpu"
    if chosen in ("rtx", "gtx", "titan") and len(words) > 1:
        chosen = words[1] if words[1][0].isalpha() else chosen + words[1]
        if len(words) > 2 and words[2] in ("ti", "super"):
            chosen += words[2]
    chosen = re.sub(r"[^a-z0-9.]", "", chosen) or "gpu"
    return f"{chosen}_{re.sub(r'[^a-z0-9.]+', '_', profile.strip().lower())}" if mig else chosen
