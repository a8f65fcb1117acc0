"""Sessions to work in: a shell on leased devices that outlives the terminal it is used from."""
