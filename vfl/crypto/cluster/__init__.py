"""A Dask cluster of a party's own as further cores for products, and for nothing else."""

from vfl.crypto.cluster.cluster_cores import ClusterCores
from vfl.crypto.cluster.scheduler_address import ClusterRefused, check_cluster

__all__ = ["ClusterCores", "ClusterRefused", "check_cluster"]
