"""Who is drawn: the paper's attacks, and those that it lacks."""

from studies.jiang.inversion.inversion_setting import Contender, gradient_inversion
from studies.measurements import Choice

RANDOM, ESA, GRN = "random guess", "ESA", "GRN"
GIA, GIA_KLD, GIA_HALF = "GIA-MSE", "GIA-KLD", "GIA from 1/2"
CLAMPED, RCC2, HALF_STAR = "ESA, clamped", "RCC2", "half*"
RANGES, MOMENTS, COMPLETE = "Bayes, ranges", "Bayes, moments", "Bayes, 100 records"


def random_guess() -> Contender:
    """Guesses uniformly: the paper's yardstick."""
    return Contender(RANDOM, Choice.of("random_guess"))


def inversion(steps: int) -> Contender:
    """The paper's attack, with the squared distance."""
    return Contender(GIA, gradient_inversion(steps))


def on_linear_models(steps: int, draws: int) -> tuple[Contender, ...]:
    """Jiang's Figure 5, and solutions that start from one half (Rassouli), and Bayesian adversaries."""
    return (
        random_guess(),
        Contender(ESA, Choice.of("ls")),
        inversion(steps),
        Contender(GIA_KLD, gradient_inversion(steps, distance="kld")),
        Contender(CLAMPED, Choice.of("clamped_ls")),
        Contender(HALF_STAR, Choice.of("half_star")),
        Contender(RCC2, Choice.of("rcc2")),
        *bayesian(draws),
    )


def on_networks(steps: int, draws: int) -> tuple[Contender, ...]:
    """Jiang's Figure 7, gradient inversion from one half (Rassouli, Figure 14), and Bayesian adversaries."""
    return (
        random_guess(),
        Contender(GRN, Choice.of("grn")),
        inversion(steps),
        Contender(GIA_HALF, gradient_inversion(steps, init="half")),
        *bayesian(draws),
    )


def bayesian(draws: int) -> tuple[Contender, ...]:
    """The same Bayesian, who knows the ranges, the passive columns' moments, or a hundred complete records."""
    return (
        Contender(RANGES, Choice.of("posterior", prior="half", draws=draws), ours=True),
        Contender(MOMENTS, Choice.of("posterior", prior="covariance", draws=draws), ours=True, moments=True),
        Contender(COMPLETE, Choice.of("posterior", prior="imputation", draws=draws), ours=True, auxiliary=100),
    )
