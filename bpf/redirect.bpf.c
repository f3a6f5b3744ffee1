// SPDX-License-Identifier: MIT OR Apache-2.0
/* redirect: hands each frame to the AF_XDP socket of the queue it arrived on.
 *
 * In: a frame on receive queue q. Out: the socket at place q of the map has it; a queue without a socket leaves its frames to
 * the kernel (XDP_PASS).
 *
 * crates/link/src/program.rs holds the same instructions, so that nobody needs clang to open a link; a test there
 * compiles this file, where clang is present, and compares.
 */
#include "abi.h"

struct xsk_map sockets SECTION(".maps");

SECTION("xdp")
int corelane_redirect(struct xdp_md *frame)
{
	return (int)bpf_redirect_map(&sockets, frame->rx_queue_index, XDP_PASS);
}

char LICENSE[] SECTION("license") = "Dual MIT/GPL";
