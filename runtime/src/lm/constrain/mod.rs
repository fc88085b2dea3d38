//! Which tokens may come next.
