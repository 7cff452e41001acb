"""Samples as line protocol, under cAdvisor's names.

cAdvisor's InfluxDB driver writes one measurement per metric, each with the field ``value`` and the
tags ``container_name``, ``machine`` and every label of the container. So do we, where a sample
comes with its reading; the labels are tenure's own. cAdvisor has no series for block I/O:
``diskio_bytes`` is ours. ``tenure_usage`` holds the sample itself, rates included, and is what
profiles are made from; counters alone could not tell a restart between two samples.
``tenure_rest`` is the same of what a node uses beside our containers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tenure.profiling.readings.sample import Measured, Reading

USAGE = "tenure_usage"
REST = "tenure_rest"
CPU = "cpu_usage_total"
MEMORY = "memory_working_set"
RECEIVED = "rx_bytes"
SENT = "tx_bytes"
DISK = "diskio_bytes"

TAG_CONTAINER = "container_name"
TAG_MACHINE = "machine"
TAG_APP = "tenure.app"

_SPECIAL = re.compile(r"([,= ])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def encode(samples: Sequence[Measured]) -> bytes:
    """Return the lines of ``samples``, times in microseconds."""
    return "\n".join(line for row in samples for line in _lines(row)).encode(errors="replace")


def _lines(row: Measured) -> Iterator[str]:
    sample = row.sample
    tags = "".join(f",{name}={_escaped(value)}" for name, value in _tags(row) if value)
    fields = [f"span_us={sample.span_us}i"]
    fields += [f"{name}={getattr(sample.use, name)}i" for name in sample.observed]
    yield f"{USAGE if row.container else REST}{tags} {','.join(fields)} {sample.at_us}"
    if row.reading is not None:
        for measurement, value in _counters(row.reading):
            yield f"{measurement}{tags} value={value}i {sample.at_us}"


def _tags(row: Measured) -> Iterator[tuple[str, str]]:
    """Yield the tags in the order of their names, which spares the server sorting them."""
    yield TAG_CONTAINER, row.container
    yield TAG_MACHINE, row.node
    yield TAG_APP, row.app
    yield from label_tags(row.container).items()


def label_tags(container: str) -> dict[str, str]:
    """Return the labels, as tags, by which a sample's key is found in cAdvisor's series too.

    A key is the id of a service's container, or ``job/index`` of an executor.
    """
    job, slash, index = container.rpartition("/")
    if slash:
        return {"tenure.executor": index, "tenure.job": job}
    return {"tenure.container": container}


def _counters(reading: Reading) -> Iterator[tuple[str, int]]:
    yield CPU, reading.cpu_ns
    yield MEMORY, reading.memory_bytes
    if reading.net_bytes is not None and reading.tx_bytes is not None:
        yield RECEIVED, reading.net_bytes - reading.tx_bytes
        yield SENT, reading.tx_bytes
    if reading.disk_bytes is not None:
        yield DISK, reading.disk_bytes


def tag_text(text: str) -> str:
    """Return what stands for ``text`` in a tag: line breaks and backslashes cannot be escaped."""
    return _CONTROL.sub("_", text.replace("\\", "/"))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", tag_text(text))
