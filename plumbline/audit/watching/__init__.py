"""An auditor beside a running federation: judges it once, and shows pages of it."""
