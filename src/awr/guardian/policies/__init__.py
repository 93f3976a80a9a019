"""What decides, and by which rules: packs of Cedar policies, the facts they are given, and the engine around them."""
