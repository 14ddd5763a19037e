"""Second implementation of the pairing hash (shared/primitives/src/pph.rs). Writes `pairing_hash.txt` beside itself.

Written from the module documentation over the packages `py_ecc` (curve and compression) and `cryptography`:

    pip install py_ecc cryptography && python3 kat/pairing_hash.py
"""

import hashlib
import hmac
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from py_ecc.bls.point_compression import compress_G1, compress_G2
from py_ecc.optimized_bls12_381 import G1, G2, Z1, b, curve_order, is_on_curve, multiply
from py_ecc.fields import optimized_bls12_381_FQ as FQ
from py_ecc.optimized_bls12_381 import field_modulus, is_inf

WIDE = 48


def uniform(name, length=16):
    return hashlib.sha256(name.encode()).digest()[:length]


def stream(seed, length):
    encryptor = Cipher(algorithms.AES(seed), modes.ECB()).encryptor()
    blocks = b"".join(encryptor.update(at.to_bytes(16, "little")) for at in range(length // 16 + 1))
    return blocks[:length]


def hkdf(material, salt, info, length):
    extracted = hmac.new(salt, material, hashlib.sha256).digest()
    out, last = b"", b""
    for at in range(1, length // 32 + 2):
        last = hmac.new(extracted, last + info + bytes([at]), hashlib.sha256).digest()
        out += last
    return out[:length]


def exponent(material, number):
    info = (16).to_bytes(8, "big") + (number % 2**128).to_bytes(16, "big")
    return int.from_bytes(hkdf(material, b"pph exponent", info, WIDE), "big") % curve_order


def g1(scalar):
    return compress_G1(multiply(G1, scalar)).to_bytes(48, "big")


def g2(scalar):
    high, low = compress_G2(multiply(G2, scalar))
    return high.to_bytes(48, "big") + low.to_bytes(48, "big")


def scalar(seed):
    return int.from_bytes(stream(seed, WIDE), "big") % curve_order


def stored(material, seed, numbers):
    common = scalar(seed)
    return g1(common) + b"".join(g1(common * exponent(material, number) % curve_order) for number in numbers)


def query(material, seed, numbers):
    common = scalar(seed)
    near = [number + step for number in numbers for step in (1, -1)]
    return g2(common) + b"".join(g2(common * exponent(material, number) % curve_order) for number in near)


def neighbours(stored_numbers, query_numbers):
    for at, number in enumerate(query_numbers):
        for step, side in ((1, "successor"), (-1, "predecessor")):
            if (number + step) % 2**128 in stored_numbers:
                return f"{stored_numbers.index((number + step) % 2**128)} {at} {side}"
    return "none"


def outside_group():
    """A point on the first curve whose order is not the group's."""
    x = 1
    while True:
        square = (x**3 + 4) % field_modulus
        y = pow(square, (field_modulus + 1) // 4, field_modulus)
        if y * y % field_modulus == square:
            point = (FQ(x), FQ(y), FQ(1))
            assert is_on_curve(point, b)
            if not is_inf(multiply(point, curve_order)):
                return compress_G1(point).to_bytes(48, "big")
        x += 1


def main():
    material = uniform("pph material", 32)
    top = 2**128 - 1
    lists = [
        ("a stored successor", [5, 900], [17, 4]),
        ("a stored predecessor", [5, 900], [901, 44]),
        ("no neighbours", [5, 900], [5, 902]),
        ("the successor of the greatest number is zero", [0], [top]),
        ("the predecessor of zero is the greatest number", [top], [0]),
    ]
    cases = []
    for name, stored_numbers, query_numbers in lists:
        seeds = uniform(f"stored seed {name}"), uniform(f"query seed {name}")
        fields = [("name", name), ("expect", "pass"), ("material", material)]
        fields += [("stored_seed", seeds[0]), ("query_seed", seeds[1])]
        fields += [("stored_number", number.to_bytes(16, "big")) for number in stored_numbers]
        fields += [("query_number", number.to_bytes(16, "big")) for number in query_numbers]
        fields += [("stored", stored(material, seeds[0], stored_numbers))]
        fields += [("query", query(material, seeds[1], query_numbers))]
        cases.append(fields + [("neighbours", neighbours(stored_numbers, query_numbers))])
    good = stored(material, uniform("seed"), [1])
    bad = [
        ("a point outside the group of prime order", good[:48] + outside_group()),
        ("the neutral element", compress_G1(Z1).to_bytes(48, "big") + good[48:]),
        ("an x that is no field element", bytes([0x9F]) + b"\xff" * 47 + good[48:]),
        ("a point without the mark of compression", bytes([good[0] & 0x7F]) + good[1:]),
        ("a byte too few", good[:-1]),
        ("a byte too many", good + b"\0"),
        ("a point too few", good[:48]),
    ]
    for name, value in bad:
        cases.append([("name", name), ("expect", "fail"), ("stored", value)])
    lines = ["# Pairing hash (pph).", "# Made by pairing_hash.py, a second implementation."]
    for case in cases:
        lines.append("")
        lines += [f"{field}: {value.hex() if isinstance(value, bytes) else value}" for field, value in case]
    (Path(__file__).parent / "pairing_hash.txt").write_text("\n".join(lines) + "\n")


main()
