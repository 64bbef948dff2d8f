"""What the tokens of a layer see: one class a pattern, see `layers.self_attention`."""
