"""Simulators of policies on workloads of jobs (``sla``) and of generations (``generations``)."""

from tenure.simulation.sla.cluster import Cluster, SimNode, read_cluster
from tenure.simulation.sla.options import Options
from tenure.simulation.sla.readers import read_workload
from tenure.simulation.sla.result import Result
from tenure.simulation.sla.run import simulate
from tenure.simulation.sla.workload import Workload

__all__ = [
    "Cluster",
    "Options",
    "Result",
    "SimNode",
    "Workload",
    "read_cluster",
    "read_workload",
    "simulate",
]
