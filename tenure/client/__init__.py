"""The one REST client, used by the command line and by workers."""

from tenure.client.client import Client
from tenure.client.gateway import Gateway
from tenure.client.target import Target, discover

__all__ = ["Client", "Gateway", "Target", "discover"]
