"""How templates read, judge, refuse and stay within their bounds."""
