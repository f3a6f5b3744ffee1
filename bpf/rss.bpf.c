// SPDX-License-Identifier: MIT OR Apache-2.0
/* rss: receive side scaling in software, with the Toeplitz hash of the devices that have it.
 *
 * In: a frame. Out: it goes to the CPU that the entry of its hash names, and is counted for the bucket of the entry. A frame
 * without a readable IP header is counted, and stays on this CPU.
 *
 * The input of the hash is that of corelane-packet (crates/packet/src/rss_input.rs): addresses, and ports of TCP and UDP if the
 * rule says so; only addresses of fragments, the first included, and behind an authentication header. The differences are
 * limits: more than two VLAN tags are not skipped, and behind more than six extension headers no ports are read.
 *
 * crates/link/src/software_rss holds the compiled programs; a test there compiles this file, where clang is present, and
 * compares.
 */
#include "abi.h"
#include "rss.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define INLINE static inline __attribute__((always_inline))
#define NETWORK(number) __builtin_bswap16(number)

#define MOST_TAGS 2
#define MOST_EXTENSIONS 6

/* Maps; the loader makes them, in this order (the numbers of their kinds stand in abi.h). */
struct { int (*type)[MAP_ARRAY_OF_MAPS]; } rules SECTION(".maps");
struct { int (*type)[MAP_PERCPU_ARRAY]; } counts SECTION(".maps");
struct { int (*type)[MAP_CPUMAP]; } cpus SECTION(".maps");
struct { int (*type)[MAP_PERCPU_ARRAY]; } arrived SECTION(".maps");

struct ethernet {
	u8 addresses[12];
	u16 type;
};

struct tag {
	u16 control;
	u16 type;
};

struct ipv4 {
	u8 version_and_words;
	u8 service;
	u16 total;
	u16 identification;
	u16 fragment;
	u8 hops;
	u8 protocol;
	u16 checksum;
	u8 addresses[8];
};

struct ipv6 {
	u8 version_and_class;
	u8 label[3];
	u16 payload;
	u8 next;
	u8 hops;
	u8 addresses[32];
};

/* Of a packet: what is hashed, and what may follow. */
struct packet {
	/* Addresses, then ports; zeros behind them. */
	u8 input[RSS_INPUT];
	/* Bytes of both addresses: 8 or 32. */
	u32 addresses;
	/* Offsets of the transport header, and of the end of the packet by its own length. */
	u32 upper;
	u32 end;
	u8 protocol;
	/* A fragment; one behind the first; one by its header alone, though it is whole (RFC 6946). */
	u8 part;
	u8 later;
	u8 atomic;
	u8 authenticated;
	/* An extension header is incomplete. */
	u8 cut;
};

/* Reads the bytes at an offset; false if the frame, or the packet around, ends before. */
#define READ(frame, at, limit, to) \
	((at) + sizeof(*(to)) <= (limit) && bpf_xdp_load_bytes(frame, at, to, sizeof(*(to))) == 0)

/* Whether a next header is an extension header of known length, as corelane-packet has it. */
INLINE int is_extension(u8 protocol)
{
	return protocol == 0 || protocol == 43 || protocol == 44 || protocol == 51 || protocol == 60 || protocol == 135 ||
	       protocol == 139 || protocol == 140;
}

/* Skips extension headers; of IPv4 only authentication headers. */
INLINE void walk(struct xdp_md *frame, u32 limit, int v6, struct packet *packet)
{
	u32 captured = packet->end < limit ? packet->end : limit;

#pragma nounroll
	for (int count = 0; count <= MOST_EXTENSIONS; count++) {
		u8 protocol = packet->protocol;
		u8 header[4] = {};
		u32 bytes;

		if (packet->later || !(v6 ? is_extension(protocol) : protocol == 51))
			return;
		if (count == MOST_EXTENSIONS || !READ(frame, packet->upper, limit, &header))
			break;
		bytes = protocol == 51 ? (header[1] + 2) * 4 : protocol == 44 ? 8 : (header[1] + 1) * 8;
		if (packet->upper + bytes > captured)
			break;
		if (protocol == 51)
			packet->authenticated = 1;
		if (protocol == 44 && !packet->part) {
			packet->atomic = 1;
			packet->later = header[2] != 0 || (header[3] & 0xf8) != 0;
			packet->part = packet->later || (header[3] & 1) != 0;
		}
		packet->protocol = header[0];
		packet->upper += bytes;
	}
	packet->cut = 1;
}

/* Whether an IPv4 packet starts at an offset. */
INLINE int ipv4(struct xdp_md *frame, u32 at, u32 limit, struct packet *packet)
{
	struct ipv4 header;
	u32 total, bytes;

	if (!READ(frame, at, limit, &header) || header.version_and_words >> 4 != 4)
		return 0;
	bytes = (header.version_and_words & 15) * 4;
	total = NETWORK(header.total);
	if (bytes < sizeof(header) || (total != 0 && total < bytes) || at + bytes > limit)
		return 0;
	__builtin_memcpy(packet->input, header.addresses, sizeof(header.addresses));
	packet->addresses = sizeof(header.addresses);
	packet->upper = at + bytes;
	/* Segmentation offload makes packets that are too long for the field. */
	packet->end = total == 0 ? limit : at + total;
	packet->protocol = header.protocol;
	packet->part = (NETWORK(header.fragment) & 0x3fff) != 0;
	packet->later = (NETWORK(header.fragment) & 0x1fff) != 0;
	walk(frame, limit, 0, packet);
	return 1;
}

/* Whether an IPv6 packet starts at an offset. */
INLINE int ipv6(struct xdp_md *frame, u32 at, u32 limit, struct packet *packet)
{
	struct ipv6 header;
	u32 payload;

	if (!READ(frame, at, limit, &header) || header.version_and_class >> 4 != 6)
		return 0;
	payload = NETWORK(header.payload);
	__builtin_memcpy(packet->input, header.addresses, sizeof(header.addresses));
	packet->addresses = sizeof(header.addresses);
	packet->upper = at + sizeof(header);
	/* A jumbogram (RFC 2675, section 3), or a packet that is too long for the field. */
	packet->end = packet->upper + payload;
	if (payload == 0 && (header.next == 0 || limit - packet->upper > 0xffff))
		packet->end = limit;
	packet->protocol = header.next;
	walk(frame, limit, 1, packet);
	return 1;
}

/* Whether an IP packet is in the Ethernet frame at an offset. */
INLINE int ethernet(struct xdp_md *frame, u32 at, u32 limit, struct packet *packet)
{
	struct ethernet header;
	u16 type;

	if (!READ(frame, at, limit, &header))
		return 0;
	at += sizeof(header);
	type = NETWORK(header.type);
#pragma nounroll
	for (int count = 0; count < MOST_TAGS; count++) {
		struct tag tag;

		if (type != 0x8100 && type != 0x88a8 && type != 0x9100)
			break;
		if (!READ(frame, at, limit, &tag))
			return 0;
		at += sizeof(tag);
		type = NETWORK(tag.type);
	}
	if (type == 0x0800)
		return ipv4(frame, at, limit, packet);
	return type == 0x86dd && ipv6(frame, at, limit, packet);
}

/* Reads the ports if the packet has any by its own length: TCP of 20 bytes, UDP of 8 (RFC 9293, RFC 768). */
INLINE int read_ports(struct xdp_md *frame, u32 limit, struct packet *packet, u8 (*ports)[4])
{
	u32 header = packet->protocol == 6 ? 20 : packet->protocol == 17 ? 8 : 0;

	return header != 0 && !packet->later && !packet->cut && packet->upper + header <= packet->end &&
	       READ(frame, packet->upper, limit, ports);
}

/* Finds the packet inside a tunnel: IP in IP, GRE, VXLAN, Geneve (the rules of crates/packet/src/tunnel.rs, but for MPLS in
 * GRE). The end of what is read becomes that of the tunnel. */
INLINE int inside(struct xdp_md *frame, u32 *end, struct packet *outer, struct packet *packet)
{
	u32 limit = *end, at = outer->upper;
	u16 type = 0x0800;
	u8 header[4];

	if (outer->part)
		return 0;
	if (limit > outer->end)
		limit = outer->end;
	if (outer->protocol == 47) {
		if (!READ(frame, at, limit, &header) || (header[0] & 0x4c) != 0 || (header[1] & 7) != 0)
			return 0;
		type = header[2] << 8 | header[3];
		at += 4 + ((header[0] >> 7) + (header[0] >> 5 & 1) + (header[0] >> 4 & 1)) * 4;
	} else if (outer->protocol == 17) {
		u8 ports[4], length[2];
		u16 to;

		if (!read_ports(frame, limit, outer, &ports) || !READ(frame, at + 4, limit, &length))
			return 0;
		to = ports[2] << 8 | ports[3];
		if (limit > at + (length[0] << 8 | length[1]))
			limit = at + (length[0] << 8 | length[1]);
		at += 8;
		if ((to != 4789 && to != 8472 && to != 6081) || !READ(frame, at, limit, &header))
			return 0;
		at += 8;
		if (to != 6081) {
			if ((header[0] & 8) == 0)
				return 0;
			type = 0x6558;
		} else {
			/* Neither another version, nor a control packet or critical options. */
			if (header[0] >> 6 != 0 || header[1] >> 6 != 0)
				return 0;
			type = header[2] << 8 | header[3];
			at += (header[0] & 0x3f) * 4;
		}
	} else if (outer->protocol != 4 && outer->protocol != 41) {
		return 0;
	}
	if (type != 0x6558 && type != 0x0800 && type != 0x86dd)
		return 0;
	*end = limit;
	if (type == 0x6558)
		return ethernet(frame, at, limit, packet);
	/* The IP header has its own version. */
	return ipv4(frame, at, limit, packet) || ipv6(frame, at, limit, packet);
}

INLINE void count(void *map, u32 place)
{
	u64 *counter = bpf_map_lookup_elem(map, &place);

	if (counter)
		++*counter;
}

SECTION("xdp")
int corelane_rss(struct xdp_md *frame)
{
	struct packet packet = {}, inner = {};
	u32 zero = 0, hash = 0, limit = bpf_xdp_get_buff_len(frame), end = limit;
	struct rss_rule *rule = bpf_map_lookup_elem(&rules, &zero);

	/* The rule is a map of one place in a map of one place: replacing it is one store. */
	if (rule)
		rule = bpf_map_lookup_elem(rule, &zero);
	if (!rule)
		return XDP_PASS;
	if (!ethernet(frame, 0, limit, &packet)) {
		count(&counts, RSS_NOT_HASHED);
		return XDP_PASS;
	}
	if ((rule->flags & RSS_INNER) && inside(frame, &end, &packet, &inner)) {
		packet = inner;
		limit = end;
	}
	if ((rule->flags & RSS_PORTS) && !packet.part && !packet.atomic && !packet.authenticated) {
		u8 ports[4];

		if (read_ports(frame, limit, &packet, &ports))
			__builtin_memcpy(packet.input + (packet.addresses == 8 ? 8 : 32), ports, sizeof(ports));
	}
#pragma unroll
	for (int place = 0; place < 12; place++)
		hash ^= rule->toeplitz[place][packet.input[place]];
	if (packet.addresses != 8) {
#pragma unroll
		for (int place = 12; place < RSS_INPUT; place++)
			hash ^= rule->toeplitz[place][packet.input[place]];
	}
	hash %= rule->size;
	if (hash >= RSS_ENTRIES)
		return XDP_PASS;
	hash = rule->entries[hash];
	count(&counts, hash & 0xffff);
	return (int)bpf_redirect_map(&cpus, hash >> 16, XDP_PASS);
}

/* On the CPU that a frame was sent to: what was sent and does not arrive found the queue of the CPU full. */
SECTION("xdp/cpumap")
int corelane_arrived(struct xdp_md *frame)
{
	count(&arrived, 0);
	return XDP_PASS;
}

char LICENSE[] SECTION("license") = "Dual MIT/GPL";
