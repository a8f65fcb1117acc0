"""The operators of Paddle's eager mode: what each call makes, keeps and frees."""
