"""The control laws by name."""

from __future__ import annotations

from tenure.qos.control import Law
from tenure.qos.cuckoo import cuckoo
from tenure.qos.salamander import salamander

LAWS: dict[str, Law] = {"salamander": salamander, "cuckoo": cuckoo}
