"""What nodes cost: the SLA paper's pricing models (Table 3) by instance type and site."""

from __future__ import annotations

from collections.abc import Mapping

from tenure.model.node import Site
from tenure.model.units import usd_to_nano

#: Instance type -> dollars per hour (local, cloud).
Prices = Mapping[str, tuple[float, float]]

#: Table 3 states models 1 to 4 by the second; the types' prices are as 1 : 2 : 3.
_UNIT_USD_PER_S = {
    "1": (0.001, 0.004),
    "2": (0.001, 0.002),
    "3": (0.0, 0.002),
    "4": (0.002, 0.002),
}
_UNIT_USD_PER_H = {
    **{name: (3600 * local, 3600 * cloud) for name, (local, cloud) in _UNIT_USD_PER_S.items()},
    "real": (0.12, 0.24),
}
_FACTORS = {"m1.large": 1, "m1.xlarge": 2, "m2.xlarge": 3}

#: The paper's pricing models by name.
PRESETS: Mapping[str, Prices] = {
    model: {kind: (factor * local, factor * cloud) for kind, factor in _FACTORS.items()}
    for model, (local, cloud) in _UNIT_USD_PER_H.items()
}


def price_nano_per_h(prices: Prices, kind: str, site: Site) -> int | None:
    """Return nano-dollars per hour for an instance type at a site, None if it is not priced."""
    if kind not in prices:
        return None
    local, cloud = prices[kind]
    return usd_to_nano(cloud if site is Site.CLOUD else local)
