"""Second implementation of the hypergeometric sampler and of BCLO.

Writes `hypergeometric.txt` and `bclo.txt` beside itself. Written from the module documentation, straightforward and
slow: whether a proposal is accepted is decided with 150 digits of mpmath.

    pip install cryptography mpmath && python3 kat/hypergeometric.py
"""

import math
from pathlib import Path

import mpmath
from constructions import aes, block, uniform, write
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.cmac import CMAC

mpmath.mp.dps = 150
DIRECT_MAX = 16


class Coins:
    def __init__(self, seed):
        self.seed, self.words, self.counter = seed, [], 0

    def word(self):
        if not self.words:
            made = aes(self.seed, block(self.counter))
            self.counter += 1
            self.words = [int.from_bytes(made[:8], "little"), int.from_bytes(made[8:], "little")]
        return self.words.pop(0)

    def uniform(self, last):
        if last == 0:
            return 0
        bits = last.bit_length()
        while True:
            value = self.word()
            if bits > 64:
                value |= self.word() << 64
            value &= (1 << bits) - 1
            if value <= last:
                return value

    def tail(self, scale, farthest):
        prefix, bits = 0, 0
        while True:
            prefix, bits = prefix << 64 | self.word(), bits + 64
            least = (scale << bits) // (prefix + 1)
            if least > farthest:
                return None
            if prefix and ((scale << bits) - 1) // prefix == least:
                return least

    def less_than(self, ratio):
        prefix, bits = 0, 0
        while True:
            prefix, bits = prefix << 64 | self.word(), bits + 64
            if ratio * mpmath.mpf(2) ** bits >= prefix + 1:
                return True
            if ratio * mpmath.mpf(2) ** bits <= prefix:
                return False


def flat(cells):
    """In binary64 and in this order of operations, as the definition says."""
    margin = 1.0 + 1.0 / (1 << 30)
    cells = [float(cell) for cell in cells]

    def total(reach):
        result = 0.0
        for cell in cells:
            result += 2.0 / (2.0 * cell + reach)
        return result

    reach, curvature = 0.0, total(0.0)
    while curvature * reach * reach < 2.0 * margin:
        reach = math.sqrt(2.0 / curvature) * (1.0 + 1.0 / 64.0)
        curvature = total(reach)
    z = curvature * (reach + 1.0) / 8.0
    root = 1.0 + z * (1.0 + z * (0.5 + z * 0.25))
    fourth = root * root
    half = fourth * fourth
    bound = 0.735758882342885 / curvature * (half * half) * margin
    return int(math.sqrt(bound + 0.25) + 0.5)


def ratio(before, now):
    exponent = mpmath.mpf(0)
    for b, n in zip(before, now):
        exponent += mpmath.loggamma(b) - mpmath.loggamma(n)
    return mpmath.exp(exponent)


def hypergeometric(successes, failures, draws, coins):
    population = successes + failures
    undrawn = population - draws
    items = min(successes, failures, draws, undrawn)
    if items <= DIRECT_MAX:
        def among(marked):
            found = 0
            for taken in range(items):
                found += coins.uniform(population - 1 - taken) < marked - found
            return found

        if draws == 0:
            return 0
        if items == successes:
            return among(draws)
        if items == draws:
            return among(successes)
        if items == failures:
            return draws - among(draws)
        return successes - among(successes)
    mode = (draws + 1) * (successes + 1) // (population + 2)

    def table(drawn):
        return [drawn + 1, successes - drawn + 1, draws - drawn + 1, failures - draws + drawn + 1]

    cells = table(mode)
    s = flat(cells)
    while True:
        part = coins.uniform(4 * s)
        if part <= 2 * s:
            distance, envelope = part - s, mpmath.mpf(1)
        else:
            below = part > 3 * s
            farthest = min(cells[0], cells[3]) - 1 if below else min(cells[1], cells[2]) - 1
            away = coins.tail(s + 1, farthest)
            if away is None:
                continue
            distance, envelope = -away if below else away, mpmath.mpf(s * (s + 1)) / (away * (away + 1))
        if distance == 0:
            return mode
        now = table(mode + distance)
        if min(now) < 1:
            continue
        if coins.less_than(ratio(cells, now) / envelope):
            return mode + distance


def hypergeometric_cases():
    cases = []
    for name, successes, failures, draws, count in [
        ("a handful", 3, 4, 5, 40),
        ("few failures", 900, 7, 450, 20),
        ("few left over", 1000, 3000, 3990, 20),
        ("one by one in a large population", 16, 2**128 - 16, 2**127, 20),
        ("the first size from the envelope", 17, 17, 17, 60),
        ("hundreds", 300, 400, 350, 40),
        ("rare successes", 10**6, 10**12, 10**6, 40),
        ("32 to 64 bits, at the top", 2**32, 2**64 - 2**32, 2**63, 40),
        ("64 to 128 bits, at the top", 2**64, 2**128 - 2**64, 2**127, 40),
        ("lopsided", 2**60 + 1, 2**70, 12345678901234567, 40),
        ("dense", 2**40, 2**33 + 5, 2**39 + 3, 40),
        ("odd", 12345678901, 98765432109876543210, 49382716060000000000, 40),
    ]:
        coins = Coins(uniform(name))
        samples = [hypergeometric(successes, failures, draws, coins) for _ in range(count)]
        cases.append([
            ("name", name), ("successes", successes), ("failures", failures), ("draws", draws),
            ("seed", uniform(name)), ("samples", " ".join(map(str, samples))), ("next_word", coins.word()),
        ])
    write("hypergeometric.txt", "Hypergeometric samples in a row from one generator.", cases, "hypergeometric.py")


def mac(material, message):
    state = CMAC(AES(material))
    state.update(message)
    return state.finalize()


def bclo_encrypt(material, domain_bits, range_bits, value):
    """Also how many hypergeometric samples it took."""
    domain, codomain, calls = (0, (1 << domain_bits) - 1), (0, (1 << range_bits) - 1), 0
    while True:
        message = b"".join(bound.to_bytes(8, "little") for bound in domain)
        message += b"".join(bound.to_bytes(16, "little") for bound in codomain)
        coins = Coins(mac(material, message))
        points, size = domain[1] - domain[0] + 1, codomain[1] - codomain[0] + 1
        if points == 1:
            return codomain[0] + coins.uniform(size - 1), calls
        half = size // 2
        below = hypergeometric(points, size - points, half, coins)
        calls += 1
        if value < domain[0] + below:
            domain = (domain[0], domain[0] + below - 1)
            codomain = (codomain[0], codomain[0] + half - 1)
        else:
            domain = (domain[0] + below, domain[1])
            codomain = (codomain[0] + half, codomain[1])


def bclo_cases():
    cases = []
    for domain_bits, range_bits, values in [
        (32, 64, [0, 1, 2, 1000, 0x7FFFFFFF, 0x80000000, 0xDEADBEEF, 0xFFFFFFFE, 0xFFFFFFFF]),
        (64, 128, [0, 1, 1 << 63, 0x0123456789ABCDEF, (1 << 64) - 1]),
        (8, 8, [0, 77, 255]),
        (2, 3, [0, 1, 2, 3]),
        (16, 17, [0, 1, 40000, 65535]),
    ]:
        material = uniform(f"bclo {domain_bits} {range_bits}")
        for value in values:
            ciphertext, samples = bclo_encrypt(material, domain_bits, range_bits, value)
            cases.append([
                ("name", f"{value:#x} of {domain_bits} bits"), ("material", material),
                ("domain_bits", domain_bits), ("range_bits", range_bits), ("value", value),
                ("ciphertext", ciphertext.to_bytes(16, "big")), ("hypergeometric_samples", samples),
            ])
    write("bclo.txt", "BCLO: ciphertexts under the material of the tape's pseudorandom function.", cases, "hypergeometric.py")


if __name__ == "__main__":
    hypergeometric_cases()
    bclo_cases()
