//! Which tokens mean something special.
