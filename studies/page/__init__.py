"""The parts of pages of experiments: drawings, tables, sections."""
