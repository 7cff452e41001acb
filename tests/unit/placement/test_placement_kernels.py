"""What compiling may not cost. That compiled equals plain is in tests/property."""

import sys
from typing import get_args

from tenure.config.schema import JobPolicy
from tenure.model.placing import ARRIVAL_ORDER, Placer
from tenure.placement.policies import Policies
from testbed import bounded


def test_importing_the_room_does_not_import_numba() -> None:
    code = "import sys, tenure.placement.policies; sys.exit('numba' in sys.modules)"
    assert bounded.run([sys.executable, "-c", code], timeout_s=60).returncode == 0


def test_it_is_a_placer() -> None:
    placer: Placer = Policies()
    assert placer.policies() == get_args(JobPolicy)
    assert set(placer.policies()) > ARRIVAL_ORDER
