"""What moves leave on an engine beside the container: helpers, and images of changed files.

Both carry the id of the service they were made for, so that they are found after any crash. Best
effort: what is still in use, or cannot be removed now, is met again when the next copy goes.
"""

from __future__ import annotations

import json
from contextlib import suppress
from urllib.parse import quote

from tenure.engines.http import paths
from tenure.engines.http.transport import Transport
from tenure.model.document import Document, text
from tenure.model.errors import EngineError
from tenure.model.facts import (
    LABEL_BODY,
    LABEL_CONTAINER,
    LABEL_FLEET,
    LABEL_GENERATION,
    LABEL_HELPER,
    LABEL_INCARNATION,
    LABEL_SERVICE,
)

#: Of an image that holds the changed files of a container.
LABEL_SNAPSHOT = "tenure.snapshot"
#: An image keeps the labels of the container it was made of, and hands them to all made from it:
#: emptied, for neither is a copy of the service.
_OURS = (LABEL_FLEET, LABEL_CONTAINER, LABEL_INCARNATION, LABEL_GENERATION)
NOT_OURS = dict.fromkeys((*_OURS, LABEL_SERVICE, LABEL_BODY), "")


async def clear(transport: Transport, owner: str) -> None:
    """Remove the helpers and the images made for a service; those in use stay."""
    with suppress(EngineError):
        for helper in await labelled(transport, "/containers/json", LABEL_HELPER, owner):
            await remove_container(transport, text(helper, "Id"))
        for image in await labelled(transport, "/images/json", LABEL_SNAPSHOT, owner):
            await remove_image(transport, text(image, "Id"))


async def labelled(transport: Transport, path: str, label: str, value: str) -> list[Document]:
    """Return the containers or images (``path``) with a label of that value; raises EngineError."""
    filters = json.dumps({"label": [f"{label}={value}"]})
    return await transport.rows(
        path, {"filters": filters} | ({"all": "1"} if path.startswith("/containers") else {})
    )


async def remove_container(transport: Transport, ref: str) -> None:
    """Remove a helper by id or name; absent counts as done."""
    with suppress(EngineError):
        await transport.send("DELETE", paths.container(ref, "?force=1&v=1"))


async def remove_image(transport: Transport, image: str) -> None:
    """Remove an image that no container uses."""
    with suppress(EngineError):
        await transport.send("DELETE", f"/images/{quote(image, safe=':')}")
