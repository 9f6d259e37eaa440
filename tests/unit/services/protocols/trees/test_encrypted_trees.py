"""Trees that grow under ciphertexts are those of plain numbers, to the bit; and what the sides refuse."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from services.common.errors import InvalidMessage, OutOfOrder
from services.protocols.trees.passive_side import PassiveSide
from services.protocols.trees.tree_messages import NodeDivided, SplitChosen, TreeTerms
from tests.harness.keys import KeyPair
from tests.harness.tree_sessions import TreeSession
from tests.harness.tree_tables import TreeTable, made_table
from vfl.arrays import BoolArray, IntArray
from vfl.crypto import Engine, from_bytes, keygen, to_bytes
from vfl.crypto.bin_sums import bin_products, encrypt_pairs, pack_sums, prefix_products
from vfl.learning.trees import Candidate, NodeRows, Split, TreeOptions

SMALL = TreeOptions(n_estimators=2, max_depth=3, max_bin=4, min_rows_of_a_node=5, gradient_bits=12)


@pytest.fixture(scope="module")
def small_keys() -> KeyPair:
    return keygen(512, insecure=True)


def assert_equal_to_its_plain_twin(session: TreeSession) -> None:
    model = session.train()
    twin, owned = session.train_plain_twin()
    assert model == twin
    assert model.trees[0].splits
    for side in session.passive.values():
        assert side.trees[: len(model.trees)] == [tree.splits for tree in model.trees]
    assert [side.splits for side in session.sides] == [side.splits for side in owned]


@pytest.mark.parametrize(
    ("columns", "missing", "options"),
    [
        ((2, 3), 0.0, SMALL),
        ((1, 2, 2), 0.15, SMALL),
        ((0, 2), 0.1, replace(SMALL, max_depth=4)),
        ((1, 3), 0.1, replace(SMALL, subsample=0.6, colsample_bytree=0.6, early_stopping_rounds=1)),
    ],
    ids=["two parties", "three parties, missing values", "a label party without columns", "samples, early stop"],
)
def test_encrypted_and_plain_trees_are_the_same_to_the_bit(
    small_keys: KeyPair, columns: tuple[int, ...], missing: float, options: TreeOptions
) -> None:
    table = made_table(140, columns, missing=missing, seed=4)
    validation = 40 if options.early_stopping_rounds else 0
    assert_equal_to_its_plain_twin(TreeSession(table, table.plan(options, validation), small_keys))


def test_under_a_2048_bit_key_too() -> None:
    table = made_table(80, (1, 2), missing=0.1)
    assert_equal_to_its_plain_twin(TreeSession(table, table.plan(replace(SMALL, n_estimators=1)), keygen()))


def test_equal_columns_of_two_parties_are_a_tie_that_goes_to_the_first(small_keys: KeyPair) -> None:
    made = made_table(100, (0, 2))
    table = TreeTable((made.tables[1][:, :0], made.tables[1], made.tables[1]), made.labels)
    session = TreeSession(table, table.plan(SMALL), small_keys)
    assert_equal_to_its_plain_twin(session)
    assert not session.passive["fintech 2"].owned.splits


@pytest.mark.parametrize(
    ("column", "label"), [(np.nan, None), (3.0, None), (None, 0)], ids=["all missing", "constant", "labels alike"]
)
def test_what_divides_nothing_gives_leaves_alone(small_keys: KeyPair, column: float | None, label: int | None) -> None:
    made = made_table(30, (0, 1))
    values = made.tables[1] if column is None else np.full((30, 1), column)
    table = TreeTable((made.tables[0], values), made.labels if label is None else np.full(30, label))
    session = TreeSession(table, table.plan(SMALL), small_keys)
    assert session.train() == session.train_plain_twin()[0]
    assert not session.passive["fintech 1"].owned.splits


def test_one_row_is_a_leaf_and_nothing_is_asked_about_it(small_keys: KeyPair) -> None:
    table = made_table(1, (0, 1))
    session = TreeSession(table, table.plan(SMALL), small_keys)
    assert session.train().trees[0].splits == {}
    assert {told.call for told in session.heard} == {"begin"}


def test_only_the_smaller_child_is_asked_for_and_every_column_has_as_many_bins(small_keys: KeyPair) -> None:
    table = made_table(120, (1, 2))
    session = TreeSession(table, table.plan(SMALL), small_keys)
    session.train()
    for told in session.heard:
        if told.call == "sums":
            ciphertexts = session.terms.layout.ciphertexts_for(len(told.asked) * 2 * SMALL.max_bin)
            assert len(told.answer) == ciphertexts * session.terms.ciphertext_bytes
            assert all(node ^ 1 not in told.asked for node in told.asked)


def lies(session: TreeSession) -> Iterator[int]:
    """Encryptions of what no rows sum to: nothing, all bits, and bits at random."""
    generator = np.random.default_rng(7)
    layout = session.terms.layout
    while True:
        yield from (0, (1 << layout.slots * layout.slot_bits) - 1)
        yield int.from_bytes(generator.bytes(layout.slots * layout.slot_bits // 8), "big")


def test_bins_that_lie_give_a_worse_tree_and_no_error(small_keys: KeyPair) -> None:
    """Whatever sums decrypt to, the training ends: the liar learns splits and nothing else."""
    public_key, _ = small_keys
    table = made_table(100, (2, 2))
    session = TreeSession(table, table.plan(SMALL), small_keys)
    lied = lies(session)

    def lie(call: str, answer: Any) -> Any:
        if call != "sums":
            return answer
        width = session.terms.ciphertext_bytes
        values = [pow(1 + public_key.n, next(lied), public_key.n_squared) for _ in range(len(answer) // width)]
        return to_bytes(values, width)

    session.lie = lie
    # Asked for a division that it can't make, a liar makes another.
    side = session.passive["fintech 1"]
    side.owned.divide = lambda node, *_: np.arange(len(node.routed)) % 2 == 0  # type: ignore[method-assign]
    model = session.train()
    assert len(model.trees) == SMALL.n_estimators
    assert any(told.call == "divide" and told.answer for told in session.heard)
    assert all(np.isfinite(list(tree.weights.values())).all() for tree in model.trees)


@pytest.mark.parametrize(
    ("lie", "words"),
    [(lambda sums: sums[:-1], "can't be read"), (lambda sums: bytes(len(sums)), "not between 0 and")],
    ids=["a byte short", "no ciphertexts"],
)
def test_sums_that_are_none_are_refused_in_words(small_keys: KeyPair, lie: Any, words: str) -> None:
    table = made_table(60, (1, 2))
    session = TreeSession(table, table.plan(SMALL), small_keys)
    session.lie = lambda call, answer: lie(answer) if call == "sums" else answer
    with pytest.raises(InvalidMessage, match=f"fintech 1's sums of tree 0.*{words}"):
        session.train()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"split": 5}, "something else"),
        ({"node": 2}, "something else"),
        ({"party": 0}, "something else"),
        ({"left": b"\0"}, "by 1 bytes"),
        ({"left": bytes(13)}, "fewer than 5 rows"),
    ],
)
def test_a_division_that_is_none_is_refused_in_words(small_keys: KeyPair, change: dict[str, Any], words: str) -> None:
    table = made_table(100, (0, 2))
    session = TreeSession(table, table.plan(SMALL), small_keys)
    session.lie = lambda call, answer: [one._replace(**change) for one in answer] if call == "divide" else answer
    with pytest.raises(InvalidMessage, match=words):
        session.train()


@pytest.mark.parametrize("times", [0, 2])
def test_divisions_of_more_nodes_or_none_are_refused_in_words(small_keys: KeyPair, times: int) -> None:
    table = made_table(100, (0, 2))
    session = TreeSession(table, table.plan(SMALL), small_keys)
    session.lie = lambda call, answer: times * answer if call == "divide" else answer
    with pytest.raises(InvalidMessage, match="fintech 1 was asked to divide 1 nodes of tree 0"):
        session.train()


Begun = tuple[TreeTerms, TreeTable, bytes]


@pytest.fixture(scope="module")
def begun(small_keys: KeyPair) -> Begun:
    """The derivatives of a session's first tree, of which a party owns no column."""
    table = made_table(60, (2, 2, 0))
    terms = TreeTerms(("bank", "fintech", "silent"), table.plan(SMALL), 512)
    values = np.column_stack([np.where(table.labels == 1, -2048, 2048), np.full(60, 1024)])
    encrypted = encrypt_pairs(small_keys[1], values, terms.layout, Engine())
    return terms, table, to_bytes(encrypted, terms.ciphertext_bytes)


def first_tree(begun: Begun, keys: KeyPair) -> PassiveSide:
    """The party that has columns, when its first tree has begun."""
    terms, table, derivatives = begun
    side = PassiveSide(terms, "fintech", table.tables[1], keys[0])
    side.begin(0, derivatives)
    return side


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (SplitChosen(1, 1, 0, 0, False), "number 1 isn't its next one"),
        (SplitChosen(1, 0, 2, 0, False), "2 columns of 4 bins"),
        (SplitChosen(1, 0, 0, 4, False), "2 columns of 4 bins"),
        (SplitChosen(4, 0, 0, 0, False), "no node 4"),
        (SplitChosen(1, 0, -1, 0, False), "2 columns of 4 bins"),
        (SplitChosen(1, 0, 1 << 70, 0, False), "2 columns of 4 bins"),
    ],
)
def test_splits_that_no_honest_label_party_chooses_are_refused_and_change_nothing(
    small_keys: KeyPair, begun: Begun, chosen: SplitChosen, words: str
) -> None:
    side = first_tree(begun, small_keys)
    with pytest.raises(InvalidMessage, match=words):
        side.divide([chosen])
    with pytest.raises(InvalidMessage, match="no node 1 that is still"):
        side.divide([SplitChosen(1, 0, 0, 1, False), SplitChosen(1, 1, 0, 1, False)])
    assert not side.owned.splits
    assert side.divide([SplitChosen(1, 0, 0, 1, False)])
    with pytest.raises(OutOfOrder, match="fintech has divided its nodes of this level"):
        side.divide([SplitChosen(1, 1, 0, 0, False)])
    assert len(side.owned.splits) == 1


@pytest.mark.parametrize(
    ("divided", "words"),
    [
        (NodeDivided(1, 2, 0, bytes(8)), "Party 2 owns no column"),
        (NodeDivided(1, 3, 0, bytes(8)), "Party 3 owns no column"),
        (NodeDivided(1, 1, 0, bytes(8)), "fintech has divided other nodes"),
        (NodeDivided(1, 0, 3, bytes(8)), "number 3 isn't its next one"),
        (NodeDivided(1, 0, 0, bytes(7)), "its 60 rows take 8"),
        (NodeDivided(1, 0, 0, b"\x80" + bytes(7)), "fewer than 5 rows"),
        (NodeDivided(1, 0, 0, bytes(8)), "fewer than 5 rows"),
        (NodeDivided(1, 0, 0, b"\xff" * 7 + b"\xf0"), "fewer than 5 rows"),
        (NodeDivided(1, 0, 0, b"\xff\xff" + bytes(5) + b"\x01"), "beyond its 60 rows"),
        (NodeDivided(-1, 0, 0, bytes(8)), "no node -1"),
        (NodeDivided(2, 0, 0, bytes(8)), "no node 2"),
    ],
)
def test_routes_that_no_honest_label_party_tells_are_refused_and_change_nothing(
    small_keys: KeyPair, begun: Begun, divided: NodeDivided, words: str
) -> None:
    side = first_tree(begun, small_keys)
    with pytest.raises(InvalidMessage, match=words):
        side.follow([divided])
    assert side.trees == [{}]
    assert [node.number for node in side.asked] == [1]
    assert side.sums()


@pytest.mark.parametrize("change", ["left out", "other rows", "another's"])
def test_a_label_party_passes_a_partys_own_division_on_as_it_was(
    small_keys: KeyPair, begun: Begun, change: str
) -> None:
    side = first_tree(begun, small_keys)
    (own,) = side.divide([SplitChosen(1, 0, 0, 1, False)])
    other = own._replace(party=0) if change == "another's" else own._replace(left=own.left[::-1])
    with pytest.raises(InvalidMessage, match="fintech has divided other nodes of this level, or otherwise"):
        side.follow([] if change == "left out" else [other])
    side.follow([own])
    assert side.trees == [{1: (1, 0)}]


def test_a_table_of_other_columns_than_agreed_on_is_refused(small_keys: KeyPair, begun: Begun) -> None:
    terms, table, _ = begun
    with pytest.raises(InvalidMessage, match="fintech has agreed on 2 columns, its table has 1"):
        PassiveSide(terms, "fintech", table.tables[1][:, :1], small_keys[0])
    with pytest.raises(InvalidMessage, match="bank is none of the session's passive parties"):
        PassiveSide(terms, "bank", table.tables[0], small_keys[0])


def test_derivatives_of_a_tree_are_read_once_and_in_turn(small_keys: KeyPair, begun: Begun) -> None:
    terms, table, derivatives = begun
    side = PassiveSide(terms, "fintech", table.tables[1], small_keys[0])
    with pytest.raises(OutOfOrder, match="No node's sums are due"):
        side.sums()
    with pytest.raises(InvalidMessage, match="can't be read"):
        side.begin(0, derivatives[:-1])
    for early in (-1, 1):
        with pytest.raises(OutOfOrder, match=f"Tree {early} doesn't begin here now: 0 have"):
            side.begin(early, derivatives)
    side.begin(0, derivatives)
    other = to_bytes(from_bytes(derivatives, 60, 128)[::-1], 128)
    with pytest.raises(OutOfOrder, match="Tree 0 doesn't begin here now: 1 have"):
        side.begin(0, other)
    side.begin(1, derivatives)
    with pytest.raises(OutOfOrder, match="Tree 2 doesn't begin here now"):
        side.begin(2, derivatives)


@pytest.mark.parametrize("max_depth", [3, 6])
def test_no_honest_party_is_asked_for_too_small_a_side(small_keys: KeyPair, max_depth: int) -> None:
    """Three rows alone would gain most, and are fewer than the session's fewest: another division is asked for."""
    column = np.repeat([0.0, 1.0, 2.0], [3, 20, 20])[:, None]
    labels = np.repeat([1, 0, 0], [3, 20, 20])
    labels[25:30] = 1
    table = TreeTable((column[:, :0], column), labels)
    options = replace(SMALL, max_depth=max_depth, min_child_weight=0.0)
    session = TreeSession(table, table.plan(options), small_keys)
    assert_equal_to_its_plain_twin(session)
    root = next(told.said[0] for told in session.heard if told.call == "divide")
    assert root.bin == 1


def test_too_small_a_side_is_refused_by_its_owner_and_nothing_is_kept(small_keys: KeyPair, begun: Begun) -> None:
    terms, _, derivatives = begun
    column = np.where(np.arange(60) < 4, 0.0, 1.0)
    side = PassiveSide(terms, "fintech", np.column_stack([column, column]), small_keys[0])
    side.begin(0, derivatives)
    for bin_ in range(SMALL.max_bin):
        with pytest.raises(InvalidMessage, match=r"fintech won't divide: Node 1 .* fewer than 5 rows"):
            side.divide([SplitChosen(1, 0, 0, bin_, False)])
    assert side.owned.splits == []
    assert side.trees == [{}]


def test_sums_are_of_the_smaller_child_alone(small_keys: KeyPair, begun: Begun) -> None:
    side = first_tree(begun, small_keys)
    side.follow([NodeDivided(1, 0, 0, np.packbits(np.arange(60) < 40).tobytes())])
    assert [node.number for node in side.asked] == [3]
    layout = begun[0].layout
    assert len(side.sums()) == layout.ciphertexts_for(2 * SMALL.max_bin) * begun[0].ciphertext_bytes


def test_an_answer_is_rerandomised_so_that_its_randomness_names_no_rows(small_keys: KeyPair, begun: Begun) -> None:
    """Without it an answer were the product of its rows' ciphertexts, which the label party can look up."""
    terms, _, derivatives = begun
    side = first_tree(begun, small_keys)
    sums = side.sums()
    modulus, engine = small_keys[0].n_squared, side._engine
    encrypted = from_bytes(derivatives, 60, 128)
    bins = side.owned.sampled_bins(np.arange(60), np.arange(2))
    prefixes = prefix_products(bin_products(encrypted, bins, 5, modulus, engine), 5, 4, modulus)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(engine), "rerandomisers", lambda self, n, count: [1] * count)
        bare = pack_sums(prefixes, np.full(8, 60), terms.layout, small_keys[0], engine)
    sent = from_bytes(sums, len(bare), 128)
    assert set(sent).isdisjoint(bare)
    assert engine.decrypt(small_keys[1], sent) == engine.decrypt(small_keys[1], bare)


def test_a_passive_party_that_sends_other_sums_reads_labels_from_the_split(small_keys: KeyPair) -> None:
    """Not prevented: eight candidates, one for each way to label three rows, of which the true one gains most."""
    public_key, _ = small_keys
    made = made_table(60, (0, 2))
    table = TreeTable((made.tables[0], np.zeros((60, 2))), made.labels)
    session = TreeSession(table, table.plan(replace(SMALL, n_estimators=1)), small_keys)
    side, layout, square = session.passive["fintech 1"], session.terms.layout, public_key.n_squared

    def lie(call: str, answer: Any) -> Any:
        if call != "sums" or [node.number for node in side.asked] != [1]:
            return answer
        sums = []
        for pattern in range(8):
            # Each g counts four times with its sign, h are known; g has an offset, so that its square grows with it.
            second = 20 * 1024 + pattern
            sums.append(pow(1 + public_key.n, (20 * 4096 << layout.second_bits) + second, square))
            for row in range(3):
                sign = 4 if pattern >> row & 1 else -4
                bare = side._ciphertexts[row] * pow(1 + public_key.n, -1024, square)
                sums[-1] = sums[-1] * pow(bare, sign, square) % square
        packed = pack_sums(sums, np.full(8, 60), layout, public_key, Engine())
        return to_bytes(packed, session.terms.ciphertext_bytes)

    asked: list[Candidate] = []

    def divide(node: NodeRows, candidate: Candidate, columns: IntArray, options: TreeOptions) -> BoolArray:
        asked.append(candidate)
        side.owned.splits.append(Split(0, 0.0, False))
        return np.resize([True, False], len(node.routed))

    session.lie = lie
    side.owned.divide = divide  # type: ignore[method-assign]
    session.train()
    pattern = asked[0].column * SMALL.max_bin + asked[0].bin
    assert [pattern >> row & 1 for row in range(3)] == (1 - table.labels[:3]).tolist()
    # One of them at each node, and no more: there is no next best to ask for.
    assert len(asked) == len(side.trees[0])


def test_a_label_party_that_sends_powers_of_two_reads_its_rows_bins(small_keys: KeyPair) -> None:
    """Not prevented: what it encrypts is its own. Each sum names as many rows as a slot has bits, but for two."""
    _, private_key = small_keys
    table = made_table(60, (0, 2))
    session = TreeSession(table, table.plan(SMALL), small_keys)
    side, layout, engine = session.passive["fintech 1"], session.terms.layout, Engine()
    chosen = layout.slot_bits - 2
    powers = [1 << row if row < chosen else 0 for row in range(60)]
    encrypted = to_bytes(engine.encrypt(private_key, powers), session.terms.ciphertext_bytes)
    side.begin(0, encrypted)
    packed = engine.decrypt(private_key, from_bytes(side.sums(), layout.ciphertexts_for(8), 128))
    mask = (1 << layout.slot_bits) - 1
    slots = [packed[index // layout.slots] >> index % layout.slots * layout.slot_bits & mask for index in range(8)]
    sums = [slot - layout.lift(60) for slot in slots]
    bins = side.owned.sampled_bins(np.arange(chosen), np.arange(2))
    for column in range(2):
        for bin_ in range(SMALL.max_bin):
            named = [sums[column * SMALL.max_bin + bin_] >> row & 1 for row in range(chosen)]
            np.testing.assert_array_equal(named, bins[:, column] <= bin_)
