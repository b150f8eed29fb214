"""Translation to and from other libraries: one file each, no mathematics, imported only when it is used."""
