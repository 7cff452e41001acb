"""`docs/configuration.md`, from the models that check the files; `make docs` writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from tenure.config.cyclesfile import CycleSection
from tenure.config.section import Section
from tenure.config.settings import ConfigFile

#: Also loaded by a test, so that what the document shows is accepted.
EXAMPLE = """\
state_dir: /var/lib/tenure
generations: [nursery, young, tenured]
power: {grace_s: 60, min_on: {nursery: 1}}
nodes:
  - name: desk
    url: unix:///var/run/docker.sock
    generation: nursery
  - name: rack1
    url: tcp://10.0.0.11:2375
    generation: young
    capacity: {cpus: 8, memory: 32GiB}
    reserve: {cpus: 0.5, memory: 1GiB}
    labels: {disk: ssd}
  - name: cloud1
    url: tcp://10.8.0.5:2375
    generation: tenured
    site: cloud
    price_per_hour: 0.12
    power:
      driver: command
      on: [/usr/local/bin/vm, start, cloud1]
      off: [/usr/local/bin/vm, stop, cloud1]
      status: [/usr/local/bin/vm, status, cloud1]
      boot_s: 45
"""

EXAMPLE_CYCLES = """\
generation_nursery_cycle:
  cron: "*/5 * * * *"
  class: GenerationCycle
  description: "Run a cycle on generation nursery"
  args: nursery

generation_young_cycle:
  cron: "*/10 * * * *"
  class: GenerationCycle
  description: "Run a cycle on generation young"
  args: young
  min_age_s: 600
"""

_HEAD = f"""\
# Configuration

This page is written by `make docs` from the models that check the files.

`tenured` reads one `tenured.yml` and, beside it, `cycles.yml`. `--config` names the first, else
`TENURE_CONFIG` does, else it is `/etc/tenure/tenured.yml`. Both may be absent: then the local
Docker engine is the whole fleet. `tenure config validate FILE` lists every fault with its path and
line. Unknown keys are faults. SIGHUP reads nodes, cycles, roles, `policy` and `namespaces` again.

Only `true` and `false` are booleans (`on:` and `off:` are plain keys), numbers stand without
quotes, sizes are bytes or words such as `512MiB`, `2GiB` or `10GB`, times are seconds.

```yaml
{EXAMPLE}```

## Environment

`TENURE_<KEY>` and `TENURE_<SECTION>__<KEY>` override the file; the value is read as YAML:

```sh
TENURE_STATE_DIR=/srv/tenure TENURE_POWER__GRACE_S=300 TENURE_REDIS__URL=unix:///run/redis.sock
TENURE_LISTEN='["unix:///run/tenure/tenured.sock"]' TENURE_NODES__0__URL=tcp://10.0.0.12:2375
```

`TENURE_REDIS__URL_FILE`, `TENURE_STATS__PASSWORD_FILE` and `TENURE_STATS__TOKEN_FILE` name files
that hold the value, as containers' secrets do.

A variable with `__` that names nothing is a fault; one without is left to other programs.

## tenured.yml
"""

_CYCLES = f"""
## cycles.yml

A mapping of cycle names to cycles. It is the file format of GENPACK's generation cycles; all keys
but `cron`, `class`, `description` and `args` are additions. Without a file there is a cycle out of
each generation but the last: every 5 minutes out of the first, every 10 minutes out of the others;
and, where a node's `harvest.mode` is not `off`, one that makes forecasts every hour. An empty file
means no cycles.

```yaml
{EXAMPLE_CYCLES}```

A cycle that makes forecasts ([forecasts.md](forecasts.md)); a file must name one where nodes lend:

```yaml
forecast_cycle:
  cron: "23 * * * *"
  class: ForecastCycle
```
"""


def render() -> str:
    """Return the whole document."""
    return "".join(_document())


def _document() -> Iterator[str]:
    yield _HEAD
    sections = _parts(ConfigFile)
    yield from _table(ConfigFile)
    for name, model in sections.items():
        many = {"nodes": " A list of:", "namespaces": " Of each name:"}.get(name, "")
        yield f"\n### {name}\n\n{_description(ConfigFile, name)}{many}\n"
        yield from _table(model)
        shown: dict[type[Section], str] = {}
        for part, inner in _parts(model).items():
            yield f"\n#### {name}: {part}\n\n{_description(model, part)}"
            yield f" As `{shown[inner]}`.\n" if inner in shown else "\n"
            yield from () if inner in shown else _table(inner)
            shown[inner] = part
    yield _CYCLES
    yield from _table(CycleSection)


def _parts(model: type[BaseModel]) -> dict[str, type[Section]]:
    """Return the sections within a section: one, several in a list, or one that may be absent."""
    found = {}
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, Section):
                found[name] = kind
    return found


def _description(model: type[BaseModel], name: str) -> str:
    words = model.model_fields[name].description or ""
    if name in ("nodes", "capacity"):
        words += f" Default: {_default(model, name)}."
    return words


def _table(model: type[BaseModel]) -> Iterator[str]:
    parts = _parts(model)
    if set(model.model_fields) <= set(parts):
        return
    schema = model.model_json_schema()
    yield "\n| key | type | default | meaning |\n|---|---|---|---|\n"
    for name, field in model.model_fields.items():
        if name not in parts:
            key = field.alias or name
            words = _type(schema["properties"][key])
            yield f"| `{key}` | {words} | {_default(model, name)} | {field.description} |\n"


def _default(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    extra = field.json_schema_extra
    if isinstance(extra, dict) and extra.get("shown"):
        return str(extra["shown"])
    return "required" if field.is_required() else f"`{json.dumps(field.default)}`"


def _type(part: dict[str, Any]) -> str:
    """Return a JSON schema in words."""
    if "anyOf" in part:
        return " or ".join(_type(option) for option in part["anyOf"])
    if "const" in part or "enum" in part:
        return " or ".join(f"`{value}`" for value in part.get("enum", [part.get("const")]))
    match part.get("type"):
        case "array":
            return f"list of {_type(part['items'])}"
        case "object":
            return f"mapping to {_type(part['additionalProperties'])}"
        case kind:
            plain = {"string": "text", "integer": "whole number", "null": "`null`"}
            return plain.get(str(kind), str(kind))
