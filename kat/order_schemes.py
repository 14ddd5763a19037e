"""Second implementation of the order-revealing schemes that no standard gives vectors for: CLWW and Lewi-Wu.

Writes `clww.json` and `lewi_wu.json` beside itself. Written from the module documentation, straightforward and slow,
over the package `cryptography`:

    pip install cryptography && python3 kat/order_schemes.py
"""

import hashlib
import hmac
import json
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

HERE = Path(__file__).parent


def aes(key, block):
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(block) + encryptor.finalize()


def uniform(name, length=32):
    return hashlib.sha256(name.encode()).digest()[:length]


def child(index_key, name):
    """One step down the key tree, its first 16 bytes: HKDF-SHA256 of one output block."""
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in (name, b""))
    extracted = hmac.digest(b"arras key tree 1", index_key, "sha256")
    return hmac.digest(extracted, framed + b"\x01", "sha256")[:16]


def modulo_3(block):
    return int.from_bytes(block, "big") % 3


def clww(index_key, width, value):
    key = child(index_key, b"clww prefix")
    ones = twos = 0
    for position in range(width):
        prefix = value >> (width - position) << (64 - position)
        image = aes(key, bytes([width, position]) + bytes(6) + prefix.to_bytes(8, "little"))
        bit = value >> (width - 1 - position) & 1
        trit = (modulo_3(image) + bit) % 3
        ones, twos = ones << 1 | (trit == 1), twos << 1 | (trit == 2)
    return twos.to_bytes(width // 8, "big") + ones.to_bytes(width // 8, "big")


class LewiWu:
    def __init__(self, index_key, width, block_bits):
        self.width, self.block_bits = width, block_bits
        self.slot_key = child(index_key, b"lewi_wu block")
        self.permutation_key = child(index_key, b"lewi_wu permutation")

    def image(self, key, used_for, index, prefix, number):
        head = bytes([self.width, self.block_bits, used_for, index])
        return aes(key, head + number.to_bytes(4, "little") + prefix.to_bytes(8, "little"))

    def pieces(self, value):
        count = self.width // self.block_bits
        for index in range(count):
            upto = value >> (self.block_bits * (count - 1 - index))
            yield index, upto >> self.block_bits, upto % (1 << self.block_bits)

    def order(self, index, prefix):
        """The value at each slot: element i swaps with a place among those so far, itself included."""
        size = 1 << self.block_bits
        stream = b"".join(self.image(self.permutation_key, 1, index, prefix, at) for at in range(size // 4))
        table = []
        for element in range(size):
            word = int.from_bytes(stream[4 * element : 4 * element + 4], "little")
            product = word * (element + 1)
            assert product % (1 << 32) >= (1 << 32) % (element + 1), "an unfair word: choose another key"
            choice = product >> 32
            table.append(element)
            table[element] = table[choice]
            table[choice] = element
        return table

    def left(self, value):
        parts = b""
        for index, prefix, block in self.pieces(value):
            slot = self.order(index, prefix).index(block)
            parts += self.image(self.slot_key, 0, index, prefix, slot) + bytes([slot])
        return parts

    def right(self, value, nonce):
        trits = []
        for index, prefix, block in self.pieces(value):
            for slot, at_slot in enumerate(self.order(index, prefix)):
                point = bytes(a ^ b for a, b in zip(self.image(self.slot_key, 0, index, prefix, slot), nonce))
                mask = modulo_3(aes(b"arras lewi-wu pi", point))
                compared = 0 if at_slot == block else 1 if at_slot < block else 2
                trits.append((mask + compared) % 3)
        packed = [sum(trit << (2 * at) for at, trit in enumerate(trits[i : i + 4])) for i in range(0, len(trits), 4)]
        return nonce + bytes(packed)


def flipped(text, at, bits=1):
    return text[:at] + bytes([text[at] ^ bits]) + text[at + 1 :]


def write(file, about, cases):
    def shown(value):
        return value.hex() if isinstance(value, bytes) else str(value)

    cases = [{field: shown(value) for field, value in case.items()} for case in cases]
    (HERE / file).write_text(json.dumps({"about": about, "cases": cases}, indent=1) + "\n")


def values(width):
    greatest = (1 << width) - 1
    return [0, 1, greatest, greatest // 3, int.from_bytes(uniform(f"value {width}")[: width // 8], "big")]


def clww_cases():
    cases = []
    for width in (32, 64):
        index_key = uniform(f"clww {width}")
        for value in values(width):
            base = {"index_key": index_key, "width_bits": width, "value": value}
            stored = clww(index_key, width, value)
            for operation in ("encrypt", "decrypt"):
                cases.append({"name": f"{width} bits, {operation} {value}", "expect": "pass", "operation": operation,
                              **base, "stored": stored})

        def fail(name, stored):
            cases.append({"name": f"{width} bits, {name}", "expect": "fail", "operation": "decrypt",
                          **base, "stored": stored})

        fail("another key", clww(uniform("another"), width, value))
        half = len(stored) // 2
        ones, twos = stored[half] >> 7, stored[0] >> 7
        # 0 becomes 1, 1 becomes 2, 2 becomes 0.
        other = flipped(flipped(stored, 0, 0x80 * (ones ^ twos)), half, 0x80 * (1 - twos))
        fail("the first trit changed", other)
        fail("a byte missing", stored[1:])
        fail("a byte too many", stored + b"\0")
        fail("empty", b"")
        fail("a trit of 3", bytes([stored[0] | 1]) + stored[1:half] + bytes([stored[half] | 1]) + stored[half + 1 :])
        fail("all zeros", bytes(len(stored)))
    write("clww.json", "CLWW: made by order_schemes.py, a second implementation.", cases)


def lewi_wu_cases():
    cases = []
    for width, block_bits in ((32, 2), (32, 4), (64, 4), (32, 8), (64, 8)):
        index_key, seed = uniform(f"lewi_wu {width}"), uniform(f"nonce {width} {block_bits}", 16)
        scheme, nonce = LewiWu(index_key, width, block_bits), aes(seed, bytes(16))
        base = {"index_key": index_key, "width_bits": width, "block_bits": block_bits}
        for value in values(width)[2:]:
            left, right = scheme.left(value), scheme.right(value, nonce)
            name = f"{width} bits by {block_bits}"
            whole = {**base, "value": value, "nonce_seed": seed, "left": left, "right": right}
            cases.append({"name": f"{name}, encrypt {value}", "expect": "pass", "operation": "encrypt", **whole})
            cases.append({"name": f"{name}, decrypt {value}", "expect": "pass", "operation": "decrypt", **whole})
        for other in (value, value - 1, value + 1, value ^ 1 << (width - 1)):
            order = "equal" if other == value else "less" if other < value else "greater"
            cases.append({"name": f"{name}, compare {other} with {value}", "expect": "pass", "operation": "compare",
                          **base, "left": scheme.left(other), "right": right, "order": order})

        def fail(what, **fields):
            cases.append({"name": f"{name}, {what}", "expect": "fail", **base, "value": value, "order": "equal",
                          **fields})

        stranger = LewiWu(uniform("another"), width, block_bits)
        fail("decrypt, another key", operation="decrypt", right=stranger.right(value, nonce))
        fail("decrypt, another nonce", operation="decrypt", right=flipped(right, 3))
        fail("decrypt, the last trit changed", operation="decrypt", right=flipped(right, len(right) - 1, 0x40))
        fail("decrypt, a byte missing", operation="decrypt", right=right[:-1])
        fail("compare, left too short", operation="compare", left=left[:-1], right=right)
        fail("compare, right too long", operation="compare", left=left, right=right + b"\0")
        fail("compare, trits of 3", operation="compare", left=left, right=right[:16] + b"\xff" * (len(right) - 16))
        if block_bits < 8:
            outside = left[:16] + bytes([1 << block_bits]) + left[17:]
            fail("compare, a slot outside", operation="compare", left=outside, right=right)
    write("lewi_wu.json", "Lewi-Wu: made by order_schemes.py, a second implementation.", cases)


clww_cases()
lewi_wu_cases()
