/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What our programs and the kernel agree on, as linux/bpf.h has it: only what is used here, so that no kernel headers have to
 * be installed. crates/link/src/program.rs repeats the offsets and numbers.
 */
#ifndef CORELANE_ABI_H
#define CORELANE_ABI_H

#define SECTION(name) __attribute__((section(name), used))

/* struct xdp_md of linux/bpf.h: the fields up to the one we read. */
struct xdp_md {
	unsigned int data;
	unsigned int data_end;
	unsigned int data_meta;
	unsigned int ingress_ifindex;
	unsigned int rx_queue_index;
	unsigned int egress_ifindex;
};
_Static_assert(__builtin_offsetof(struct xdp_md, rx_queue_index) == 16, "linux/bpf.h: rx_queue_index");

/* enum xdp_action. */
#define XDP_PASS 2

/* The kinds of maps (enum bpf_map_type) that rss and key use. */
#define MAP_ARRAY 2
#define MAP_PROG_ARRAY 3
#define MAP_PERCPU_ARRAY 6
#define MAP_ARRAY_OF_MAPS 12
#define MAP_CPUMAP 16

/* struct __sk_buff of linux/bpf.h: the fields up to the last one we use. */
struct __sk_buff {
	unsigned int len;
	unsigned int pkt_type;
	unsigned int mark;
	unsigned int queue_mapping;
};
_Static_assert(__builtin_offsetof(struct __sk_buff, queue_mapping) == 12, "linux/bpf.h: queue_mapping");

/* enum tcx_action_base. */
#define TCX_NEXT (-1L)

/* The upper half of the marks of our sockets ("cl"), so that no mark of others is taken for one. */
#define OUR_MARK 0x636c0000

/* A map of AF_XDP sockets (BPF_MAP_TYPE_XSKMAP, 17), one place a queue; the loader gives it as many as the device has. */
struct xsk_map {
	int (*type)[17];
	unsigned int *key;
	unsigned int *value;
	int (*max_entries)[1];
};

/* BPF_FUNC_redirect_map, 51: the low bits of the flags are what is done where the map has nothing (Linux 5.3). */
static long (*const bpf_redirect_map)(void *map, unsigned long long key, unsigned long long flags) = (void *)51;

/* BPF_FUNC_map_lookup_elem, 1. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

/* BPF_FUNC_tail_call, 12: goes on with the program at a place, if there is one. BPF_FUNC_skb_load_bytes, 26: bytes of a packet;
 * an error beyond its end. */
static long (*const bpf_tail_call)(void *context, void *programs, unsigned int place) = (void *)12;
static long (*const bpf_skb_load_bytes)(const void *packet, unsigned int at, void *to, unsigned int bytes) = (void *)26;

/* BPF_FUNC_xdp_get_buff_len, 188, and BPF_FUNC_xdp_load_bytes, 189 (Linux 5.18): the length of a frame whose pages may be
 * several, and bytes of it; an error beyond its end. */
static unsigned long long (*const bpf_xdp_get_buff_len)(struct xdp_md *frame) = (void *)188;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *frame, unsigned int at, void *to, unsigned int bytes) = (void *)189;

#endif
