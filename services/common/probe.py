"""Asks a service of this container whether it is healthy, with the service's own certificate: for health checks.

python -m services.common.probe ROLE [SERVICE]
"""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common.bootstrap import make_transport
from services.common.identity import Role
from services.common.settings import load_settings


def main(role: str, service: str = "") -> int:
    """0 when the service says SERVING, 1 otherwise."""
    settings = load_settings()
    transport = make_transport(settings, Role(role))
    port = settings.listen.rpartition(":")[2]
    channel = transport.dial(f"127.0.0.1:{port}", transport.identity.name)
    try:
        reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
    except grpc.RpcError:
        return 1
    return 0 if reply.status == health_pb2.HealthCheckResponse.SERVING else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
