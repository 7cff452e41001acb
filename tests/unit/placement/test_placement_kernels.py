"""What compiling may not cost. That compiled equals plain is in tests/property."""

import sys
from typing import get_args

import pytest

from tenure.config.schema import JobPolicy
from tenure.model.placing import ARRIVAL_ORDER, Placed, Placer
from tenure.placement.kernels import PLAIN
from tenure.placement.policies import Policies
from testbed import bounded
from tests.unit.placement.build import N, ask_of, view_of


def test_importing_the_room_does_not_import_numba() -> None:
    code = "import sys, tenure.placement.policies; sys.exit('numba' in sys.modules)"
    assert bounded.run([sys.executable, "-c", code], timeout_s=60).returncode == 0


def test_stays_plain_where_numba_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # makes `import numba` fail
    policies = Policies(compiled=True)
    assert policies.compile() is False
    assert policies._kernels is PLAIN
    view = view_of([N("a")])
    assert isinstance(policies.place("gio", view, ask_of(view, 1), 0), Placed)


def test_it_is_a_placer() -> None:
    placer: Placer = Policies()
    assert placer.policies() == get_args(JobPolicy)
    assert set(placer.policies()) > ARRIVAL_ORDER
