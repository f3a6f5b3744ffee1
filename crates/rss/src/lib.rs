//! Receive side scaling as arithmetic: keys, tuples, Toeplitz hashes, indirection tables, plans and socket steering programs.
