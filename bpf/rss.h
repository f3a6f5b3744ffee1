/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What rss.bpf.c and its loader agree on: the layout of the rule, in the machine's byte order, and the places of the counts.
 * crates/link/src/software_rss/rule.rs repeats the numbers; a test there reads them here.
 */
#ifndef CORELANE_RSS_H
#define CORELANE_RSS_H

/* The longest input of the hash: two addresses of IPv6 and two ports. */
#define RSS_INPUT 36

/* The most entries of the indirection table, and buckets. */
#define RSS_ENTRIES 4096

/* Bits of `flags`: hash the ports of TCP and UDP; hash the inner packet of a tunnel. */
#define RSS_PORTS 1
#define RSS_INNER 2

/* How frames are steered. */
struct rss_rule {
	/* What byte `b` at place `n` of the input contributes to the hash. Places behind a shorter input hold zeros, which
	 * contribute nothing. */
	unsigned int toeplitz[RSS_INPUT][256];
	/* Entries of the table. */
	unsigned int size;
	unsigned int flags;
	/* The bucket of each entry in the lower half, its CPU in the upper half. */
	unsigned int entries[RSS_ENTRIES];
};

/* Places of the counts: of each bucket the frames sent to its CPU, then the frames that have no hash. */
#define RSS_NOT_HASHED RSS_ENTRIES
#define RSS_COUNTS (RSS_ENTRIES + 1)

#endif
