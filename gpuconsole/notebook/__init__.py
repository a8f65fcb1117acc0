"""The magics of a notebook, `%load_ext gpuconsole`: the commands' words, drawn as HTML."""
