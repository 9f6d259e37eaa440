"""Masks that cancel in the sum over parties, and show nothing of any of them alone."""

from itertools import combinations

import numpy as np
import pytest

from vfl.crypto.pairwise_masks import PairwiseMasks

SHAPE = (40, 8)


def agreed(names: list[str], session: str = "s") -> dict[str, PairwiseMasks]:
    parties = {name: PairwiseMasks(name, session) for name in names}
    for name, masks in parties.items():
        masks.agree({other: one.public_key for other, one in parties.items() if other != name})
    return parties


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_masks_of_all_parties_cancel_and_those_of_fewer_are_uniform(count: int) -> None:
    parties = agreed([f"passive-{number}" for number in range(count)])
    masks = {name: one.mask(3, SHAPE) for name, one in parties.items()}
    assert not np.any(sum(masks.values()))
    for some in (chosen for fewer in range(1, count) for chosen in combinations(masks, fewer)):
        total = np.asarray(sum(masks[name] for name in some), dtype=np.uint64)
        # Each of 64 bits is set in about half of 320 numbers: beyond 6 standard deviations once in 10^7.
        bits = np.unpackbits(total.ravel().view(np.uint8)).reshape(total.size, 64).mean(axis=0)
        assert np.abs(bits - 0.5).max() < 6 * 0.5 / total.size**0.5


def test_a_mask_is_of_one_step_and_one_pair_of_keys_and_the_same_when_asked_for_again() -> None:
    first, again = agreed(["a", "b"])["a"], agreed(["a", "b"])["a"]
    np.testing.assert_array_equal(first.mask(0, SHAPE), first.mask(0, SHAPE))
    for other in (first.mask(1, SHAPE), again.mask(0, SHAPE)):
        assert not np.any(first.mask(0, SHAPE) == other)


@pytest.mark.parametrize("key", [b"", bytes(32), b"x" * 31])
def test_a_key_that_everybody_could_guess_the_seed_of_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="b has shown a key that no masks can follow from"):
        PairwiseMasks("a", "s").agree({"b": key})
