"""Asks a service of this container whether it is healthy, with the service's own certificate: for health checks.

python -m services.network.probe ROLE [SERVICE]
"""

import sys

from services.common.identity import Role
from services.common.settings import load_settings
from services.network.bootstrap import make_transport
from services.network.transport import is_serving


def main(role: str, service: str = "") -> int:
    """Return 0 when the service says SERVING, 1 otherwise."""
    settings = load_settings()
    transport = make_transport(settings, Role(role))
    port = settings.listen.rpartition(":")[2]
    channel = transport.dial(f"127.0.0.1:{port}", transport.identity.name)
    return 0 if is_serving(channel, service) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except ValueError as error:  # settings or certificates: the sentence is for whoever reads the health log
        sys.exit(str(error))
