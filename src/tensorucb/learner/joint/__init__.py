"""The posterior that is joint over ranks."""
