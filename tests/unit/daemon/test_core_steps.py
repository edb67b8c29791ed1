"""Steps in the core: layout, rights, records, interactive jobs; and the credit of streams."""

from __future__ import annotations

import msgspec
import pytest
from support.core_kit import *  # noqa: F403
