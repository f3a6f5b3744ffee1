// SPDX-License-Identifier: MIT OR Apache-2.0
/* queue: sends each marked packet on the transmit queue that its mark names.
 *
 * In: a packet that leaves. Out: if the upper half of its mark is ours, the lower half as its recorded queue, counted from 1:
 * the kernel sends it there unless XPS or the driver chooses. Any other packet is unchanged. The next program runs in any case.
 *
 * crates/link/src/program.rs holds the same instructions, and compares them as for redirect.
 */
#include "abi.h"

SECTION("tcx/egress")
long corelane_queue(struct __sk_buff *packet)
{
	unsigned int queue = packet->mark ^ OUR_MARK;

	if (queue <= 0xffff)
		packet->queue_mapping = queue;
	return TCX_NEXT;
}

char LICENSE[] SECTION("license") = "Dual MIT/GPL";
