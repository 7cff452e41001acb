"""Which configuration the verbs of ``tenured`` read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.config.settings import Settings

SYSTEM_FILE = Path("/etc/tenure/tenured.yml")


def file_of(stated: Path | None) -> Path | None:
    """Return ``stated``, else TENURE_CONFIG, else the system's file if there is one, else None."""
    if stated is not None:
        return stated
    named = os.environ.get("TENURE_CONFIG")
    if named:
        return Path(named)
    return SYSTEM_FILE if SYSTEM_FILE.is_file() else None


def settings_of(stated: Path | None) -> Settings:
    """Return the configuration; raises InvalidInput with every fault."""
    from tenure.config.load import load

    return load(file_of(stated), dict(os.environ))
