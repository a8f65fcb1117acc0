"""What runs beside real Paddle, in a sandboxed child: copied there, not imported by the
console.

`python DIR/probe.py < request.json` writes JSON lines on its standard output: `progress` from 0
to 1 with a `stage`, then one `document` or one `error`. Whatever the script prints goes elsewhere;
its tail comes with the error. The files of this folder need the standard library (Python 3.7) and
Paddle (2.6 or 3.x), nothing of gpuconsole.
"""
