"""The wire: message and service definitions, and the Python stubs generated from them."""
