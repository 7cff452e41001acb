"""The Spark application of a job of ``kind: spark``, and its translation into a ``SparkSpec``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from tenure.api.schemas.fields import LINE, MAX_ITEMS, Line, Strict, Text
from tenure.model.errors import FieldError
from tenure.model.job import SparkSpec

#: The kernel takes no longer text in a variable of the environment than 128 KiB.
MAX_BYTES = 96 * 1024
#: Properties that tenure sets, and what takes their place.
OWN = {
    "spark.master": "each job has a master of its own",
    "spark.submit.deployMode": "the driver is a container of the job",
    "spark.authenticate": "is always on",
    "spark.authenticate.secret": "each job has a secret of its own",
    "spark.driver.host": "set address of the node in tenured.yml",
    "spark.driver.memory": "set memory of the job",
    "spark.executor.memory": "set memory of the job",
    "spark.executor.cores": "set cpus of the job",
    "spark.executor.instances": "set executors of the job",
    "spark.cores.max": "set executors and cpus of the job",
    "spark.shuffle.readHostLocalDisk": "executors of one node do not share a disk",
    "spark.dynamicAllocation.enabled": "a job has all its executors from its start to its end",
}
PROPERTY = r"^spark\.[A-Za-z0-9_.-]{1,200}$"

Application = Annotated[
    str, StringConstraints(min_length=1, max_length=4096, pattern=LINE), Field(pattern="^[^-]")
]
Property = Annotated[str, StringConstraints(pattern=PROPERTY)]


class SparkRequest(Strict):
    """What a Spark job runs: a file that its image or a volume holds, or a program as text."""

    application: Application | None = Field(
        default=None,
        description="Path in the container, or a URL that spark-submit reads: a .py or .jar file.",
    )
    program: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        default=None,
        description=f"A Python program as text, up to {MAX_BYTES // 1024} KiB; excludes "
        "application.",
    )
    args: list[Text] = Field(default=[], max_length=MAX_ITEMS)
    conf: dict[Property, Line] = Field(
        default={}, max_length=256, description="Properties of Spark that tenure does not set."
    )


def spark_spec(spark: SparkRequest, faults: list[FieldError]) -> SparkSpec:
    """Translate the application, without a secret; what is wrong with it goes to ``faults``."""
    faults += _faults(spark)
    return SparkSpec(
        application=spark.application or "",
        program=spark.program or "",
        args=tuple(spark.args),
        conf=dict(spark.conf),
    )


def _faults(spark: SparkRequest) -> list[FieldError]:
    found = []
    if (spark.application is None) == (spark.program is None):
        found.append(FieldError("spark.application", "give either application or program"))
    program = spark.program or ""
    if "\x00" in program:
        found.append(FieldError("spark.program", "must hold no NUL"))
    if _size(program) > MAX_BYTES:
        text = f"is longer than {MAX_BYTES} bytes; put it into the image and name its path"
        found.append(FieldError("spark.program", text))
    if _size("".join(f"{key}={value}\n" for key, value in spark.conf.items())) > MAX_BYTES:
        found.append(FieldError("spark.conf", f"is longer than {MAX_BYTES} bytes in all"))
    for key in sorted(OWN.keys() & spark.conf.keys()):
        found.append(FieldError(f"spark.conf.{key}", f"is tenure's to set: {OWN[key]}"))
    return found


def _size(text: str) -> int:
    """Return the bytes of a text; what cannot be encoded counts as one."""
    return len(text.encode(errors="replace"))
