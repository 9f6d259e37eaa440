"""Networks trained in the federation: a first layer that is split by party, and all above it at the label party.

Examples:
    >>> from vfl.learning.network import Network
    >>> Network(hidden=8, backward="plain").terms()["cipher"]
    'plain'
"""

from vfl.learning.network.network_reference import ReferenceTraining, SeenStep, train_network
from vfl.learning.network.part import NetworkPart
from vfl.learning.network.split_network import Network, NetworkHalf

__all__ = ["Network", "NetworkHalf", "NetworkPart", "ReferenceTraining", "SeenStep", "train_network"]
