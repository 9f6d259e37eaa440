"""Charts as lists of marks: plain geometry that a page's templates draw as SVG and its style sheet colours."""
