"""Channels: what a defence lets pass of scores and parameters, as both sides know it (Kerckhoffs).

A defence declares its channel, and an adversary's view carries those of its session, so that neither needs code for the
other. Channels are public: what a defence draws in secret is no part of them, and two seeds give equal channels.

Channels of scores apply to the federation's confidence scores softmax(z) one after the other, in the session's order.
Each says itself what who knows it can conclude (``ScoreChannel``): a likelihood of ``vfl.channels.likelihoods`` or of
its own.
"""

from vfl.channels.base import ChannelError, Delivered, RepeatableChannel, ScoreChannel
from vfl.channels.likelihoods import Likelihood
from vfl.channels.parameters import Distorted, ParameterChannel
from vfl.channels.scores import Decision, Noise, Purifier, Rounding, StrongestDirection, Temperature, Undeclared

__all__ = [
    "ChannelError",
    "Decision",
    "Delivered",
    "Distorted",
    "Likelihood",
    "Noise",
    "ParameterChannel",
    "Purifier",
    "RepeatableChannel",
    "Rounding",
    "ScoreChannel",
    "StrongestDirection",
    "Temperature",
    "Undeclared",
]
