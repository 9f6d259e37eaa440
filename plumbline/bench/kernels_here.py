"""The kernels that this machine can run, by the names that settings have for them."""


def kernel_settings() -> tuple[str, ...]:
    """Name the settings of ``PLUMBLINE_KERNEL`` that are measured beside each other."""
    return ("portable",)
