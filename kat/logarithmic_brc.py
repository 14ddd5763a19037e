"""Second implementation of Logarithmic-BRC's covers, tokens and labels; writes `logarithmic_brc.json` beside itself.

Covers come from the definition (a node is taken whole if its values are in the range, else its halves are looked at),
labels from the module documentation, slow and plain, over the package `cryptography`:

    pip install cryptography && python3 kat/logarithmic_brc.py
"""

import hashlib
import hmac
import json
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


def aes(material, blocks):
    encryptor = Cipher(algorithms.AES(material), modes.ECB()).encryptor()
    return encryptor.update(blocks) + encryptor.finalize()


def derive(material, *path):
    info = b"".join(len(part).to_bytes(8, "big") + part for part in path)
    pseudorandom = hmac.digest(b"arras key tree 1", material, hashlib.sha256)
    return hmac.digest(pseudorandom, info + b"\x01", hashlib.sha256)


def cover(lower, upper, level, prefix=0):
    least, greatest = prefix << level, ((prefix + 1) << level) - 1
    if greatest < lower or upper < least:
        return []
    if lower <= least and greatest <= upper:
        return [[level, prefix]]
    return cover(lower, upper, level - 1, 2 * prefix) + cover(lower, upper, level - 1, 2 * prefix + 1)


def covers():
    ranges = [
        (8, 0, 255), (8, 1, 254), (8, 7, 7), (8, 128, 255), (8, 127, 128), (16, 1234, 54321), (32, 0, 0),
        (32, 0, 2**32 - 1), (32, 1, 2**32 - 2), (32, 123456789, 144931325), (64, 0, 2**64 - 1), (64, 1, 2**64 - 2),
        (64, 2**63 - 1, 2**63), (64, 2**64 - 1, 2**64 - 1),
    ]
    for bits, lower, upper in ranges:
        nodes = [[level, f"{prefix:x}"] for level, prefix in cover(lower, upper, bits)]
        yield {"name": f"{bits} bits, {lower:#x} to {upper:#x}", "lower": f"{lower:x}", "upper": f"{upper:x}",
               "nodes": nodes}


def labels():
    for name, level, prefix in [("a value", 0, 0xDEADBEEF), ("a node", 17, 0x1234), ("the root", 64, 0)]:
        index = hashlib.sha256(name.encode()).digest()
        instance = hashlib.sha256(b"instance " + name.encode()).digest()[:16]
        keyword = derive(index, b"logarithmic_brc keyword", b"")
        token = aes(derive(keyword, instance)[:16], bytes([level]) + bytes(7) + prefix.to_bytes(8, "big"))
        stream = aes(token, b"".join(counter.to_bytes(16, "little") for counter in range(4)))
        yield {"name": name, "index_key": index.hex(), "instance": instance.hex(), "level": level,
               "prefix": f"{prefix:x}", "token": token.hex(), "mask": stream[:16].hex(),
               "labels": [stream[at : at + 16].hex() for at in (16, 32, 48)],
               "masked_1000_records": 1000 ^ int.from_bytes(stream[:4], "little"),
               "bin_of_first_label_of_1000": int.from_bytes(stream[16:24], "big") * 1000 >> 64}


content = {"covers": list(covers()), "labels": list(labels())}
Path(__file__).with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
