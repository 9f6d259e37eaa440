"""The Bayesian adversary: what it knows beforehand is a prior, what a channel lets pass of the scores conditions it."""
