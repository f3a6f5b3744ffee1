/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What key.bpf.c and its loader agree on, in the machine's byte order. crates/link/src/key_steering repeats it. */
#ifndef CORELANE_KEY_H
#define CORELANE_KEY_H

/* The longest key of memcached. */
#define KEY_LONGEST 250

/* Who owns keys. */
struct key_rule {
	/* Of the hash. */
	unsigned long long seed;
	/* Number of workers, at least 1. */
	unsigned long long partitions;
};

#endif
