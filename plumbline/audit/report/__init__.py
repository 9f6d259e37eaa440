"""``report.html``: one self-contained page per run, its answer first; it loads nothing and needs no script."""

from plumbline.audit.report.rendering import write_report

__all__ = ["write_report"]
