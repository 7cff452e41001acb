"""Power drivers: switch nodes on and off, and ask whether they are on.

``driver_for`` gives the driver that a node's ``PowerSpec`` names.
"""

from tenure.power.drivers import PowerDriver, driver_for

__all__ = ["PowerDriver", "driver_for"]
