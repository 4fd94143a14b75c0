"""Programs that use applications through their public API; each prints what it found."""
