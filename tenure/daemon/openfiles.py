"""How many files the process may open: engines, the store and callers share them."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

#: The part of all files that one listener's connections may take: engines need eight each.
SHARE = 4


def affordable(connections: int) -> int:
    """Raise the soft limit of open files to the hard one; return ``connections`` or what it allows.

    A daemon without files left can reach no engine, so callers are bounded before that.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as error:
        log.warning("the limit of open files stays as it is: %s", error)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or connections <= soft // SHARE:
        return connections
    log.warning("%d files may be open: %d connections a listener", soft, soft // SHARE)
    return soft // SHARE
