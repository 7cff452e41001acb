"""The section on who may ask the API, and the settings that it makes."""

from __future__ import annotations

from typing import Literal

from tenure.config.fields import Word
from tenure.config.section import Section, stated

RoleName = Literal["metrics", "read", "submit", "operate", "admin", "worker"]


class ApiSection(Section):
    socket_roles: dict[Word, RoleName] = stated(
        {"tenure": "admin"},
        "Roles of the users of the unix socket, by their groups on this machine; the highest "
        "counts. Root and the daemon's user are `admin`. With one group the socket belongs to it; "
        "with several anybody may connect, and who is in none of them needs a token.",
    )
