//! What this machine is, what would spoil a measurement on it, and the network namespaces tests run in.
