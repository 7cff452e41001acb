"""InfluxDB and Redis away for 20 s each under load: the benchmark counts, and nothing is lost."""

from __future__ import annotations

import pytest

from benchmarks import cuts
from testbed import TestbedError, check
from testbed.servers import binary

pytestmark = [
    pytest.mark.engines,
    pytest.mark.redis,
    pytest.mark.influx,
    pytest.mark.timeout(400),
]


def test_nothing_is_lost_while_influx_and_redis_are_away() -> None:
    if missing := check():
        pytest.skip("; ".join(missing))
    try:
        binary("influxdb", "influxd")
    except (TestbedError, OSError) as error:
        pytest.skip(f"the server's package cannot be fetched: {str(error)[-300:]}")
    found = {figure.key: figure for figure in cuts.measure(is_quick=True).figures}
    for key in ("samples_uncounted", "samples_twice_s", "runs_lost", "runs_caught_up", "jobs_lost"):
        assert found[key].is_met, found[key]
    assert found["samples_lost"].median == 0  # 20 s are far below the bounds of the spool
    assert found["runs_filled"].median > 0
    assert found["runs_missed"].median > 0  # those that fell due while Redis was away
    assert found["jobs"].median > 20
