"""The page: a terminal, and nothing from elsewhere."""

from __future__ import annotations

from html import escape
from string import Template

POLICY = "; ".join((
    "default-src 'none'",
    "script-src 'self'",
    # The terminal sets the places of its letters as styles.
    "style-src 'self' 'unsafe-inline'",
    "font-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self' ws://$host wss://$host",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
))  # fmt: skip
_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>gpuconsole</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/css/xterm.css">
<script src="/static/js/textual.js"></script>
<script src="/focus.js"></script>
<style>
@font-face { font-family: "Roboto Mono"; src: local("DejaVu Sans Mono"), local("Menlo"),
  local("Consolas"), url("/static/fonts/RobotoMono-VariableFont_wght.ttf"); }
html, body { margin: 0; height: 100%; background: #0f131a; color: #d5dae4; overflow: hidden; }
.textual-terminal { height: 100vh; opacity: 0; }
body.-first-byte .textual-terminal { opacity: 1; }
.note { position: absolute; inset: 0; display: flex; align-items: center; justify-content: center;
  font: 16px monospace; text-align: center; }
body.-first-byte .note { display: none; }
.closed { display: none; background: #0f131a; z-index: 10; }
body.-closed .closed { display: flex; }
a { color: #e6c35c; }
</style>
</head>
<body>
<div class="note">gpuconsole is starting</div>
<div class="note closed">The console has closed.&nbsp;<a href="/">Open it again</a></div>
<div id="terminal" class="textual-terminal" data-font-size="$size"
  data-session-websocket-url="$scheme://$host/ws"></div>
</body>
</html>
""")


FOCUS = """// Keys go to the terminal at once, without a click.
const looking = setInterval(() => {
  const field = document.querySelector(".xterm-helper-textarea");
  if (field) { field.focus(); clearInterval(looking); }
}, 50);
"""


def page(host: str, *, secure: bool, size: int = 14) -> str:
    """Return the page for a browser that knows us as `host`, a name that has been checked."""
    scheme = "wss" if secure else "ws"
    return _PAGE.substitute(host=escape(host, quote=True), scheme=scheme, size=size)


def headers(host: str) -> dict[str, str]:
    """Return what every answer says beside its content."""
    return {
        "Content-Security-Policy": Template(POLICY).substitute(host=host),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
