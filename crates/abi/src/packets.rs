//! Messages over systems whose send carries a limited number of bytes.
