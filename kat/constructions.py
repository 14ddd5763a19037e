"""Second implementation of the constructions of shared/primitives that no standard gives vectors for.

Writes the files `prg_stream.txt`, `token_tree.txt`, `garbled_comparator.txt`, `symmetric_records.txt` and `bound_block.txt` beside itself. Written from the
module documentation, straightforward and slow, over the package `cryptography`:

    pip install cryptography && python3 kat/constructions.py
"""

import hashlib
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

HERE = Path(__file__).parent
MASK64 = (1 << 64) - 1


def aes(key, block):
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(block) + encryptor.finalize()


def number(block):
    return int.from_bytes(block, "little")


def block(value):
    return value.to_bytes(16, "little")


def uniform(name, length=16):
    return hashlib.sha256(name.encode()).digest()[:length]


def stream(seed, length):
    blocks = b"".join(aes(seed, block(counter)) for counter in range(length // 16 + 1))
    return blocks[:length]


def write(file, header, cases, by="constructions.py"):
    lines = [f"# {header}", f"# Made by {by}, a second implementation."]
    for case in cases:
        lines.append("")
        for field, value in case:
            text = value.hex() if isinstance(value, bytes) else str(value)
            lines.append(f"{field}: {text}".rstrip())
    (HERE / file).write_text("\n".join(lines) + "\n")


def leaf(root, height, counter):
    for level in reversed(range(height)):
        root = aes(root, block((counter >> level) & 1))
    return root


def token_tree():
    cases = []
    for height, counter in [(0, 0), (1, 1), (4, 5), (10, 700), (32, 0), (32, 3_000_000_000), (32, (1 << 32) - 1)]:
        root = uniform(f"root {height}")
        node = leaf(root, height, counter)
        cases.append([
            ("name", f"leaf {counter} of a tree of {height} levels"),
            ("root", root), ("height", height), ("counter", counter),
            ("leaf", node), ("label", aes(node, block(2))), ("mask", aes(node, block(3))),
        ])
    write("token_tree.txt", "Token tree (ggm): leaf, its label and its mask.", cases)


def sigma(value):
    left, right = value >> 64, value & MASK64
    return ((left ^ right) << 64) | left


def garbling_hash(nonce, label, tweak):
    return number(aes(nonce, block(sigma(label) ^ tweak))) ^ sigma(label)


def garble(delta, nonce, labels, carry, threshold):
    """Half-gates of ZRE15, figure 2, for (a xor alpha) AND (c xor beta), the output xor gamma."""
    gates = b""
    for index, label in enumerate(labels):
        v = (threshold >> index) & 1
        alpha, beta, gamma = (0, 1, 1) if v else (1, 0, 0)
        a0 = label ^ (delta if alpha else 0)
        c0 = carry ^ (delta if beta else 0)
        hash_a0 = garbling_hash(nonce, a0, 2 * index)
        hash_a1 = garbling_hash(nonce, a0 ^ delta, 2 * index)
        hash_c0 = garbling_hash(nonce, c0, 2 * index + 1)
        hash_c1 = garbling_hash(nonce, c0 ^ delta, 2 * index + 1)
        generator = hash_a0 ^ hash_a1 ^ (delta if c0 & 1 else 0)
        evaluator = hash_c0 ^ hash_c1 ^ a0
        output = hash_a0 ^ (generator if a0 & 1 else 0)
        output ^= hash_c0 ^ ((evaluator ^ a0) if c0 & 1 else 0)
        carry = output ^ (delta if gamma else 0)
        gates += block(generator) + block(evaluator)
    return gates, carry


def garbled_comparator():
    cases = []
    for width in (1, 2, 4, 8, 16):
        material, nonce = uniform(f"material {width}"), uniform(f"nonce {width}")
        delta = block(number(uniform(f"delta {width}")) | 1)
        threshold = uniform(f"threshold {width}", width)
        made = stream(aes(material, nonce), 16 * (8 * width + 1))
        zeros = [number(made[i : i + 16]) for i in range(0, len(made), 16)]
        labels, carry = zeros[:-1], zeros[-1]
        gates, outcome = garble(number(delta), nonce, labels, carry, int.from_bytes(threshold, "big"))
        seed = block(garbling_hash(nonce, outcome, 1 << 63))
        child = stream(aes(material, uniform(f"child {width}")), 128 * width)
        pad = number(stream(seed, 128 * width))
        own = number(b"".join(block(label) for label in labels))
        rows = (pad ^ own ^ number(child)).to_bytes(128 * width, "little")
        cases.append([
            ("name", f"{8 * width} bits"),
            ("material", material), ("nonce", nonce), ("delta", delta), ("threshold", threshold),
            ("carry", block(carry)), ("outcome", block(outcome)),
            ("gates_sha256", hashlib.sha256(gates).digest()), ("first_gate", gates[:32]), ("last_gate", gates[-32:]),
            ("child_nonce", uniform(f"child {width}")), ("right_rows_sha256", hashlib.sha256(rows).digest()),
        ])
    write("garbled_comparator.txt", "Garbled comparator (garble): labels, gates and the transition right.", cases)


def prg_stream():
    cases = []
    for length in (1, 16, 33, 1000):
        seed = uniform(f"seed {length}")
        cases.append([
            ("name", f"{length} bytes"), ("seed", seed), ("length", length),
            ("stream_sha256", hashlib.sha256(stream(seed, length)).digest()), ("first", stream(seed, min(length, 32))),
        ])
    write("prg_stream.txt", "Pseudorandom generator (prg): AES-128 of little-endian counters.", cases)


def sealed_record(material, associated, nonce, plaintext):
    """Counter mode, then CBC-MAC of length, associated data, nonce, ciphertext filled with zeros."""
    start = number(nonce)
    pad = b"".join(aes(material[:16], block((start + at) % (1 << 128))) for at in range(len(plaintext) // 16 + 1))
    ciphertext = bytes(left ^ right for left, right in zip(plaintext, pad))
    authenticated = block(len(plaintext)) + associated + nonce + ciphertext
    authenticated += bytes(-len(authenticated) % 16)
    encryptor = Cipher(algorithms.AES(material[16:]), modes.CBC(bytes(16))).encryptor()
    return nonce + ciphertext + encryptor.update(authenticated)[-16:]


def symmetric_records():
    cases = []
    for length in (1, 8, 16, 33):
        material, associated = uniform(f"record material {length}", 32), uniform(f"record associated {length}")
        plaintexts = [uniform(f"record {length} {at}", 32)[:length].ljust(length, b"+") for at in range(3)]
        nonces = [uniform(f"record nonce {length} {at}") for at in range(2)] + [b"\xff" * 16]
        sealed = [sealed_record(material, associated, nonce, text) for nonce, text in zip(nonces, plaintexts)]
        base = [("material", material), ("associated", associated), ("record_bytes", length)]

        def case(name, expect, records):
            sealed_field = ("sealed", b"".join(records))
            cases.append([("name", f"{length} bytes, {name}"), ("expect", expect), *base, sealed_field,
                          ("plaintexts", b"".join(plaintexts))])

        def flipped(record, at):
            return record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :]

        case("three records", "pass", sealed)
        case("a bit of a nonce flipped", "fail", [*sealed[:2], flipped(sealed[2], 0)])
        case("a bit of a ciphertext flipped", "fail", [sealed[0], flipped(sealed[1], 16), sealed[2]])
        case("a bit of a tag flipped", "fail", [flipped(sealed[0], len(sealed[0]) - 1), *sealed[1:]])
        case("tags exchanged", "fail", [sealed[0][:-16] + sealed[1][-16:], sealed[1][:-16] + sealed[0][-16:]])
        other = sealed_record(material, bytes(16), nonces[0], plaintexts[0])
        case("other associated data", "fail", [other])
        case("a byte missing", "fail", [sealed[0][:-1]])
    write("symmetric_records.txt", "Records sealed side by side (symmetric): counter mode, then CBC-MAC.", cases)


def bound_blocks():
    """SIV of one block under a label."""
    cases = []
    for count in (1, 3):
        material = uniform(f"bound material {count}", 32)
        tagger = lambda data: Cipher(algorithms.AES(material[:16]), modes.CBC(bytes(16))).encryptor().update(data)
        masker = lambda data: Cipher(algorithms.AES(material[16:]), modes.ECB()).encryptor().update(data)
        labels = [uniform(f"bound label {count} {at}") for at in range(count)]
        blocks = [uniform(f"bound block {count} {at}") for at in range(count)]
        tags = [tagger(label + block)[-16:] for label, block in zip(labels, blocks)]
        bodies = [bytes(x ^ y for x, y in zip(block, masker(tag))) for block, tag in zip(blocks, tags)]

        def case(name, expect, labels, bodies, tags):
            cases.append([("name", f"{count} blocks, {name}"), ("expect", expect), ("material", material),
                          ("labels", b"".join(labels)), ("blocks", b"".join(blocks)), ("bodies", b"".join(bodies)),
                          ("tags", b"".join(tags))])

        def flipped(block):
            return block[:5] + bytes([block[5] ^ 16]) + block[6:]

        case("as sealed", "pass", labels, bodies, tags)
        case("a bit of a label flipped", "fail", [*labels[:-1], flipped(labels[-1])], bodies, tags)
        case("a bit of a body flipped", "fail", labels, [flipped(bodies[0]), *bodies[1:]], tags)
        case("a bit of a tag flipped", "fail", labels, bodies, [*tags[:-1], flipped(tags[-1])])
        if count > 1:
            case("entries exchanged", "fail", labels, bodies[1:] + bodies[:1], tags[1:] + tags[:1])
    write("bound_block.txt", "Blocks sealed under labels (bound_block): SIV.", cases)


if __name__ == "__main__":
    token_tree()
    garbled_comparator()
    prg_stream()
    symmetric_records()
    bound_blocks()
