"""What ``plumbline figures`` does: it runs a study section by section, and leads to all pages."""
