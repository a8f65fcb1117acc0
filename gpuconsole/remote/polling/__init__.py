"""Where samples come from: the agent, `nvidia-smi`, the tools of other vendors."""
