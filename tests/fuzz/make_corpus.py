#!/usr/bin/env python3
"""Writes the corpus of fuzz_tcp_connection: one file for each kind of frame and each way to get one wrong.

The layout is that of src/fabric/tcp/wire.hpp and handshake.hpp. Run it after changing either.
"""
import pathlib
import struct

folder = pathlib.Path(__file__).parent / "corpus" / "tcp_connection"
PUT, GET, ATOMIC, DONE, DATA, VALUE, MESSAGE, REGION, FAREWELL = range(1, 10)


def frame(kind, payload=b"", operation=0, offset=0, region=1, argument=0, magic=0x4372, reserved=0, length=None):
    length = len(payload) if length is None else length
    return struct.pack("<HBBIQQII", magic, kind, reserved, length, operation, offset, region, argument) + payload


def operation(index):
    return 1 << 32 | index


def hello(magic=0x43524154, version=1, size=3, connector=1, acceptor=0):
    return struct.pack("<6I", magic, version, size, connector, acceptor, 0) + bytes(32)


frames = {
    "put": frame(PUT, b"x" * 100, offset=5),
    "put_word": frame(PUT, b"12345678", offset=64),
    "put_large": frame(PUT, b"y" * 9000, offset=1),
    "put_outside": frame(PUT, b"x" * 100, offset=69_950),
    "put_wrapping": frame(PUT, b"x" * 100, offset=2**64 - 50),
    "put_unknown_region": frame(PUT, b"x", region=4095),
    "put_region_out_of_range": frame(PUT, b"x", region=2**32 - 1),
    "put_large_outside": frame(PUT, b"y" * 9000, offset=65_000),
    "get": frame(GET, argument=4096),
    "get_word": frame(GET, argument=8, offset=16),
    "get_chunk_outside": frame(GET, argument=256 * 1024),
    "get_too_large": frame(GET, argument=2**32 - 1),
    "atomic_add": frame(ATOMIC, struct.pack("<QQ", 1, 0), offset=8, argument=1),
    "atomic_compare": frame(ATOMIC, struct.pack("<QQ", 0, 7), offset=8, argument=0),
    "atomic_swap_outside": frame(ATOMIC, struct.pack("<QQ", 1, 0), offset=70_000, argument=2),
    "atomic_unaligned": frame(ATOMIC, struct.pack("<QQ", 1, 0), offset=9, argument=1),
    "atomic_unknown": frame(ATOMIC, struct.pack("<QQ", 1, 0), offset=8, argument=9),
    "message": frame(MESSAGE, b"hello", argument=20),
    "messages": frame(MESSAGE, b"a", argument=20) + frame(MESSAGE, b"bc" * 50, argument=20) + frame(MESSAGE, argument=20),
    "message_oversized": frame(MESSAGE, b"", argument=20, length=4097),
    "message_bad_handler": frame(MESSAGE, b"x", argument=256),
    "length_4_gib": frame(PUT, b"x" * 40, length=2**32 - 1),
    "region": frame(REGION, offset=4096, region=7),
    "region_bad": frame(REGION, offset=4096, region=4096),
    "farewell": frame(FAREWELL) + frame(MESSAGE, b"after", argument=20),
    "unknown_kind": frame(77),
    "no_magic": frame(PUT, b"x", magic=0),
    "reserved_set": frame(PUT, b"x", reserved=1),
    "truncated_header": frame(GET, argument=8)[:17],
    "truncated_payload": frame(PUT, b"x" * 100)[:60],
    "answers": frame(DATA, b"d" * 100, operation=operation(0)) + frame(DONE, operation=operation(1))
    + frame(VALUE, operation=operation(2), offset=41) + frame(DATA, b"e" * 8000, operation=operation(4)),
    "answer_twice": frame(DONE, operation=operation(1)) * 2,
    "answer_of_wrong_kind": frame(DONE, operation=operation(0)),
    "answer_of_wrong_size": frame(DATA, b"d" * 99, operation=operation(0)),
    "answer_unknown": frame(DONE, operation=operation(4000)),
    "answer_old_generation": frame(DONE, operation=1),
}
greetings = {
    "hello": hello() + bytes(32),
    "hello_other_order": hello(magic=0x54415243),
    "hello_other_version": hello(version=2),
    "hello_other_size": hello(size=4),
    "hello_own_rank": hello(connector=0),
    "hello_rank_out_of_range": hello(connector=2**32 - 1),
    "hello_other_acceptor": hello(acceptor=2),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3,
    "zeros": bytes(200),
    "short": b"C",
}

folder.mkdir(parents=True, exist_ok=True)
for name, content in frames.items():
    (folder / f"frame_{name}").write_bytes(bytes([1, 0]) + content)
    (folder / f"frame_{name}_in_pieces").write_bytes(bytes([3, 13]) + content)
for name, content in greetings.items():
    (folder / f"greeting_{name}").write_bytes(bytes([0, 0]) + content)
(folder / "challenge_zeros").write_bytes(bytes([2, 0]) + bytes(64))
print(f"{len(list(folder.iterdir()))} inputs in {folder}")
