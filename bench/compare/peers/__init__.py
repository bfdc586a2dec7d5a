"""What runs inside the peers' own environment; nothing of Redrive is imported here, and none of this by Redrive."""
