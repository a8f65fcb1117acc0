"""`paddle.nn`: layers and the functions behind them."""
