"""The experiments of Hu, section 7."""
