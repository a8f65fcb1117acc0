"""The agent: the files that run on a host, sent down the link and never written there.

Standard library only, Python 3.6 and later, plus the `pynvml` module that is sent along.
`payload` (for the console's side) lives in `gpuconsole.remote.polling.agent_launch`.
"""
