"""The store's own rules, without a store."""
