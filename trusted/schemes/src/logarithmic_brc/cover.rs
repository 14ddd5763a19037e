//! Covers of ranges by nodes of a binary tree over the domain.
//!
//! *Paper.* Kiayias, Papadopoulos, Triandopoulos, Zacharias, CCS 2013 (ePrint 2013/379), section 3: best range cover and
//! uniform range cover.

/// A node: all values `x` with `x >> level == prefix`. Level 0 are the values themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Height above the values.
    pub level: u8,
    /// The high bits that the node's values have in common.
    pub prefix: u64,
}

impl Node {
    /// The node of `level` above a value.
    #[must_use]
    pub fn above(value: u64, level: u8) -> Self {
        Self { level, prefix: value.checked_shr(u32::from(level)).unwrap_or(0) }
    }

    /// The root over values of `domain_bits` bits.
    #[must_use]
    pub fn root(domain_bits: u8) -> Self {
        Self { level: domain_bits, prefix: 0 }
    }

    /// Whether a value is below the node.
    #[must_use]
    pub fn covers(self, value: u64) -> bool {
        Self::above(value, self.level) == self
    }

    /// The least value below the node.
    #[must_use]
    pub fn least(self) -> u64 {
        self.prefix.checked_shl(u32::from(self.level)).unwrap_or(0)
    }

    /// Whether it is the lower half of its parent; the root is taken for one.
    pub(super) fn is_lower_half(self) -> bool {
        self.prefix & 1 == 0
    }

    /// The other half of its parent.
    pub(super) fn other_half(self) -> Self {
        Self { prefix: self.prefix ^ 1, ..self }
    }

    fn halves(self) -> [Self; 2] {
        let level = self.level.saturating_sub(1);
        [Self { level, prefix: self.prefix << 1 }, Self { level, prefix: self.prefix << 1 | 1 }]
    }
}

/// Which cover a search sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cover {
    /// Best range cover: the fewest nodes. How many, and of which levels, says something of where the range lies.
    #[default]
    Best,
    /// Uniform range cover: nodes are split until their levels depend on the range's width alone. At most about twice
    /// as many nodes.
    Uniform,
}

impl Cover {
    /// The nodes that cover `lower..=upper`, each value once, in order; none if `lower > upper`.
    #[must_use]
    pub fn of(self, lower: u64, upper: u64) -> Vec<Node> {
        let mut nodes = brc(lower, upper);
        if self == Self::Uniform {
            make_uniform(&mut nodes);
        }
        nodes.sort_unstable_by_key(|node| node.least());
        nodes
    }
}

/// Climbs from both ends: an end that is not its parent's outer child is covered by itself.
fn brc(lower: u64, upper: u64) -> Vec<Node> {
    let mut nodes = Vec::new();
    let (mut low, mut high, mut level) = (lower, upper, 0);
    while low <= high {
        if low == high {
            nodes.push(Node { level, prefix: low });
            break;
        }
        if low & 1 == 1 {
            nodes.push(Node { level, prefix: low });
            low += 1;
        }
        if high & 1 == 0 {
            nodes.push(Node { level, prefix: high });
            high -= 1;
        }
        if low > high {
            break;
        }
        (low, high, level) = (low >> 1, high >> 1, level + 1);
    }
    nodes
}

/// Splits the lowest node above each level that has none, from the bottom up, until no level below the highest is empty.
fn make_uniform(nodes: &mut Vec<Node>) {
    loop {
        let highest = nodes.iter().map(|node| node.level).max().unwrap_or(0);
        let Some(empty) = (0..highest).find(|level| nodes.iter().all(|node| node.level != *level)) else {
            return;
        };
        let above = nodes.iter().enumerate().filter(|(_, node)| node.level > empty);
        let Some((at, _)) = above.min_by_key(|(_, node)| node.level) else {
            return;
        };
        let halves = nodes.swap_remove(at).halves();
        nodes.extend(halves);
    }
}

#[cfg(test)]
mod tests;
