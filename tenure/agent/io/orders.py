"""What the controller is set to: told by the daemon, kept on disk, so that it outlives both."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from tenure.model.errors import InvalidInput, Unavailable
from tenure.model.qos import QosParams
from tenure.qos.wire import decode_params, encode_params

log = logging.getLogger(__name__)

FILE = "harvest.json"
#: No parameters take more; the rest of a larger file is not ours.
MAX_BYTES = 1 << 16
#: What protects where the file was spoilt: the defaults, until the daemon tells again.
SPOILT = "spoilt"


class NotKept(Unavailable):
    """The node's disk does not take the parameters."""

    code = "not_kept"


@dataclass(frozen=True, slots=True)
class Order:
    """Parameters and the name that the daemon gave them; "" before it told any: mode off."""

    revision: str
    params: QosParams


class Orders:
    """The parameters in force; written by whoever listens, read by the control loop."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.current = self._load()

    def take(self, order: Order) -> None:
        """Have the parameters in force, once they are on disk. Raises NotKept."""
        text = json.dumps({"revision": order.revision, "params": encode_params(order.params)})
        fresh = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with fresh.open("w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
        except OSError as error:
            raise NotKept(f"{self._path}: {error.strerror}") from error
        self.current = order

    def _load(self) -> Order:
        try:
            with self._path.open("rb") as file:
                raw = json.loads(file.read(MAX_BYTES))
            return Order(str(raw["revision"]), decode_params(raw["params"]))
        except FileNotFoundError:
            return Order("", QosParams(mode="off"))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, InvalidInput) as error:
            log.error("%s cannot be read, the defaults protect meanwhile: %s", self._path, error)
            return Order(SPOILT, QosParams())
