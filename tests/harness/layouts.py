"""Packing layouts for features that all have one fixed point."""

from dataclasses import replace

from vfl.crypto import FixedPoint, PackingLayout, layouts_for


def choose_layout(
    *,
    batch_size: int,
    features: int,
    classes: int,
    residual_format: FixedPoint,
    feature_format: FixedPoint,
    key_bits: int,
    reserved_bits: int = 0,
) -> PackingLayout:
    """The layout with the fewest modular products, which encodes real numbers in the features' fixed point."""
    layouts = layouts_for(
        [feature_format.columns(features)],
        batch_size=batch_size,
        classes=classes,
        residual_format=residual_format,
        key_bits=key_bits,
        reserved_bits=reserved_bits,
    )
    return replace(layouts[0], features=feature_format)
