//! A progress bar on the terminal; nothing where there is none.

use crate::run::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar for one run after another.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{prefix:32} {wide_bar} {human_pos}/{human_len} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    pub(super) fn show(&self, progress: &Progress) {
        if progress.done == 0 {
            self.0.reset();
        }
        self.0.set_prefix(format!("{}, {}", progress.protocol, progress.stage.title()));
        self.0.set_length(progress.of as u64);
        self.0.set_position(progress.done as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
