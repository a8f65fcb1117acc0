"""All containers of every host, not only gpuconsole's: listed, their logs read, commands run in
them."""
