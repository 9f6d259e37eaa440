"""A network's first layer on shared weights: the label party sees sums of units, and nobody weights or gradients."""
