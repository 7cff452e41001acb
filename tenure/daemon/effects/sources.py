"""The file systems that data already lies in: looked at for people and for the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenure.config.certificates import client_context
from tenure.model.effects import LocateBlocks
from tenure.model.errors import TenureError
from tenure.model.external import HdfsSpec, Look
from tenure.model.outcome import Done, Outcome, Refused

if TYPE_CHECKING:
    from tenure.locality.io.webhdfs import WebHdfs

#: Errors that mean that the files are not what they were.
GONE = frozenset(
    ("no_input", "input_changed", "not_a_file", "bad_name", "too_many_files", "too_many_blocks")
)


class Sources:
    """Every HDFS of the configuration, by name; loaded when the first is asked."""

    def __init__(self, specs: Sequence[HdfsSpec]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._open: dict[str, WebHdfs] = {}

    async def look(self, uri: str) -> Look:
        """Return what lies at ``hdfs://NAME/path``; raises what ``WebHdfs.look`` does."""
        from tenure.locality.io.webhdfs import split_uri

        name, path = split_uri(uri, list(self._specs))
        return await self._of(name).look(path)

    async def locate(self, effect: LocateBlocks) -> Outcome:
        """Answer ``LocateBlocks``."""
        from tenure.locality.io.webhdfs import difference

        if effect.source not in self._specs:
            return Refused("unreachable", f"no HDFS {effect.source} is configured any more")
        try:
            path = effect.root.removeprefix(f"hdfs://{effect.source}")
            found = await self._of(effect.source).look(path)
        except TenureError as error:
            return Refused(error.code if error.code in GONE else "unreachable", error.detail)
        told = difference(found, effect.files)
        return Refused("input_changed", told) if told else Done(layout=found.layout)

    def _of(self, name: str) -> WebHdfs:
        from tenure.locality.io.webhdfs import WebHdfs

        if name not in self._open:
            self._open[name] = WebHdfs(self._specs[name], client_context)
        return self._open[name]

    async def close(self) -> None:
        """Close all connections."""
        for source in self._open.values():
            await source.close()
