"""How fast the console is, and the programs that this starts in terminals of their own."""
