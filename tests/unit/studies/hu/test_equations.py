"""Whether equations determine f: their rank, and planted shares."""

import numpy as np
import pandas as pd

from studies.hu.equations import auxiliary_plan, equation_facts, fact_words, rank_and_condition
from studies.page.elements import number_words
from vfl.learning import BatchSchedule


def test_equations_of_rank_below_the_rows_recover_nothing_and_random_features_do() -> None:
    features = np.rint(np.random.default_rng(0).uniform(0, 1, (64, 20)) * 2**16) / 2**16
    features[:, 6:] = 0.0
    schedule = BatchSchedule(np.arange(64), 16, 0)
    alone = equation_facts(features, schedule, used_copies=1)
    assert (alone.rank_low, alone.rank_high, alone.recovered, alone.error) == (6, 6, 0, None)
    extended = equation_facts(features, schedule, used_copies=2)
    assert (extended.rank_low, extended.recovered, extended.equations, extended.fits) == (16, 3, 40, True)
    assert extended.error is not None
    assert extended.error < 1e-9
    plan = auxiliary_plan(features, 16, None)
    assert plan.copies == 31
    rank, condition = rank_and_condition(features, next(schedule.epoch(0)), plan, 0)
    assert rank == 16
    assert 1 < condition < 1e3
    assert not equation_facts(features * 2**12, schedule, used_copies=31).fits
    assert auxiliary_plan(features * 2**12, 16, None).copies < 31
    words = fact_words(pd.Series(vars(alone)))
    said = number_words(alone.condition or 0)
    assert words == (f"Batch 16: 20 equations of rank 6, condition number up to {said}, f recovered on 0 of 3 batches.")
