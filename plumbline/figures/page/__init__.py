"""What pages of experiments are made of: drawings, tables, sections."""
