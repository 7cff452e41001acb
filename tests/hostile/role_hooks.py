"""What schemathesis judges answers by that somebody of a role gets: the table of roles.

Loaded by the schemathesis command through SCHEMATHESIS_HOOKS; ASKER names the role.
"""

from __future__ import annotations

import os
from typing import Any

import schemathesis

import tests.hostile.schema_hooks  # noqa: F401 - its hooks are registered too
from tenure.model.roles import NEEDS, Role

ASKER = "TENURE_TEST_ROLE"


@schemathesis.check
def role_table(ctx: Any, response: Any, case: Any) -> None:
    """Fail where a role was let do what it may not, or refused what it may."""
    need = NEEDS.get(f"{case.method} {case.path}")
    if need is None:
        return  # a method that the path does not know
    role = Role(os.environ[ASKER])
    code = response.json().get("code") if response.status_code == 403 else ""
    if need.allows(role):
        assert code != "forbidden", f"{role} may {case.method} {case.path}, and was refused"
    else:
        # what is no request at all is refused before anybody looks who asks
        assert response.status_code >= 400, f"{role}: {response.status_code}, and it needs {need}"
