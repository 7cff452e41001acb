"""What SIGHUP has taken over: token, certificates, who may do what, nodes, cycles, quotas."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tenure.api.server.listeners import Listeners
from tenure.config.certificates import server_context
from tenure.config.load import load
from tenure.config.settings import Settings
from tenure.config.token import ensure_token
from tenure.daemon.access.access import Access
from tenure.daemon.access.tokens import FILE as TOKENS
from tenure.daemon.access.tokens import ROOT, Tokens
from tenure.daemon.firststart import REMEDY
from tenure.model.access import TlsFiles
from tenure.model.accesspolicy import Permits
from tenure.model.errors import InvalidInput, TenureError
from tenure.model.roles import Role

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reload:
    """The parts that a reload reaches; a faulty file leaves each as it is.

    ``end_streams`` is called for a token that was replaced, ``require_root`` for a root token that
    is to be taken over: it raises InvalidInput for one that is damaged.
    """

    token_file: Path
    tls: TlsFiles | None
    tokens: Tokens
    access: Access
    permits: Permits
    listeners: Listeners
    end_streams: Callable[[str], None]
    require_root: Callable[[], None]

    def certificates(self) -> str:
        """Have new connections to the API judged by what the files of ``tls`` hold by now.

        Return what is wrong with them, "": nothing.

        A whole context takes the place of the last one: an authority can be added to one, but not
        taken away, and one that is renewed would be trusted for ever.
        """
        try:
            if self.tls is not None:
                self.listeners.secure(server_context(self.tls))
        except TenureError as error:
            log.error("the API keeps its old certificate: %s", error.detail)
            return error.detail
        return ""

    def token(self) -> str:
        """Take over the root token; return what is wrong with that or the others, "": nothing."""
        try:
            fresh = ensure_token(self.token_file, may_make=False)
            self.require_root()
            if self.tokens.build_in(ROOT, Role.ADMIN, fresh):
                self.end_streams(ROOT)
            if not self.tokens.is_stored:
                raise InvalidInput(f"{TOKENS} is gone from the state folder; {REMEDY}")
        except TenureError as error:
            log.error("the tokens stay as they were: %s", error.detail)
            return error.detail
        return ""

    def rights(self, fresh: Settings) -> None:
        """Take over who may do what; what was submitted stays as it is."""
        self.access.configure(fresh.tls.grants, fresh.api.grants)
        self.permits.take(fresh.permits)


def loaded(path: Path | None) -> Settings | None:
    """Return the configuration as its file is now, None where it is faulty, which is logged."""
    try:
        return load(path, dict(os.environ))
    except TenureError as error:
        faults = "; ".join(f"{f.path}: {f.message}" for f in error.fields) or error.detail
        log.error("the configuration was not taken over: %s", faults)
        return None
