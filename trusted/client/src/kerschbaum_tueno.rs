//! Keyed half of: Kerschbaum-Tueno (ESORICS 2019), a rotated array searched by the client.
