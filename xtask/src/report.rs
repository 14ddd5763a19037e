//! What a set of checks found, and how it is printed.

/// One thing that is wrong, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule that was broken.
    pub rule: &'static str,
    /// Where: a dependency edge, or a file and line.
    pub place: String,
    /// What is wrong there.
    pub wrong: String,
    /// What to do instead.
    pub fix: String,
}

/// The rules that were checked and what they found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Name of the checker.
    pub name: &'static str,
    /// Every rule that was checked.
    pub rules: Vec<&'static str>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl Report {
    /// How many rules hold.
    pub fn passed(&self) -> usize {
        self.rules.len() - self.failed()
    }

    /// How many rules are broken, however often.
    pub fn failed(&self) -> usize {
        self.rules.iter().filter(|rule| self.findings.iter().any(|finding| finding.rule == **rule)).count()
    }

    /// Prints findings and a closing line; true if nothing was found.
    pub fn print(&self) -> bool {
        for finding in &self.findings {
            let Finding { rule, place, wrong, fix } = finding;
            println!("error[{}/{rule}]: {place}\n  {wrong}\n  fix: {fix}\n", self.name);
        }
        println!("{}: {} rules hold, {} broken", self.name, self.passed(), self.failed());
        self.findings.is_empty()
    }
}
