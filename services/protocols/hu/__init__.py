"""Hu's protocols: who decrypts sends masked sums back (Protocol 1), of linear learners and behind a forwarded layer."""
