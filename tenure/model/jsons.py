"""JSON as Python has it, in one word."""

from __future__ import annotations

from typing import Any

#: An object of JSON as it was decoded. Whoever reads a member knows from its source (a view of the
#: API, a file that was checked) what it is.
Json = dict[str, Any]
