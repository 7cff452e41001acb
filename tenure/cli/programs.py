"""Programs of Spark jobs that lie beside their job file are sent along as text."""

from __future__ import annotations

from pathlib import Path

from tenure.cli.files import decoded
from tenure.model.errors import FieldError, InvalidInput
from tenure.model.jsons import Json

KEY = "program_file"
#: The daemon takes less; this bounds what is read.
MAX_BYTES = 1 << 20


def with_program(job: Json, source: str) -> Json:
    """Return a job with the text of ``spark.program_file`` as its ``spark.program``.

    The path is relative to the job file ``source``, for stdin to the current folder. Raises
    InvalidInput where both are given, or the file cannot be read as UTF-8.
    """
    spark = job.get("spark")
    if not isinstance(spark, dict) or KEY not in spark:
        return job
    path = spark[KEY]
    if not isinstance(path, str):
        raise _fault("must be a path")
    if "program" in spark:
        raise _fault("excludes program")
    whole = path if source == "-" else Path(source).parent / path
    rest = {key: value for key, value in spark.items() if key != KEY}
    return job | {"spark": rest | {"program": _text(Path(whole))}}


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _fault(f"cannot read {path}: {why}") from None
    try:
        return decoded(raw, path, MAX_BYTES)
    except InvalidInput as error:
        raise _fault(error.detail) from None


def _fault(message: str) -> InvalidInput:
    fault = FieldError(f"spark.{KEY}", message)
    return InvalidInput(f"{fault.path}: {message}", fields=(fault,))
