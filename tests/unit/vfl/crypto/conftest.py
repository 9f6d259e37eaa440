"""Keys for the tests of `vfl.crypto`: small ones for speed, one of 2048 bits for the real thing. Kernels and cores."""

from collections.abc import Iterator

import pytest

from tests.harness.keys import KeyPair
from vfl.cores import Cores, OneCore, cores_for
from vfl.crypto import Engine, keygen
from vfl.crypto.kernels import Kernel, kernel_named


@pytest.fixture(scope="session")
def small_keys() -> KeyPair:
    return keygen(512, insecure=True)


@pytest.fixture(scope="session")
def secure_keys() -> KeyPair:
    return keygen()


@pytest.fixture(scope="session")
def two_cores() -> Iterator[dict[bool, Cores]]:
    """Two cores for all tests, by whether the kernel releases the interpreter's lock: threads, or processes."""
    cores = {releases_gil: cores_for(2, releases_gil=releases_gil) for releases_gil in (False, True)}
    yield cores
    for one in cores.values():
        one.close()


@pytest.fixture(scope="module", params=["portable", "native"])
def kernel(request: pytest.FixtureRequest) -> Kernel:
    try:
        return kernel_named(request.param)
    except (RuntimeError, ValueError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=[1, 2])
def engine(request: pytest.FixtureRequest, kernel: Kernel, two_cores: dict[bool, Cores]) -> Iterator[Engine]:
    """Every kernel on one core and on two. Whoever names no engine computes with this one, in chunks however small."""
    engine = Engine(kernel, OneCore() if request.param == 1 else two_cores[kernel.releases_gil])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vfl.crypto.engine._FEWEST_PRODUCTS", 1)
        patch.setattr("vfl.crypto.vectors.default_engine", lambda: engine)
        yield engine
