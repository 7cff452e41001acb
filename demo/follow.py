"""Live progress: one calm line per thing that happened, from the daemon's event stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tenure.client import Client

Event = Mapping[str, Any]
_PAGE = 1000
_STYLES = {
    "job": "cyan",
    "node": "yellow",
    "cycle": "magenta",
    "move": "green",
    "container": "blue",
}


class Follower:
    """Reads new events when asked to and prints them; a context, for the line at the bottom."""

    def __init__(self, client: Client, console: Console) -> None:
        self._client = client
        self._console = console
        self.begun_s = time.time()
        self._seen = 0
        self._names: dict[str, str] = {}
        self._live: Live | None = None

    def __enter__(self) -> Follower:
        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self) -> None:
        """Print what happened since the last call."""
        while True:
            page = self._client.events(after=self._seen, limit=_PAGE)["items"]
            for event in page:
                self._seen = event["seq"]
                self._print(event)
            if len(page) < _PAGE:
                break
        if self._live is not None:
            self._live.update(self._summary(), refresh=True)

    def _summary(self) -> Text:
        states: dict[str, int] = {}
        for job in self._client.jobs():
            states[job["state"]] = states.get(job["state"], 0) + 1
        places: dict[str, int] = {}
        for box in self._client.containers():
            places[box["generation"]] = places.get(box["generation"], 0) + 1
        on = [node["name"] for node in self._client.nodes() if node["power"] == "on"]
        parts = [
            f"{time.time() - self.begun_s:4.0f} s",
            "jobs: " + ", ".join(f"{n} {state}" for state, n in sorted(states.items())),
            "containers: " + ", ".join(f"{n} {where}" for where, n in sorted(places.items())),
            "on: " + " ".join(on),
        ]
        return Text("  |  ".join(parts), style="dim", overflow="ellipsis", no_wrap=True)

    def _print(self, event: Event) -> None:
        told = told_of(event, self._names)
        if told is None:
            return
        kind, words = told
        at_s = datetime.fromisoformat(event["at"]).timestamp() - self.begun_s
        line = Text(f"{max(0.0, at_s):6.1f} s  ", style="dim")
        line.append(f"{kind:<11}", style=_STYLES[kind])
        line.append(words, style="default")
        self._console.print(line, soft_wrap=True)


def told_of(event: Event, names: dict[str, str]) -> tuple[str, str] | None:
    """Return the kind and the words of an event, None for one that is not told.

    ``names`` maps the ids of jobs and containers to their names, and keeps what a node was last
    told to do; events add to it.
    """
    kind, _, verb = event["type"].partition(".")
    data = event["data"]
    if "name" in data and kind in ("job", "container"):
        names[event["subject"]] = data["name"]
    teller = _TELLERS.get(kind)
    words = teller(verb, event, names) if teller else ""
    is_plan = event["type"] == "migration.queued"
    return ("cycle" if is_plan else _KINDS[kind], words) if words else None


def _job(verb: str, event: Event, names: dict[str, str]) -> str:
    data = event["data"]
    name = data.get("name") or names.get(event["subject"], event["subject"])
    if verb == "starting":
        places = ", ".join(f"{n} on {node}" for node, n in data["nodes"].items())
        return f"{name} is placed: {places}"
    told = {
        "accepted": f"{name} is accepted ({str(data.get('admission', '')).replace('_', ' ')})",
        "refused": f"{name} is refused: {data.get('code')}",
        "waiting": f"{name} waits: {str(data.get('reason', '')).replace('_', ' ')}",
        "running": f"{name} runs",
        "succeeded": f"{name} has succeeded",
        "failed": f"{name} has failed: {data.get('reason')}",
        "cancelled": f"{name} is cancelled",
    }
    return told.get(verb, "")


def _node(verb: str, event: Event, names: dict[str, str]) -> str:
    name, why = event["subject"], event["data"].get("why", "")
    if verb in ("stopping", "booting"):
        names[f"node {name}"] = verb
    if verb == "unreachable" and names.get(f"node {name}") == "stopping":
        return ""  # as it should be
    told = {
        "booting": f"{name} is switched on for {why}",
        "on": f"{name} is on",
        "stopping": f"{name} is switched off: {why}",
        "off": f"{name} is off",
        "unreachable": f"{name} does not answer: {why}",
        "power_failed": f"{name} could not be switched: {event['data'].get('detail')}",
        "failed": f"{name} has failed: {why}",
    }
    return told.get(verb, "")


def _executor(verb: str, event: Event, names: dict[str, str]) -> str:
    data = event["data"]
    job, _, index = event["subject"].partition("/")
    who = f"{names.get(job, job)}, executor {index}"
    if verb == "exited" and data.get("exit_code"):
        return f"{who} ended with exit code {data['exit_code']}"
    return f"{who} was lost: {data.get('note')}" if verb == "lost" else ""


def _run(verb: str, event: Event, names: dict[str, str]) -> str:
    cycle, reason = event["data"].get("cycle", ""), event["data"].get("reason", "")
    told = {
        "missed": f"{cycle} was missed: {reason}",
        "failed": f"{cycle} failed: {reason}",
    }
    return told.get(verb, "")


def _migration(verb: str, event: Event, names: dict[str, str]) -> str:
    data = event["data"]
    name = names.get(event["subject"], event["subject"][:12])
    run, _, number = data["migration"].partition("#")
    if verb == "queued" and number == "0":
        return f"{run.partition('@')[0]} has a plan"
    way = f"{data.get('source')} to {data.get('target')}"
    told = {
        "create": f"{name} leaves {way}",
        "done": f"{name} has moved from {way}",
        "refused": f"{name} stays: {data.get('reason')}",
        "rolled_back": f"{name} was moved back: {data.get('reason')}",
    }
    return told.get(verb, "")


def _container(verb: str, event: Event, names: dict[str, str]) -> str:
    data = event["data"]
    if verb == "starting":
        return f"{data['name']} is placed on {data['node']}"
    return f"{data['name']} has failed: {data.get('reason')}" if verb == "failed" else ""


_TELLERS: dict[str, Callable[[str, Event, dict[str, str]], str]] = {
    "job": _job,
    "node": _node,
    "executor": _executor,
    "run": _run,
    "migration": _migration,
    "container": _container,
}
_KINDS = {
    "job": "job",
    "node": "node",
    "executor": "job",
    "run": "cycle",
    "migration": "move",
    "container": "container",
}
