"""How far a long measurement is."""

from studies.simulation.rounds import told


def test_each_item_is_told_of_after_its_work() -> None:
    log: list[object] = []
    for item in told(["a", "b"], log.append):
        log.append(item)
    assert log == ["a", 0.5, "b", 1.0]
    assert not list(told([], log.append))
