"""Bodies of requests about tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from tenure.api.schemas.fields import Seconds, Strict, examples
from tenure.model.roles import NAMESPACE

TOKEN_NAME = r"^[a-z0-9][a-z0-9._-]{0,62}$"
TokenName = Annotated[str, StringConstraints(pattern=TOKEN_NAME)]
RoleName = Literal["metrics", "read", "submit", "operate", "admin", "worker"]


class TokenRequest(Strict):
    """A token to make."""

    model_config = examples({"name": "ann", "role": "read", "expires_s": 2_592_000})

    name: TokenName = Field(
        description="Whose it is, or what for; a name that ended may be used again."
    )
    role: RoleName
    namespace: TokenName = Field(
        default=NAMESPACE, description="Of which what it submits is, and may be changed by it."
    )
    expires_s: Seconds | None = Field(default=None, description="Seconds from now; null: never.")
