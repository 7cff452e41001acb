"""What the controller did, in memory for who asks and on disk for after a restart; both bounded."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tenure.agent.io.threads import Worker
from tenure.model.harvest import HarvestAction
from tenure.qos.wire import decode_action, encode_action

log = logging.getLogger(__name__)

#: Actions kept in memory: at the most that a loop can do, half an hour.
KEPT = 20_000
#: Actions in one answer.
PAGE = 1000
#: The file is begun anew at this size, and the one before is kept: some 25,000 actions in all.
FILE_BYTES = 4 << 20
#: Actions that wait for the disk; beyond, they stay in memory alone.
WAITING = 10_000
#: What waits is written within this at the end; a disk that does not answer keeps nobody.
CLOSE_S = 10.0
FILE, OLD_FILE = "actions.jsonl", "actions.1.jsonl"


class ActionJournal:
    """Actions by rising numbers. A thread writes them: a slow disk delays no protection."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: deque[HarvestAction] = deque(maxlen=KEPT)
        self._lock = threading.Lock()
        self._disk = Worker("actions", self._write, WAITING)
        self.lost = 0
        self._load()

    @property
    def newest_seq(self) -> int:
        """Return the number of the latest action, 0 of none."""
        with self._lock:
            return self._kept[-1].seq if self._kept else 0

    def add(self, action: HarvestAction) -> None:
        """Keep an action; never waits."""
        with self._lock:
            self._kept.append(action)
        if not self._disk.put(action):
            self.lost += 1

    def after(self, seq: int) -> tuple[list[HarvestAction], bool, int]:
        """Return at most ``PAGE`` actions after ``seq``, whether there are more, and the oldest.

        A number that is higher than all is as good as none: the clock was set back.
        """
        with self._lock:
            newest = self._kept[-1].seq if self._kept else 0
            found = [action for action in self._kept if action.seq > seq or seq > newest]
            oldest = self._kept[0].seq if self._kept else 0
        return found[:PAGE], len(found) > PAGE, oldest

    def close(self) -> None:
        """Write what waits, for about ``CLOSE_S`` at most, and end the thread; twice is fine."""
        if not self._disk.close(CLOSE_S):
            log.error("the latest actions are not written: %s", self._folder)

    def _load(self) -> None:
        for name in (OLD_FILE, FILE):
            try:
                lines = (self._folder / name).read_bytes().splitlines()
            except OSError:
                continue
            for line in lines:
                try:
                    action = decode_action(json.loads(line))
                except (ValueError, RecursionError):
                    continue  # cut by a crash
                if not self._kept or action.seq > self._kept[-1].seq:
                    self._kept.append(action)

    def _write(self, actions: Iterator[HarvestAction]) -> None:
        is_told = False
        for action in actions:
            line = json.dumps(encode_action(action), separators=(",", ":")) + "\n"
            try:
                self._append(line)
                is_told = False
            except OSError as error:
                self.lost += 1
                if not is_told:
                    is_told = True
                    log.error("actions stay in memory alone: %s", error)

    def _append(self, line: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / FILE
        with path.open("a") as file:
            file.write(line)
            is_full = file.tell() >= FILE_BYTES
        if is_full:
            path.replace(self._folder / OLD_FILE)
