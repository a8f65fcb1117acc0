"""What commands show a person on a plain terminal: tables and plots."""
