#!/usr/bin/env python3
"""BISEN's labels and entries, and the keys that the enclave seals by, by a second implementation (docs/bisen.md). Writes `bisen.txt` and
`sealing_keys.txt` beside itself."""

import hashlib
import struct
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


def framed(*parts):
    return b"".join(struct.pack(">Q", len(part)) + part for part in parts)


def derive(root, *path):
    return HKDF(hashes.SHA256(), 32, b"arras key tree 1", framed(*path)).derive(root)


def aes(key, block):
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


def xor(one, other):
    return bytes(x ^ y for x, y in zip(one, other))


def number(value):
    return struct.pack("<I", value)[:3]


def entry(root, collection, salt, keyword, epoch, counter, operation, document, metadata):
    keyed = lambda purpose: derive(root, b"bisen", purpose, struct.pack(">I", collection))
    label_key, entry_keys = keyed(b"labels")[:16], keyed(b"entries")
    keyword_hash = hashlib.sha256(framed(b"arras bisen keyword", salt, keyword)).digest()[:16]
    stem = aes(label_key, keyword_hash)
    label = aes(label_key, xor(stem, struct.pack("<II", counter, epoch) + bytes(8)))
    block = struct.pack("<I", operation << 30 | document) + b"".join(map(number, metadata))
    tag = aes(entry_keys[:16], xor(aes(entry_keys[:16], label), block))
    body = xor(block, aes(entry_keys[16:], tag))
    return keyword_hash, label + body + tag


def sealing_keys(processor, authority, administrator):
    sealing = derive(processor + bytes(16), b"gramine")
    owner = derive(sealing, b"bisen", b"owner", authority, administrator)
    return sealing, derive(sealing, b"bisen", b"state"), owner


def write_sealing_keys():
    lines = [
        "# The enclave's keys, from the one of 16 bytes that a processor has for it under Gramine: the sealing key, which an ordinary",
        "# process has in a file; that of the state; the root of the collections' keys, of an authority (its digest) and an administrator.",
        "# Made by bisen.py, a second implementation.",
        "",
    ]
    cases = [(bytes(range(16)), hashlib.sha256(b"an authority").digest(), b"ada"), (hashlib.sha256(b"processor").digest()[:16], bytes(range(32)), b"administrator")]
    for processor, authority, administrator in cases:
        sealing, state, owner = sealing_keys(processor, authority, administrator)
        fields = {
            "processor": processor, "sealing": sealing, "state": state,
            "authority": authority, "administrator": administrator, "owner": owner,
        }
        lines += [f"{name}: {value.hex()}" for name, value in fields.items()] + [""]
    Path(__file__).with_name("sealing_keys.txt").write_text("\n".join(lines))


def main():
    write_sealing_keys()
    lines = ["# BISEN's entries: label, body, tag.", "# Made by bisen.py, a second implementation.", ""]
    root, salt = hashlib.sha256(b"bisen root").digest(), hashlib.sha256(b"bisen salt").digest()[:16]
    nowhere = 0xFFFFFF
    cases = [
        (0, b"whale", 0, 0, 1, 0, (1, 7, nowhere, nowhere)),
        (0, b"whale", 0, 1, 1, 12345, (9, 1, 2, 3)),
        (0, b"whale", 0, 2, 2, 12345, (4, 5, 600000, nowhere)),
        (0, "café".encode(), 3, 2**32 - 1, 3, 2**30 - 1, (0, 0, 0, 0)),
        (63, b"w", 2**32 - 1, 77, 1, 1, (1, 0, nowhere, nowhere)),
    ]
    for collection, keyword, epoch, counter, operation, document, metadata in cases:
        keyword_hash, stored = entry(root, collection, salt, keyword, epoch, counter, operation, document, metadata)
        fields = {
            "root": root.hex(), "collection": collection, "salt": salt.hex(), "keyword": keyword.hex(),
            "hash": keyword_hash.hex(), "epoch": epoch, "counter": counter, "operation": operation,
            "document": document, "metadata": b"".join(map(number, metadata)).hex(), "stored": stored.hex(),
        }
        lines += [f"{name}: {value}" for name, value in fields.items()] + [""]
    Path(__file__).with_name("bisen.txt").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
