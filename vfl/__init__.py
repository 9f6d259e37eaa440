"""The library at the bottom: cryptography, learning, data. It knows nothing of gRPC, services, attacks or defences."""
