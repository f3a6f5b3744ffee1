// SPDX-License-Identifier: MIT OR Apache-2.0
/* key: selects the socket of the worker that owns the key of a memcached request.
 *
 * In: a datagram to a group of SO_REUSEPORT sockets, from its payload on: 8 bytes of frame header, then text. Out: the index of
 * the socket: the owner of the first key, by XXH64 as in crates/store/src/hash.rs. Where the first line has no key that is
 * readable here (other commands, a key of more than 250 bytes, more than 32 bytes before it), the program of `otherwise` goes on,
 * which selects as if this one were not there. A key in base64 (flag b of meta commands) is hashed as it stands.
 *
 * Linux 5.3: loops. crates/link/src/key_steering holds the compiled program; a test there compiles this file, where clang is
 * present, and compares.
 */
#include "abi.h"
#include "key.h"

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define INLINE static inline __attribute__((always_inline))

/* The primes of XXH64 (xxhash_spec.md). */
#define PRIME_1 0x9E3779B185EBCA87ULL
#define PRIME_2 0xC2B2AE3D27D4EB4FULL
#define PRIME_3 0x165667B19E3779F9ULL
#define PRIME_4 0x85EBCA77C2B2AE63ULL
#define PRIME_5 0x27D4EB2F165667C5ULL

/* The frame header of memcached over UDP. */
#define FRAME 8

/* Bytes of the text within which the key starts. */
#define HEAD 32

/* A byte that ends the key, such as the first of the line's end, follows the longest. */
#define KEY_ROOM (KEY_LONGEST + 6)

/* The first bytes of a text as a number, on little-endian machines. */
#define BYTE(text, at) ((u64)(u8)(text)[at] << 8 * (at))
#define WORD_3(text) (BYTE(text, 0) | BYTE(text, 1) | BYTE(text, 2))
#define WORD_4(text) (WORD_3(text) | BYTE(text, 3))
#define WORD_5(text) (WORD_4(text) | BYTE(text, 4))
#define WORD_6(text) (WORD_5(text) | BYTE(text, 5))
#define WORD_7(text) (WORD_6(text) | BYTE(text, 6))
#define WORD_8(text) (WORD_7(text) | BYTE(text, 7))
#define FIRST(word, bytes) ((word) & ~0ULL >> (64 - 8 * (bytes)))

/* Maps; the loader makes them, in this order. */
struct { int (*type)[MAP_ARRAY]; } rule SECTION(".maps");
struct { int (*type)[MAP_PROG_ARRAY]; } otherwise SECTION(".maps");

INLINE u64 rotate(u64 word, u32 bits)
{
	return word << bits | word >> (64 - bits);
}

INLINE u64 round(u64 sum, u64 lane)
{
	return rotate(sum + lane * PRIME_2, 31) * PRIME_1;
}

INLINE u64 merge(u64 hash, u64 sum)
{
	return (hash ^ round(0, sum)) * PRIME_1 + PRIME_4;
}

/* Whether one of eight bytes is a blank or a control character. */
INLINE int ends(u64 bytes)
{
	return ((bytes - 0x2121212121212121ULL) & ~bytes & 0x8080808080808080ULL) != 0;
}

/* The length of the key in a buffer, of which the rest is zero. */
INLINE u64 length_of(const u64 *lanes)
{
	const u8 *bytes = (const u8 *)lanes;
	u64 length = 0;

#pragma nounroll
	while (length < KEY_ROOM - 8 && !ends(lanes[length / 8]))
		length += 8;
#pragma nounroll
	while (length < KEY_ROOM && bytes[length] > ' ')
		length++;
	return length;
}

/* XXH64 of the first bytes of a buffer. */
INLINE u64 hash_of(const u64 *lanes, u64 length, u64 seed)
{
	const u8 *bytes = (const u8 *)lanes;
	u64 hash = seed + PRIME_5;
	u64 at = 0;

	if (length >= 32) {
		u64 a = seed + PRIME_1 + PRIME_2, b = seed + PRIME_2, c = seed, d = seed - PRIME_1;

#pragma nounroll
		for (; at + 32 <= length; at += 32) {
			a = round(a, lanes[at / 8]);
			b = round(b, lanes[at / 8 + 1]);
			c = round(c, lanes[at / 8 + 2]);
			d = round(d, lanes[at / 8 + 3]);
		}
		hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
		hash = merge(merge(merge(merge(hash, a), b), c), d);
	}
	hash += length;
#pragma nounroll
	for (; at + 8 <= length; at += 8)
		hash = rotate(hash ^ round(0, lanes[at / 8]), 27) * PRIME_1 + PRIME_4;
	if (at + 4 <= length) {
		hash = rotate(hash ^ *(const u32 *)(bytes + at) * PRIME_1, 23) * PRIME_2 + PRIME_3;
		at += 4;
	}
#pragma nounroll
	for (; at < length; at++)
		hash = rotate(hash ^ bytes[at] * PRIME_5, 11) * PRIME_1;
	hash = (hash ^ hash >> 33) * PRIME_2;
	hash = (hash ^ hash >> 29) * PRIME_3;
	return hash ^ hash >> 32;
}

/* Bytes of the command at the start of a text, with the blank behind it; 0 if it has no key. `skips`: a time precedes the key. */
INLINE u64 command(u64 text, int *skips)
{
	u64 three = FIRST(text, 3), four = FIRST(text, 4), five = FIRST(text, 5), seven = FIRST(text, 7);

	*skips = four == WORD_4("gat ") || five == WORD_5("gats ");
	if (three == WORD_3("mg ") || three == WORD_3("ms ") || three == WORD_3("md ") || three == WORD_3("ma ") ||
	    three == WORD_3("me "))
		return 3;
	if (four == WORD_4("get ") || four == WORD_4("gat ") || four == WORD_4("set ") || four == WORD_4("add ") ||
	    four == WORD_4("cas "))
		return 4;
	if (five == WORD_5("gets ") || five == WORD_5("gats ") || five == WORD_5("incr ") || five == WORD_5("decr "))
		return 5;
	if (FIRST(text, 6) == WORD_6("touch "))
		return 6;
	if (seven == WORD_7("delete ") || seven == WORD_7("append "))
		return 7;
	return text == WORD_8("replace ") || text == WORD_8("prepend ") ? 8 : 0;
}

/* Where the key starts in a text; 0 if that is not within its first bytes. */
INLINE u64 start_of(const u64 *head)
{
	const u8 *text = (const u8 *)head;
	int skips = 0;
	u64 at = command(head[0], &skips);

	if (at == 0)
		return 0;
#pragma nounroll
	while (at < HEAD && text[at] == ' ')
		at++;
	if (skips) {
#pragma nounroll
		while (at < HEAD && text[at] > ' ')
			at++;
#pragma nounroll
		while (at < HEAD && text[at] == ' ')
			at++;
	}
	return at < HEAD ? at : 0;
}

/* The hash of the first key of a datagram; false if it has none that is readable. */
INLINE int hash_key(struct __sk_buff *packet, u64 seed, u64 *hash)
{
	u64 lanes[KEY_ROOM / 8] = {};
	/* Of 64 bits, which the verifier follows better. */
	u64 start, length, bytes = packet->len;

	if (bytes <= FRAME || bytes > 0xffff)
		return 0;
	bytes -= FRAME;
	if (bpf_skb_load_bytes(packet, FRAME, lanes, bytes < HEAD ? bytes : HEAD) != 0)
		return 0;
	start = start_of(lanes);
	if (start == 0 || start >= bytes)
		return 0;
	bytes -= start;
	__builtin_memset(lanes, 0, HEAD);
	if (bpf_skb_load_bytes(packet, FRAME + start, lanes, bytes < KEY_ROOM ? bytes : KEY_ROOM) != 0)
		return 0;
	length = length_of(lanes);
	if (length == 0 || length > KEY_LONGEST)
		return 0;
	*hash = hash_of(lanes, length, seed);
	return 1;
}

SECTION("socket")
long corelane_key(struct __sk_buff *packet)
{
	u32 first = 0;
	struct key_rule *known = bpf_map_lookup_elem(&rule, &first);
	u64 hash;

	if (known && hash_key(packet, known->seed, &hash))
		return (hash >> 32) * known->partitions >> 32;
	bpf_tail_call(packet, &otherwise, 0);
	return 0;
}

char LICENSE[] SECTION("license") = "Dual MIT/GPL";
