"""From a file to a syntax tree, and from what stays unknown to questions."""
