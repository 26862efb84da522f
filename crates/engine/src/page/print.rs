//! Programs, to be read: `rhythm check --print programs`, and what tests compare.
